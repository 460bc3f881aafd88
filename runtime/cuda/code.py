"""The code of a planned program: compiled, or read from the cache, and loaded once a source."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from convir.runtime.cuda.toolchain.compile import (
    compile_cubins,
    load_cubin,
    stored_cubin,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.runtime.cuda.plan import CudaPlan

_log = logging.getLogger(__name__)


def compiled(
    plan: CudaPlan, arch: str, told: Callable[[int, int], None] | None = None
) -> tuple[CudaPlan, dict[str, bytes]]:
    """`plan` with where the cache keeps its code, and that code by source.

    Args:
        plan: what to compile.
        arch: the architecture, e.g. `sm_90a`.
        told: is told how many kernels are done, and of how many.

    Raises:
        CompileError: NVRTC refuses a source.
        NoGpuError: CuPy or CUDA's headers are not installed.
    """
    made = compile_cubins(plan.sources, arch, told)
    keys = {source: cubin.key for source, cubin in made.items()}
    return replace(plan, cubins=keys), {source: each.content for source, each in made.items()}


class LoadedCode:
    """The modules of a program on the current device."""

    def __init__(self, plan: CudaPlan, arch: str, made: Mapping[str, bytes]) -> None:
        """Load all code of `plan`; what neither `made` nor the cache has is compiled.

        Raises:
            CompileError: NVRTC refuses a source, or the driver its cubin.
            NoGpuError: a part of the CUDA toolkit is missing.
        """
        cubins = dict(made)
        for source in plan.sources:
            key = None if source in cubins else plan.cubins.get(source)
            found = None if key is None else stored_cubin(key)
            if found is not None:
                cubins[source] = found
        missing = [source for source in plan.sources if source not in cubins]
        if missing:
            _log.info("%d kernels are not in the cache, compiling them", len(missing))
            for source, cubin in compile_cubins(missing, arch).items():
                cubins[source] = cubin.content
        self._modules: dict[str, Any] = {x: load_cubin(cubins[x]) for x in plan.sources}

    def function(self, kernel: CudaKernel) -> Any:
        """What launches `kernel`, as a CuPy function."""
        return self._modules[kernel.source].get_function(kernel.symbol)
