"""Launches of CUDA kernels: pointers and tensor maps in, work on the current stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convir.lowering.kernels.cuda.launch import Pointer
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.tensor_maps import encode
from convir.runtime.cuda.toolchain.compile import load_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.cuda.launch import Argument, CudaKernel

DEFAULT_SHARED_BYTES = 48 << 10
"""Dynamic shared memory that a block gets without asking."""
KEPT_MAPS = 64
"""Addresses that a map is remembered for; more than a pool hands out in turn."""


class LoadedKernel:
    """A kernel on the current device, ready to be launched."""

    def __init__(self, kernel: CudaKernel) -> None:
        """Compile and load `kernel`.

        Raises:
            CompileError: NVRTC refuses the source.
            NoGpuError: there is no GPU, or a part of the CUDA toolkit is not installed.
        """
        self.kernel = kernel
        """What is launched."""
        self._function: Any = load_kernel(kernel.source, kernel.symbol)
        if kernel.shared_bytes > DEFAULT_SHARED_BYTES:
            toolkit.allow_shared_bytes(self._function, kernel.shared_bytes)
        self._arguments = [_value_of(argument) for argument in kernel.arguments]

    def launch(self, address: Callable[[Pointer], int]) -> None:
        """Enqueue it on CuPy's current stream; `address` says where each buffer lies."""
        kernel = self.kernel
        arguments = tuple(value(address) for value in self._arguments)
        self._function(
            kernel.grid,
            kernel.block,
            arguments,
            kernel.shared_bytes,
            enable_cooperative_groups=kernel.is_cooperative,
        )


def _value_of(argument: Argument) -> Callable[[Callable[[Pointer], int]], Any]:
    """How an argument's value follows from the addresses of a call."""
    if isinstance(argument, Pointer):
        return lambda address: address(argument)
    toolkit.driver()  # What maps are encoded with is asked for now, not by the first call.
    maps: dict[int, Any] = {}

    def encoded(address: Callable[[Pointer], int]) -> Any:
        where = address(argument.buffer)
        found = maps.get(where)
        if found is None:
            if len(maps) >= KEPT_MAPS:
                maps.clear()
            found = maps[where] = encode(argument, where)
        return found

    return encoded
