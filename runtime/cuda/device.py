"""The cuda device: an rt program as generated kernels and cuBLAS calls on CuPy buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from convir.lowering.cuda.print_loops import print_kernel, symbol_of
from convir.lowering.loops.nests import lower_kernel, range_size
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.compile import load_kernel
from convir.runtime.cuda.gemm import CublasGemm
from convir.runtime.program import (
    Buffer,
    Copy,
    Fill,
    Gemm,
    Launch,
    Program,
    launch_overlaps,
    memory_positions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.runtime.program import Array

THREADS = 256
"""Threads of a block of a generated kernel: enough warps to hide loads, few enough registers."""
MAX_BLOCKS = 1 << 13
"""A grid of so many blocks fills any GPU many times over; more iterations are strided."""

_Step: TypeAlias = "Callable[[list[Any]], None]"


class CudaProgram:
    """An rt program compiled for one GPU; every call goes to CuPy's current stream."""

    def __init__(self, program: Program, index: int = 0) -> None:
        """Compile every kernel of `program` for GPU number `index`.

        Raises:
            PassFailedException: a kernel has no code for the GPU.
            CompileError: NVRTC refuses the code.
        """
        cupy = toolkit.cupy()
        self.program = program
        self.arrays: Any = cupy
        self._device: Any = cupy.cuda.Device(index)
        self._first = memory_positions(program)
        with self._device:
            self._constants: list[Any] = [cupy.asarray(constant) for constant in program.constants]
            self._states: list[Any] = [cupy.zeros(size, dtype="u1") for size in program.state_bytes]
            self._steps = [self._step(call) for call in program.calls]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Enqueue the program once, on dense CuPy arrays of its shapes and dtypes."""
        with self._device:
            arena = self.arrays.cuda.alloc(max(1, self.program.arena_bytes))
            kept = (*self._constants, *self._states)
            pointers = [*map(_pointer, (*inputs, *outputs)), arena.ptr, *map(_pointer, kept)]
            for step in self._steps:
                step(pointers)

    def _address(self, buffer: Buffer) -> Callable[[list[Any]], int]:
        memory, offset = self._first[buffer.space] + buffer.index, buffer.offset
        return lambda pointers: pointers[memory] + offset

    def _step(self, call: Fill | Copy | Gemm | Launch) -> _Step:
        match call:
            case Fill():
                return self._fill(call)
            case Copy():
                source, out = self._address(call.source), self._address(call.out)
                copy = self.arrays.cuda.runtime.memcpyAsync
                size, kind = call.out.nbytes, self.arrays.cuda.runtime.memcpyDeviceToDevice
                stream = self.arrays.cuda.get_current_stream
                return lambda p: copy(out(p), source(p), size, kind, stream().ptr)
            case Gemm():
                gemm = CublasGemm(call)
                a, b, c = (self._address(x) for x in (call.a, call.b, call.c))
                return lambda p: gemm(a(p), b(p), c(p))
            case Launch():
                return self._launch(call)

    def _fill(self, call: Fill) -> _Step:
        address, out = self._address(call.out), call.out
        cuda, ndarray = self.arrays.cuda, self.arrays.ndarray

        def fill(pointers: list[Any]) -> None:
            memory = cuda.UnownedMemory(address(pointers), out.nbytes, self)
            ndarray(out.shape, out.dtype, cuda.MemoryPointer(memory, 0)).fill(call.value)

        return fill

    def _launch(self, call: Launch) -> _Step:
        addresses = [self._address(buffer) for buffer in (*call.inputs, *call.outputs)]
        restrict = not launch_overlaps(call)
        kernels = [
            (
                load_kernel(print_kernel(loops, restrict=restrict), symbol_of(loops)),
                min(-(-range_size(loops) // THREADS), MAX_BLOCKS),
            )
            for loops in lower_kernel(call.kernel, 1)
        ]

        def launch(pointers: list[Any]) -> None:
            arguments = [address(pointers) for address in addresses]
            for function, blocks in kernels:
                if blocks:
                    function((blocks,), (THREADS,), tuple(arguments))

        return launch


def _pointer(array: Any) -> int:
    return array.data.ptr
