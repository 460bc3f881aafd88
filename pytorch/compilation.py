"""From a signature to a program that can be called: what runs in the background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.pytorch.signature import placement

if TYPE_CHECKING:
    from convir.pytorch.signature import Placement, Signature
    from convir.runtime.executable import Executable


@dataclass(frozen=True)
class Source:
    """What a signature is compiled from."""

    text: str
    """MLIR: a function `main`."""
    line: str
    """As `convir-bench` reads it; empty where no line says it."""


@dataclass(frozen=True)
class Compiled:
    """A program for a signature."""

    executable: Executable
    source: Source
    placed: Placement


def source_of(signature: Signature) -> Source | Refusal:
    """The function that computes a signature, or why the compiler has none."""
    from convir.api.module_text import text_of  # noqa: PLC0415  (as below)
    from convir.pytorch.problem import module_of, problem_of  # noqa: PLC0415  (brings xDSL along)

    placed = placement(signature)
    if isinstance(placed, Refusal):
        return placed
    problem = problem_of(signature, placed)
    if isinstance(problem, Refusal):
        return problem
    try:
        line = problem.line()
    except ValueError:
        line = ""
    text = text_of(module_of(problem, bias=signature.bias))
    return Refusal("it has no text") if text is None else Source(text.decode(), line)


def compiled(signature: Signature, source: Source, workspace_bytes: int) -> Compiled | Refusal:
    """The program of `source`, from the cache of programs where it is there.

    Raises:
        DiagnosticError, PassFailedException, CompileError: the compiler fails.
        NoGpuError: a part of what compiles for a GPU is missing.
        GpuMemoryError: the program's constants do not fit.
    """
    from convir.api.compile import compile as compile_source  # noqa: PLC0415

    placed = placement(signature)
    if isinstance(placed, Refusal):
        return placed
    executable = compile_source(
        source.text,
        device=signature.device,
        workspace_bytes=workspace_bytes,
        threads=signature.threads or None,
        allow_tf32=signature.allow_tf32,
    )
    size = executable.prepare().workspace_bytes
    if size > workspace_bytes:
        return Refusal(f"its temporaries take {size} bytes, more than {workspace_bytes}")
    return Compiled(executable, source, placed)


def kernel_of(executable: Executable) -> str:
    """What a program runs, in words: its configs on a GPU, its functions on the host."""
    from convir.runtime.host.device import HostProgram  # noqa: PLC0415
    from convir.runtime.host.plan import KernelLaunch  # noqa: PLC0415

    loaded = executable.loaded
    if not isinstance(loaded, HostProgram):
        return " + ".join(loaded.program.summary("cuda"))
    return " + ".join(
        step.entry if isinstance(step, KernelLaunch) else type(step).__name__.lower()
        for step in loaded.plan.steps
    )
