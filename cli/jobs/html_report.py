"""`--html`: the page of one run of `convir-opt`, and the sources that it may be of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from xdsl.utils.exceptions import PassFailedException

from convir.cli.arguments.parser import STREAM, UsageError
from convir.cli.arguments.stages import STAGES, TENSOR
from convir.cli.files.model_files import is_model, shape_of
from convir.cli.files.streams import STDIN_NAME, write_output
from convir.cli.jobs.plan import device_of
from convir.dialects.diagnostics import Diagnostic, DiagnosticError, one_line
from convir.frontends.sources import is_line, read_source
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.passes.manager.pass_manager import Timing
from convir.report.collect import Collector
from convir.report.explain import title_of
from convir.report.page.document import page_of
from convir.report.roofs import name_of
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda.toolkit import GpuMemoryError, NoGpuError
from convir.runtime.devices import CUDA, Device, find_device

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

    from convir.cli.jobs.plan import Plan
    from convir.passes.manager.remarks import Remark
    from convir.report.collect import Record
    from convir.report.recorder import Recorder


@dataclass
class HtmlReport:
    """Records a run and writes its page."""

    options: Namespace
    collector: Collector
    census: Sequence[Record]
    recorder: Recorder | None = None

    @staticmethod
    def of(options: Namespace) -> HtmlReport:
        """The page that a command line asks for.

        Raises:
            UsageError: the census cannot be read, or the device is not this machine's.
        """
        name = STDIN_NAME if options.file == STREAM else title_of(options.file)
        device = Device(device_of(options), 0, DEFAULT_TARGET)
        if options.measure:
            _require_here(device)
        collector = Collector(name, device, measures=options.measure)
        return HtmlReport(options, collector, _census(options.census))

    @property
    def reads_model(self) -> bool:
        """Whether the input is no MLIR text."""
        return is_model(self.options.file) or is_line(self.options.file)

    def read_model(self) -> ModuleOp:
        """The module of a model, or of a line.

        Raises:
            DiagnosticError: it cannot be read.
            UsageError: a model needs a shape, or one makes no sense.
        """
        shapes = [shape_of(text) for text in self.options.inputs]
        try:
            return read_source(self.options.file, shapes=shapes)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def start(self, module: ModuleOp, remarks: list[Remark], timing: Timing) -> Recorder:
        """What watches the passes."""
        self.recorder = self.collector.start(module, remarks, timing)
        return self.recorder

    def write(self, module: ModuleOp, plan: Plan) -> None:
        """Write the page of what became of `module`, which stays as it is.

        Raises:
            UsageError: the file cannot be written.
            DiagnosticError: the program cannot be measured.
        """
        if self.recorder is None:
            self.start(module, [], Timing())
        reached = [stage for stage, _ in plan.stages]
        done = STAGES.index(reached[-1]) - STAGES.index(TENSOR) if reached else 0
        lowered = module.clone()
        self.collector.lower(lowered, self.options.workspace_bytes, done=done)
        try:
            report = self.collector.data(lowered)
        except (CompileError, PassFailedException, GpuMemoryError) as error:
            told = f"--measure: {one_line(error)}"
            raise DiagnosticError(Diagnostic(self.collector.name, 0, 0, "error", told)) from error
        write_output(self.options.html, page_of({**report, "census": self.census}))


def _require_here(device: Device) -> None:
    """Refuse to measure on a device that this machine has not, or has another model of."""
    try:
        gpu = find_device(device.kind).gpu
    except NoGpuError as error:
        raise UsageError(f"--measure: {error}") from error
    if device.kind == CUDA and gpu != device.gpu:
        raise UsageError(
            f"--measure: this machine's GPU is {name_of(gpu)}, the page is for "
            f"{name_of(device.gpu)}; convir.explain(…, device='cuda', measure=True) is for this one"
        )


def _census(path: str | None) -> list[Record]:
    if path is None:
        return []
    try:
        return cast("list[Record]", json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(f"--census {path}: {error}") from error
