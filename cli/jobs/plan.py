"""What a command line asks `convir-opt` to do to a module: which passes, through which stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from convir.cli.arguments.parser import STREAM, UsageError
from convir.cli.arguments.stages import CODE_DEVICES, DEFAULT_PIPELINE, INPUT, MLIR, STAGES, TENSOR
from convir.cli.files.streams import write_output
from convir.passes.manager.pipeline_text import PipelineError, named_pipeline, parse_pipeline

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Plan:
    """The passes to run, and the stages that the module is in on the way."""

    passes: tuple[ModulePass, ...]
    stages: tuple[tuple[str, ModulePass | None], ...]
    """Each stage that is reached beyond `input`, with the pass that leads on; the last has none."""


def make_plan(options: Namespace) -> Plan:
    """What `options` ask for.

    Raises:
        UsageError: they name a pass, an option or a pipeline that does not exist.
    """
    last = _last_stage(options)
    passes = _tensor_passes(options, last)
    if last == INPUT:
        return Plan((), ())
    lowering = _lowering_passes(options, last)
    return Plan((*passes, *lowering), tuple(zip(STAGES[1:], (*lowering, None), strict=False)))


def _last_stage(options: Namespace) -> str:
    """The stage that is asked for; the code of kernels is that of the last one."""
    if options.target == MLIR:
        compile_to: str | None = options.compile_to
        return compile_to or (STAGES[-1] if options.dump_stages_to else TENSOR)
    if options.compile_to is not None:
        raise UsageError(f"-t {options.target} prints the code of kernels, not a stage")
    return STAGES[-1]


def _tensor_passes(options: Namespace, last: str) -> tuple[ModulePass, ...]:
    pipeline: str | None = options.pipeline
    passes: str | None = options.passes
    if (options.compile_to is not None or last != TENSOR) and pipeline is None and passes is None:
        pipeline = DEFAULT_PIPELINE
    try:
        if options.html is not None and pipeline is None and passes is None:
            return _as_compiled(options)
        return parse_pipeline(passes or "") if pipeline is None else named_pipeline(pipeline)
    except PipelineError as exc:
        raise UsageError(str(exc)) from exc


def _as_compiled(options: Namespace) -> tuple[ModulePass, ...]:
    """The default pipeline with the costs of the device, as `convir.compile` runs it."""
    from convir.lowering.tensor_passes import passes_for  # noqa: PLC0415  (as below)

    return passes_for(device_of(options), named_pipeline(DEFAULT_PIPELINE))


def device_of(options: Namespace) -> str:
    """Whose kernels are selected."""
    return CODE_DEVICES.get(options.target, "") or options.device


def _lowering_passes(options: Namespace, last: str) -> tuple[ModulePass, ...]:
    """The passes that lead from the stage `tensor` to the stage `last`."""
    if last == TENSOR:
        return ()
    # A run that stays on tensors does not import the lowering.
    from convir.lowering.pipeline import lowering_passes  # noqa: PLC0415

    count = STAGES.index(last) - STAGES.index(TENSOR)
    return lowering_passes(device_of(options), options.workspace_bytes)[:count]


@dataclass
class StageDumper:
    """`--dump-stages-to`: writes the module at each stage to `FOLDER/STEM.NUMBER-STAGE.mlir`."""

    folder: Path
    stem: str
    plan: Plan
    text_of: Callable[[ModuleOp], str]

    def start(self, module: ModuleOp) -> None:
        """Write the module as it was read."""
        self._dump(INPUT, module)

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Write the stage that `module_pass` leads on from, if it does from one."""
        for stage, leading_on in self.plan.stages:
            if leading_on is module_pass:
                self._dump(stage, module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Nothing: the next pass, or the end, tells which stage was reached."""

    def finish(self, module: ModuleOp) -> None:
        """Write the last stage."""
        for stage, _ in self.plan.stages[-1:]:
            self._dump(stage, module)

    def _dump(self, stage: str, module: ModuleOp) -> None:
        name = f"{self.stem}.{STAGES.index(stage)}-{stage}.mlir"
        write_output(str(self.folder / name), self.text_of(module))


def make_folder(path: str) -> Path:
    """Create the folder for the stages.

    Raises:
        UsageError: it is a file, or cannot be created.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from exc
    return folder


def stem_of(file: str, chunk: int | None) -> str:
    """What the files of one chunk begin with: the input's name, and the chunk's number if split."""
    stem = "stdin" if file == STREAM else Path(file).stem
    return stem if chunk is None else f"{stem}-{chunk}"
