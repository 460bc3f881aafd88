"""The code of a planned program: compiled, or read from the cache, and loaded once a source."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.loaded import load_cubin, stored_cubin

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.launch import CudaKernel
    from convir.runtime.cuda.plan import CudaPlan

_log = logging.getLogger(__name__)


class LoadedCode:
    """The modules of a program on the current device."""

    def __init__(self, plan: CudaPlan, arch: str) -> None:
        """Load all code of `plan`; what neither it nor the cache has is compiled.

        Raises:
            CompileError: NVRTC refuses a source, or the driver its cubin.
            NoGpuError: a part of the CUDA toolkit is missing.
        """
        cubins = {source: _code(plan, source) for source in plan.sources}
        missing = [source for source, code in cubins.items() if code is None]
        if missing:
            from convir.runtime.cuda.toolchain.compile import compile_cubins  # noqa: PLC0415  (brings NVRTC along)

            _log.info("%s: %d kernels are not in the cache", plan.name, len(missing))
            made = compile_cubins(missing, arch)
            cubins |= {source: cubin.content for source, cubin in made.items()}
        self._modules: dict[str, Any] = {
            source: load_cubin(code) for source, code in cubins.items() if code is not None
        }

    def function(self, kernel: CudaKernel) -> Any:
        """What launches `kernel`, as a CuPy function."""
        return self._modules[kernel.source].get_function(kernel.symbol)


def _code(plan: CudaPlan, source: str) -> bytes | None:
    """The cubin of a source, if it is at hand or in the cache."""
    known = plan.cubins.get(source)
    if known is None or known.content is not None:
        return None if known is None else known.content
    return stored_cubin(known.key)


def load_kernel(source: str, name: str) -> Any:
    """The kernel `name` of `source` for the current device, as a CuPy function.

    Raises:
        CompileError: NVRTC refuses the source, or the driver its cubin.
        NoGpuError: there is no GPU, or CUDA's headers are not installed.
    """
    from convir.runtime.cuda.toolchain.compile import compile_cubin  # noqa: PLC0415  (as above)

    return load_cubin(compile_cubin(source, toolkit.architecture())).get_function(name)
