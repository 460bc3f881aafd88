"""Programs for a GPU compiled ahead, on a machine that need not have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.api.compile import DEFAULT_PIPELINE, Job
from convir.api.sources import source_of
from convir.runtime.cache.program_entry import Signature
from convir.runtime.devices import CUDA, Device

if TYPE_CHECKING:
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Missing:
    """Of the kernels of a program, those that the cache does not have."""

    kernels: int
    missing: int


def prebuild(source: str, gpu: Target, *, allow_tf32: bool = False) -> None:
    """Put a program and its kernels into the cache, as `convir.compile` would.

    Args:
        source: a MIOpenDriver line, MLIR text, or the path of a model whose sizes it says.
        gpu: what to compile for.
        allow_tf32: as `convir.compile` takes it.

    Raises:
        DiagnosticError, PassFailedException, CompileError, OSError: as `convir.compile`.
        NoGpuError: CuPy, NVRTC or CUDA's headers are not installed.
        ValueError: it leaves sizes open, so that there is no program yet.
    """
    if isinstance(_job(source, gpu, allow_tf32).plan(), Signature):
        raise ValueError("it leaves sizes open, which its calls bind")


def missing_kernels(source: str, gpu: Target, *, allow_tf32: bool = False) -> Missing:
    """How many kernels of a program NVRTC would have to compile; nothing is compiled.

    Args:
        source: as `prebuild` takes it.
        gpu: likewise.
        allow_tf32: likewise.

    Raises:
        DiagnosticError, PassFailedException, OSError: as `convir.compile`.
        NoGpuError: CuPy, NVRTC or CUDA's headers are not installed.
    """
    from convir.runtime.cuda.planner import plan_program  # noqa: PLC0415  (imports xDSL)
    from convir.runtime.cuda.toolchain.compile import stored_code  # noqa: PLC0415  (imports CuPy)

    program = _job(source, gpu, allow_tf32).program()
    sources = plan_program(program, gpu).sources
    return Missing(len(sources), sum(stored_code(each, gpu.arch) is None for each in sources))


def _job(source: str, gpu: Target, allow_tf32: bool) -> Job:
    device = Device(CUDA, 0, gpu)
    given = source_of(source, (), 1.0)
    return Job(given, None, DEFAULT_PIPELINE, device, allow_tf32=allow_tf32)
