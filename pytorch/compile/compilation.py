"""From a signature to a program that can be called: what runs in the background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convir.analysis.refusal import Refusal
from convir.pytorch.signature import placement
from convir.runtime.devices import CUDA, HOST, Device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.api.compile import Job
    from convir.lowering.kernels.target import Target
    from convir.pytorch.signature import Placement, Signature
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.executable import Executable
    from convir.runtime.program import Program


@dataclass(frozen=True)
class Failure(Refusal):
    """What kept a program from being made though the compiler has one: a part that is missing, a
    driver that is too old, a GPU that is full. It is worth a warning."""


@dataclass(frozen=True)
class Wanted:
    """What is compiled of a signature."""

    signature: Signature
    workspace_bytes: int
    config: str = ""
    """Of its kernel on a GPU; if empty the one that selection takes."""
    further: int = 0
    """So many configs beside that one, on a GPU: those with the least predicted time."""


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
    config: str = ""
    """Of its kernel; empty for the one that selection takes."""


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


def planned(
    signature: Signature, source: Source, workspace_bytes: int, gpu: Target
) -> CudaPlan | Refusal:
    """The plan of `source` for a GPU, from the cache if it is there; no GPU is needed.

    Raises:
        DiagnosticError, PassFailedException, CompileError: the compiler fails.
        NoGpuError: a part of what compiles for a GPU is missing.
    """
    from convir.runtime.cuda.plan import CudaPlan  # noqa: PLC0415  (as below)

    plan = _job(signature, source, workspace_bytes, gpu).plan()
    assert isinstance(plan, CudaPlan)
    return within(plan, workspace_bytes)


def within(plan: CudaPlan, workspace_bytes: int) -> CudaPlan | Refusal:
    """A plan whose temporaries take no more than that."""
    size = plan.arena_bytes + sum(plan.state_bytes)
    if size > workspace_bytes:
        return Refusal(f"its temporaries take {size} bytes, more than {workspace_bytes}")
    return plan


def compiled(
    wanted: Wanted, source: Source, plans: Mapping[str, CudaPlan]
) -> tuple[Compiled, ...] | Refusal:
    """The programs of `source`, from the caches as far as they are there.

    Args:
        wanted: what they compute.
        source: its text.
        plans: for a GPU, by config; empty for the host.

    Raises:
        DiagnosticError, PassFailedException, CompileError: the compiler fails.
        NoGpuError: a part of what compiles for a GPU is missing.
        GpuMemoryError: the program's constants do not fit.
    """
    from convir.api.compile import compile as compile_source  # noqa: PLC0415

    signature, size = wanted.signature, wanted.workspace_bytes
    placed = placement(signature)
    if isinstance(placed, Refusal):
        return placed
    if signature.device == HOST:
        executable = compile_source(
            source.text,
            device=HOST,
            workspace_bytes=size,
            threads=signature.threads or None,
        )
        return (Compiled(executable, source, placed),)
    index = gpu_index(signature)
    return tuple(
        Compiled(_on_gpu(signature, source, size, plan, index), source, placed, config)
        for config, plan in plans.items()
    )


def refusal_of(error: Exception) -> Refusal:
    """What a failed compilation says; whatever it is, PyTorch's kernel computes the signature."""
    from xdsl.utils.exceptions import PassFailedException  # noqa: PLC0415  (as below)

    from convir.dialects.diagnostics import DiagnosticError  # noqa: PLC0415  (brings xDSL along)

    reason = f"{type(error).__name__}: {error}"
    is_known = isinstance(error, (DiagnosticError, PassFailedException))
    return Refusal(reason) if is_known else Failure(reason)


def gpu_index(signature: Signature) -> int:
    """Which GPU a signature is for."""
    return int(signature.device.partition(":")[2] or 0)


def gpu_of(index: int) -> Target:
    """What a GPU is.

    Raises:
        NoGpuError: there is none, or a part of the toolkit is missing or too old.
    """
    from convir.runtime.cuda import toolkit  # noqa: PLC0415  (imports CuPy)

    toolkit.require_gpu(index)
    return Device(CUDA, index).gpu


def _on_gpu(
    signature: Signature, source: Source, workspace_bytes: int, plan: CudaPlan, index: int
) -> Executable:
    from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415  (imports CuPy)
    from convir.runtime.executable import Executable  # noqa: PLC0415

    def program() -> Program:
        return _job(signature, source, workspace_bytes, gpu_of(index)).program()

    return Executable(CudaProgram.of_plan(plan, program, index))


def default_pipeline() -> str:
    """The passes that a signature's function is compiled by."""
    from convir.api.compile import DEFAULT_PIPELINE  # noqa: PLC0415  (as above)

    return DEFAULT_PIPELINE


def _job(signature: Signature, source: Source, workspace_bytes: int, gpu: Target) -> Job:
    from convir.api.compile import Job  # noqa: PLC0415  (as above)
    from convir.api.sources import source_of  # noqa: PLC0415

    device = Device(CUDA, gpu_index(signature), gpu)
    text = source_of(source.text, (), 1.0)
    return Job(
        text,
        "main",
        default_pipeline(),
        device,
        workspace_bytes,
        allow_tf32=signature.allow_tf32,
    )


def kernel_of(executable: Executable) -> str:
    """What a program runs, in words: its configs on a GPU, its functions on the host."""
    from convir.runtime.host.device import HostProgram  # noqa: PLC0415
    from convir.runtime.host.plan import KernelLaunch  # noqa: PLC0415

    loaded: Any = executable.loaded
    if not isinstance(loaded, HostProgram):
        return " + ".join(loaded.plan.summary)
    return " + ".join(
        step.entry if isinstance(step, KernelLaunch) else type(step).__name__.lower()
        for step in loaded.plan.steps
    )
