"""One run of `convir-opt`: every chunk of the input parsed, verified, rewritten and printed."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from convir.cli.arguments.opt import TOOL
from convir.cli.arguments.parser import STREAM, UsageError
from convir.cli.arguments.stages import MLIR
from convir.cli.files.chunks import SEPARATOR, Chunk, split
from convir.cli.files.constant_files import ConstantFile, constant_file
from convir.cli.files.model_files import is_model
from convir.cli.files.module_text import Style, module_text
from convir.cli.files.streams import (
    STDIN_NAME,
    check_writable,
    debug_hint,
    described,
    read_input,
    report_traceback,
    write_output,
    write_stdout,
)
from convir.cli.jobs.plan import Plan, StageDumper, make_folder, make_plan, stem_of
from convir.cli.jobs.reproducer import Reproducer, pipeline_of, pipeline_text
from convir.cli.reports.expectations import compare, expectations
from convir.cli.reports.instruments import PrintRemarks
from convir.cli.reports.print_ir import Moments, PrintIR
from convir.cli.reports.remark_file import RemarkFile
from convir.cli.reports.reporter import Reporter
from convir.cli.reports.statistics import Statistics
from convir.cli.reports.timing_table import START_UP, print_timing, seconds_since_process_start
from convir.dialects.context import new_context, parse_module
from convir.dialects.diagnostics import Diagnostic, DiagnosticError, diagnostic_of, verify
from convir.passes.manager.pass_manager import Instrument, PassCrashError, Timing, apply_passes
from convir.passes.manager.remarks import collect

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.cli.jobs.html_report import HtmlReport


MOST_ELEMENTS = 64
"""Constants of a model that have more are printed without them, where a page is asked for."""


def process_file(options: Namespace, *, owns_process: bool) -> int:
    """Run the whole job that `options` describe; returns the exit status.

    Raises:
        UsageError: the options name a file, a pass or a pipeline that cannot be used.
    """
    files = (options.output, options.crash_reproducer, options.remarks or None, options.html)
    for path in files:
        if path is not None:
            check_writable(path)
    name = STDIN_NAME if options.file == STREAM else options.file
    data = read_input(options.file) if options.run_reproducer else b""
    if options.run_reproducer:
        options.passes = pipeline_of(data, name)
    job = _Job(
        options=options,
        name=name,
        plan=make_plan(options),
        ctx=new_context(allow_unregistered=options.allow_unregistered_dialect),
        reporter=Reporter(name),
        timing=Timing(),
        dump_folder=make_folder(options.dump_stages_to) if options.dump_stages_to else None,
        constants=constant_file(TOOL, options.output),
        style=_style(options),
        statistics=Statistics() if options.pass_statistics else None,
        remark_file=RemarkFile(options.remarks) if options.remarks else None,
        page=None if options.html is None else _page(options),
    )
    if options.dump_pass_pipeline:
        sys.stderr.write(f"{pipeline_text(job.plan.passes)}\n")
    if owns_process:
        job.timing.seconds[START_UP] = seconds_since_process_start()
    from_model = job.page is not None and job.page.reads_model
    job.process(data or (b"" if from_model else read_input(options.file)))
    if options.timing:
        print_timing(job.timing.seconds)
    if job.statistics is not None:
        job.statistics.print()
    if job.remark_file is not None:
        job.remark_file.write()
    return 1 if job.reporter.errors else 0


def _page(options: Namespace) -> HtmlReport:
    # Only a run that writes a page imports what it shows.
    from convir.cli.jobs.html_report import HtmlReport  # noqa: PLC0415

    return HtmlReport.of(options)


def _style(options: Namespace) -> Style:
    most: int | None = options.elide_constants_if_larger
    if most is None and options.html is not None and options.output is None:
        most = MOST_ELEMENTS if is_model(options.file) else None
    most_elements = inf if most is None else most
    return Style(options.print_op_generic, options.print_debuginfo, most_elements)


@dataclass
class _Job:
    """What all chunks of one run share."""

    options: Namespace
    name: str
    """What diagnostics call the input."""
    plan: Plan
    ctx: Context
    reporter: Reporter
    timing: Timing
    dump_folder: Path | None
    constants: ConstantFile | None
    """Where constants go that were computed; None where they stand in the text."""
    style: Style
    statistics: Statistics | None
    remark_file: RemarkFile | None
    """Where remarks go instead of stderr."""
    page: HtmlReport | None
    """The page that is written besides."""

    def process(self, data: bytes) -> None:
        """Process all chunks and write what they become; errors are with the reporter."""
        self.reporter.show(data)
        chunks = split(data) if self.options.split_input_file else (Chunk(data),)
        outputs = [self._process_chunk(number, chunk) for number, chunk in enumerate(chunks)]
        output = f"{SEPARATOR}\n".join(text for text in outputs if text is not None)
        if self.options.output is None:
            write_stdout(output)
        elif not self.reporter.errors:
            write_output(self.options.output, output)
            if self.constants is not None:
                self.constants.write()

    def _process_chunk(self, number: int, chunk: Chunk) -> str | None:
        """What `chunk` becomes, or None; with `--verify-diagnostics`, its comments compared."""
        if not self.options.verify_diagnostics:
            return self._reported(number, chunk)
        self.reporter.holding = True
        output = self._reported(number, chunk)
        self.reporter.holding = False
        try:
            wrong = compare(expectations(chunk, self.name), self.reporter.release(), self.name)
        except DiagnosticError as exc:
            wrong = exc.diagnostics
        for diagnostic in wrong:
            self.reporter.report(diagnostic)
        return output

    def _reported(self, number: int, chunk: Chunk) -> str | None:
        """What `chunk` becomes, or None after what went wrong was reported."""
        try:
            return self._compile(number, chunk)
        except (UsageError, OSError):
            raise
        except Exception as exc:
            report_traceback(debug=self.options.debug)
            for diagnostic in self._diagnostics_of(exc):
                self.reporter.report(diagnostic)
            return None

    def _diagnostics_of(self, exc: Exception) -> tuple[Diagnostic, ...]:
        if isinstance(exc, DiagnosticError):
            return exc.diagnostics
        if isinstance(exc, RecursionError):
            return (Diagnostic(self.name, 0, 0, "error", "nested too deeply"),)
        reason = str(exc) if isinstance(exc, PassCrashError) else described(exc)
        message = f"defect of convir: {reason}{debug_hint(debug=self.options.debug)}"
        return (Diagnostic(self.name, 0, 0, "error", message),)

    def _compile(self, number: int, chunk: Chunk) -> str:
        """The text of `chunk` after all passes, with the stages dumped on the way."""
        with self.timing.phase("parse"):
            module = self._parse(chunk)
        with self.timing.phase("verify"):
            verify(module)
        dumper = self._stage_dumper(number)
        if dumper is not None:
            dumper.start(module)
        if self.plan.passes:
            self._apply_passes(number, module, dumper)
        if dumper is not None:
            dumper.finish(module)
        if self.page is not None:
            with self.timing.phase("page"):
                self.page.write(module, self.plan)
        with self.timing.phase("print"):
            if self.options.target != MLIR:
                return self._code(module)
            if self.constants is not None:
                self.constants.take(module)
            return self._text(module)

    def _parse(self, chunk: Chunk) -> ModuleOp:
        if self.page is not None and self.page.reads_model:
            return self.page.read_model()
        try:
            return parse_module(chunk.data, self.name, self.ctx, line_offset=chunk.line_offset)
        except ParseError as exc:
            raise DiagnosticError(diagnostic_of(exc)) from exc

    def _apply_passes(self, number: int, module: ModuleOp, dumper: StageDumper | None) -> None:
        path: str | None = self.options.crash_reproducer
        reproducer = None if path is None else Reproducer(path, self._full_text)
        with collect() as remarks:
            recorder = None
            if self.page is not None:
                recorder = self.page.start(module, remarks, self.timing)
            names_function = sum(isinstance(op, FuncOp) for op in module.walk()) > 1
            report = partial(self.reporter.report_remark, names_function=names_function)
            printer = PrintRemarks(report, remarks)
            try:
                apply_passes(
                    self.ctx,
                    module,
                    self.plan.passes,
                    instruments=self._instruments(number, printer, dumper, reproducer, recorder),
                    timing=self.timing,
                    verify_each=self.options.verify_each,
                )
            except Exception:
                if reproducer is not None:
                    self._write(reproducer)
                raise
            finally:
                if self.options.remarks == "":
                    printer.flush()
                if self.remark_file is not None:
                    self.remark_file.remarks += remarks
                if self.statistics is not None:
                    self.statistics.count_remarks(remarks)

    def _write(self, reproducer: Reproducer) -> None:
        reproducer.write()
        message = f"'convir-opt --run-reproducer {reproducer.path}' repeats what fails"
        self.reporter.report(Diagnostic(self.name, 0, 0, "note", message))

    def _instruments(
        self,
        number: int,
        printer: PrintRemarks,
        dumper: StageDumper | None,
        reproducer: Reproducer | None,
        recorder: Instrument | None,
    ) -> tuple[Instrument, ...]:
        """What watches the passes, in the order of its reports."""
        options = self.options
        moments = Moments.of(options)
        is_asked: tuple[tuple[object, Instrument | None], ...] = (
            (True, reproducer),
            (options.remarks == "", printer),
            (True, dumper),
            (True, None if moments is None else self._print_ir(moments, number)),
            (True, self.statistics),
            (True, recorder),
            (options.check_each, self._check_each() if options.check_each else None),
        )
        return tuple(one for asked, one in is_asked if asked and one is not None)

    def _print_ir(self, moments: Moments, number: int) -> PrintIR:
        tree: str | None = self.options.print_ir_tree_dir
        if tree is None:
            return PrintIR(self._text, moments)
        chunk = f"-{number}" if self.options.split_input_file else ""
        return PrintIR(
            self._text, moments, make_folder(f"{tree}/builtin_module_no-symbol-name{chunk}")
        )

    def _check_each(self) -> Instrument:
        # Only a run that checks imports NumPy and the reference, and holds arrays in cycles.
        from convir.cli.jobs.check_each import parse_budget  # noqa: PLC0415
        from convir.reference.checking.check_each import CheckEach  # noqa: PLC0415

        gc.enable()
        budget = parse_budget(self.options.check_budget)
        return CheckEach(self._report_check, self.options.check_seed, budget)

    def _report_check(self, diagnostic: Diagnostic) -> None:
        if self.remark_file is not None:
            self.remark_file.checks.append(diagnostic)
        if self.page is not None:
            self.page.collector.checked(diagnostic)
        if diagnostic.severity != "remark" or self.options.remarks == "":
            self.reporter.report(diagnostic)

    def _stage_dumper(self, number: int) -> StageDumper | None:
        if self.dump_folder is None:
            return None
        stem = stem_of(self.options.file, number if self.options.split_input_file else None)
        return StageDumper(self.dump_folder, stem, self.plan, self._text)

    def _code(self, module: ModuleOp) -> str:
        """The code of all kernels."""
        # A run that stays in MLIR imports no code generator.
        from convir.lowering.kernel_code import cuda_code, llvm_code  # noqa: PLC0415
        from convir.lowering.kernels.host.target import target  # noqa: PLC0415
        from convir.lowering.kernels.target import DEFAULT_TARGET  # noqa: PLC0415

        if self.options.target == "cuda":
            return cuda_code(module, DEFAULT_TARGET)
        return llvm_code(module, target())

    def _text(self, module: ModuleOp) -> str:
        return module_text(module, self.ctx, self.style)

    def _full_text(self, module: ModuleOp) -> str:
        """A text that reads back as the same module."""
        return module_text(module, self.ctx)
