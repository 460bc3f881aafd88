"""One run of `convir-opt`: every chunk of the input parsed, verified, rewritten and printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.utils.exceptions import ParseError

from convir.cli.arguments import UsageError
from convir.cli.chunks import SEPARATOR, Chunk, split
from convir.cli.expectations import compare, expectations
from convir.cli.instruments import PrintIR, module_text
from convir.cli.reporter import Reporter
from convir.cli.stages import DEFAULT_PIPELINE, INPUT, TENSOR, dump, prepare_folder
from convir.cli.streams import (
    STDIN,
    STDIN_NAME,
    check_writable,
    debug_hint,
    described,
    read_input,
    report_traceback,
    write_output,
    write_stdout,
)
from convir.cli.timing_table import START_UP, print_timing, seconds_since_process_start
from convir.dialects.context import new_context, parse_module
from convir.dialects.diagnostics import Diagnostic, DiagnosticError, diagnostic_of, verify
from convir.passes.manager import Instrument, PassCrashError, Timing, apply_passes
from convir.passes.pipeline_text import PipelineError, named_pipeline, parse_pipeline
from convir.passes.remarks import collect

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


def process_file(options: Namespace, *, owns_process: bool) -> int:
    """Run the whole job that `options` describe; returns the exit status.

    Raises:
        UsageError: the options name a file, a pass or a pipeline that cannot be used.
    """
    if options.output is not None:
        check_writable(options.output)
    name = STDIN_NAME if options.file == STDIN else options.file
    job = _Job(
        options=options,
        name=name,
        passes=_selected_passes(options),
        ctx=new_context(allow_unregistered=options.allow_unregistered_dialect),
        reporter=Reporter(name),
        timing=Timing(),
        dump_folder=prepare_folder(options.dump_stages_to) if options.dump_stages_to else None,
    )
    if owns_process:
        job.timing.seconds[START_UP] = seconds_since_process_start()
    job.process(read_input(options.file))
    if options.timing:
        print_timing(job.timing.seconds)
    return 1 if job.reporter.errors else 0


def _selected_passes(options: Namespace) -> Sequence[ModulePass]:
    pipeline: str | None = options.pipeline
    passes: str | None = options.passes
    if options.compile_to is not None and pipeline is None and passes is None:
        pipeline = DEFAULT_PIPELINE
    try:
        selected = (
            named_pipeline(pipeline) if pipeline is not None else parse_pipeline(passes or "")
        )
    except PipelineError as exc:
        raise UsageError(str(exc)) from exc
    return () if options.compile_to == INPUT else selected


@dataclass
class _Job:
    """What all chunks of one run share."""

    options: Namespace
    name: str
    """What diagnostics call the input."""
    passes: Sequence[ModulePass]
    ctx: Context
    reporter: Reporter
    timing: Timing
    dump_folder: Path | None

    def process(self, data: bytes) -> None:
        """Process all chunks and write what they become; errors are with the reporter."""
        chunks = split(data) if self.options.split_input_file else (Chunk(data),)
        outputs = [self._process_chunk(number, chunk) for number, chunk in enumerate(chunks)]
        output = f"{SEPARATOR}\n".join(text for text in outputs if text is not None)
        if self.options.output is None:
            write_stdout(output)
        elif not self.reporter.errors:
            write_output(self.options.output, output)

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
        message = f"internal: {reason}{debug_hint(debug=self.options.debug)}"
        return (Diagnostic(self.name, 0, 0, "error", message),)

    def _compile(self, number: int, chunk: Chunk) -> str:
        """The text of `chunk` after all passes, with the stages dumped on the way."""
        with self.timing.phase("parse"):
            module = self._parse(chunk)
        with self.timing.phase("verify"):
            verify(module)
        self._dump(number, INPUT, module)
        if self.passes:
            self._apply_passes(module)
        if self.options.compile_to != INPUT:
            self._dump(number, TENSOR, module)
        with self.timing.phase("print"):
            return self._text(module)

    def _parse(self, chunk: Chunk) -> ModuleOp:
        try:
            return parse_module(chunk.data, self.name, self.ctx, line_offset=chunk.line_offset)
        except ParseError as exc:
            raise DiagnosticError(diagnostic_of(exc)) from exc

    def _apply_passes(self, module: ModuleOp) -> None:
        with collect() as remarks:
            try:
                apply_passes(
                    self.ctx,
                    module,
                    self.passes,
                    instruments=self._instruments(),
                    timing=self.timing,
                    verify_each=self.options.verify_each,
                )
            finally:
                if self.options.remarks:
                    for remark in remarks:
                        self.reporter.report_remark(remark)

    def _instruments(self) -> Sequence[Instrument]:
        instruments: list[Instrument] = []
        before_all: bool = self.options.print_ir_before_all
        after_all: bool = self.options.print_ir_after_all
        after_change: bool = self.options.print_ir_after_change
        if before_all or after_all or after_change:
            instruments.append(PrintIR(self._text, before_all, after_all, after_change))
        if self.options.check_each:
            instruments.append(self._check_each())
        return instruments

    def _check_each(self) -> Instrument:
        # NumPy and the reference are imported only by a run that checks.
        from convir.cli.check_each import CheckEach, parse_budget  # noqa: PLC0415

        budget = parse_budget(self.options.check_budget)
        return CheckEach(self._report_check, self.name, self.options.check_seed, budget)

    def _report_check(self, diagnostic: Diagnostic) -> None:
        if diagnostic.severity != "remark" or self.options.remarks:
            self.reporter.report(diagnostic)

    def _text(self, module: ModuleOp) -> str:
        return module_text(module, self.ctx, generic=self.options.print_op_generic)

    def _dump(self, number: int, stage: str, module: ModuleOp) -> None:
        if self.dump_folder is None:
            return
        stem = "stdin" if self.options.file == STDIN else Path(self.options.file).stem
        if self.options.split_input_file:
            stem = f"{stem}-{number}"
        dump(self.dump_folder, stem, stage, self._text(module))
