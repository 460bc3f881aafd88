"""Running passes over a module: verified after each, timed, watched by instruments."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.utils.exceptions import DiagnosticException

from convir.analysis.structural_keys import forget_bodies
from convir.dialects.context import new_context
from convir.dialects.diagnostics import DiagnosticError, diagnostic_of, verify
from convir.frontends.sources import read_source
from convir.passes.manager.fixpoint import unrolled
from convir.passes.manager.pipeline_text import parse_pipeline
from convir.passes.manager.remarks import Remark, collect

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.dialects.diagnostics import Diagnostic
    from convir.frontends.sources import Shapes

WATCHING = "print and check IR between passes"
"""The phase of `Timing` for what instruments do."""


@dataclass(frozen=True)
class Result:
    """What a pipeline made of a module."""

    module: ModuleOp
    """The rewritten module, verified; the module given to `run` is left as it was."""
    remarks: tuple[Remark, ...]
    """What each pass did or refused to do, and why, in order."""
    checks: tuple[Diagnostic, ...] = ()
    """With `check_each`: for each function and pass that changed the module, a remark that both
    agree, or a warning why they were not compared."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """With `timing`: wall time by phase, `pass NUMBER NAME` and `verify` among them."""


def run(
    source: ModuleOp | str | Path | Any,
    pipeline: str | Sequence[ModulePass | str],
    *,
    shapes: Shapes = (),
    size: float = 1.0,
    check_each: bool = False,
    timing: bool = False,
) -> Result:
    """Rewrite a copy of a module and say what happened.

    Args:
        source: what `convir.compile` takes: MLIR text, the path of a file that holds it, a
            MIOpenDriver line, a module, the path of an .onnx or .nam model, or a `ModelProto`.
        pipeline: the name of a pipeline (`"backward-data"`), passes as text (`"a,b{x=1}"`), or
            a sequence of passes and such texts.
        shapes: of the inputs of a model, in order, where it leaves sizes open.
        size: which of the models that a .nam file contains, from 0 (the smallest) to 1.
        check_each: whether every function is run on the NumPy reference after each pass that
            changed the module, and compared with what it gave before the first one.
        timing: whether the result says how long each pass took.

    Raises:
        PipelineError: the pipeline's text is malformed or names what does not exist.
        DiagnosticError: the source is wrong, a pass failed on it, or a check did.
        PassCrashError: a pass is broken.
        OSError: a file of text cannot be read.
        TypeError: `source` is not a source.
        ValueError: a .nam model is given no shape of a block.
    """
    passes = _passes_of((pipeline,) if isinstance(pipeline, str) else pipeline)
    module = read_source(source, shapes=shapes, size=size)
    checks: list[Diagnostic] = []
    measured = Timing()
    with collect() as remarks:
        instruments = (_check_each(checks.append),) if check_each else ()
        try:
            apply_passes(new_context(), module, passes, instruments=instruments, timing=measured)
        finally:
            forget_bodies()
    seconds = measured.seconds if timing else {}
    return Result(module, tuple(remarks), tuple(checks), seconds)


def _check_each(report: Callable[[Diagnostic], None]) -> Instrument:
    # Executing modules takes NumPy and the reference, which rewriting does without.
    from convir.reference.checking.check_each import CheckEach  # noqa: PLC0415

    return CheckEach(report)


def _passes_of(parts: Sequence[ModulePass | str]) -> tuple[ModulePass, ...]:
    nested = (parse_pipeline(part) if isinstance(part, str) else (part,) for part in parts)
    return tuple(chain.from_iterable(nested))


class PassCrashError(Exception):
    """A pass raised what no pass should: a defect of the pass, not of the module."""

    def __init__(self, pass_name: str, cause: BaseException):
        reason = " ".join(str(cause).split())
        described = f"{type(cause).__name__}: {reason}" if reason else type(cause).__name__
        super().__init__(f"pass {pass_name} raised {described}")


class Instrument(Protocol):
    """What watches a pipeline at work."""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """`module_pass` is about to run on `module`."""
        ...

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """`module_pass` has made `module` what it is, and it is verified."""
        ...


@dataclass
class Timing:
    """Wall time by phase, in the order in which the phases first began."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Add the time that the block takes to the phase `name`."""
        self.seconds.setdefault(name, 0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start


def apply_passes(
    ctx: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    *,
    instruments: Sequence[Instrument] = (),
    timing: Timing | None = None,
    verify_each: bool = True,
) -> None:
    """Apply `passes` to `module` in place, verifying it after each unless told otherwise.

    Passes in a fixpoint are passes like any other, each time that they run. A phase of `timing` is
    called `pass NUMBER NAME`; all verification is the phase `verify`, and all instruments are
    `WATCHING`.

    Raises:
        DiagnosticError: a pass failed, or left a module that does not verify.
        PassCrashError: a pass raised anything else.
    """
    timing = Timing() if timing is None else timing
    for number, module_pass in enumerate(unrolled(passes, module), start=1):
        with timing.phase(WATCHING) if instruments else nullcontext():
            for instrument in instruments:
                instrument.before(module_pass, module)
        with timing.phase(f"pass {number} {module_pass.name}"):
            _apply(ctx, module, module_pass)
        if verify_each:
            with timing.phase("verify"):
                _verify_after(module_pass, module)
        with timing.phase(WATCHING) if instruments else nullcontext():
            for instrument in instruments:
                instrument.after(module_pass, module)


def _apply(ctx: Context, module: ModuleOp, module_pass: ModulePass) -> None:
    try:
        module_pass.apply(ctx, module)
    except DiagnosticError:
        raise
    except DiagnosticException as exc:
        raise DiagnosticError(diagnostic_of(exc)) from exc
    except Exception as exc:
        raise PassCrashError(module_pass.name, exc) from exc


def _verify_after(module_pass: ModulePass, module: ModuleOp) -> None:
    try:
        verify(module)
    except DiagnosticError as exc:
        wrong = exc.diagnostics[0]
        message = f"pass {module_pass.name} left invalid IR: {wrong.message}"
        raise DiagnosticError(replace(wrong, message=message)) from exc
