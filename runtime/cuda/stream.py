"""A stream on a GPU: a block is one replay of a graph, states are updated in place.

States are windows, as on the host (`runtime/host/stream.py`). A graph is captured for each place
that a window is lent from; when no block fits behind, and after a part of a block, what came before
is copied to where the rows begin.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from convir.runtime.cuda.capture import captured
from convir.runtime.in_place import check_in_place
from convir.runtime.program import Copy, buffers_of, memory_positions

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.runtime.cuda.device import CudaProgram
    from convir.runtime.in_place import Touched
    from convir.runtime.program import Program


class CudaStream:
    """A program that is called block after block, on one stream of a GPU at a time."""

    def __init__(self, program: CudaProgram, room: int) -> None:
        """Begin with states full of zeros.

        Args:
            program: takes a block, [1, channels, frames], and windows, gives an output and the
                same windows.
            room: frames of a window's row behind those that came before the block, a multiple of
                those of a block.

        Raises:
            ValueError: the program does what cannot be done in place.
            GpuMemoryError: its memory does not fit on the GPU.
        """
        check_in_place(program.program, program.program.stream, _touched(program.program))
        self._program = program
        self._room = room
        self._position = 0
        block, *windows = program.inputs
        self._frames = block.shape[-1]
        self._specs = windows
        arrays = program.arrays
        with program.scope():
            self._block: Any = arrays.zeros(block.shape, block.dtype)
            self._output: Any = arrays.empty(program.outputs[0].shape, block.dtype)
            # A program takes all of a window, also when it has moved on.
            sizes = [prod(spec.shape) + room for spec in windows]
            self._windows = [arrays.zeros(size, block.dtype) for size in sizes]
            self._scratch: Any = arrays.empty(max(sizes, default=1), block.dtype)
            self._arena = program.new_arena()
            self._states = program.new_states()
            arrays.cuda.get_current_stream().synchronize()
            # Once without a graph: what is loaded lazily is loaded now.
            self._run_at(0)
            self._move(room)
            self._graphs = [self._captured(partial(self._run_at, p)) for p in self._places()]
            self._rewind = self._captured(lambda: self._move(room))
        self.forget()

    def run(self, x: Any, y: Any) -> None:
        """Enqueue the program on as many frames as come, on the current stream.

        Args:
            x: f32[channels, frames] on the GPU; one channel may have one dimension.
            y: where the outputs go, likewise; it may overlap `x`.
        """
        with self._program.scope():
            if self._program.arrays.may_share_memory(x, y):
                x = x.copy()
            self._run(x, y)

    def prepare(self, x: Any, y: Any) -> Callable[[], None]:
        """`run(x, y)` as a call of its own, for arrays that do not overlap."""

        def call() -> None:
            with self._program.scope():
                self._run(x, y)

        return call

    def forget(self) -> None:
        """Fill the states with zeros."""
        with self._program.scope():
            for memory in (*self._windows, *self._states):
                memory.fill(0)
        self._position = 0

    def _advance(self, taken: int, stream: Any) -> None:
        self._position += taken
        if taken == self._frames and self._position < self._room:
            return
        if self._position == self._room:
            self._rewind.launch(stream)
        else:
            self._move(self._position)
        self._position = 0

    def _places(self) -> range:
        """Where graphs lend the windows from, in frames."""
        return range(0, self._room, self._frames)

    def _run(self, x: Any, y: Any) -> None:
        stream = self._program.arrays.cuda.get_current_stream()
        total = x.shape[-1]
        for begin in range(0, total, self._frames):
            taken = min(self._frames, total - begin)
            self._copy(self._block, x, 0, begin, taken, stream)
            self._graphs[self._position // self._frames].launch(stream)
            self._copy(y, self._output, begin, 0, taken, stream)
            self._advance(taken, stream)

    def _copy(self, to: Any, source: Any, begin: int, first: int, taken: int, stream: Any) -> None:
        """Enqueue a copy of frames from `first` on of each row to those from `begin` on."""
        size, runtime = to.itemsize, self._program.arrays.cuda.runtime
        runtime.memcpy2DAsync(
            to.data.ptr + begin * size,
            to.shape[-1] * size,
            source.data.ptr + first * size,
            source.shape[-1] * size,
            taken * size,
            to.size // to.shape[-1],
            runtime.memcpyDeviceToDevice,
            stream.ptr,
        )

    def _run_at(self, position: int) -> None:
        """Enqueue the program on the windows from `position` on."""
        lent = [
            memory[position : position + prod(spec.shape)]
            for memory, spec in zip(self._windows, self._specs, strict=True)
        ]
        inputs, outputs = [self._block, *lent], [self._output, *lent]
        self._program.run_in(inputs, outputs, self._arena, self._states)

    def _move(self, position: int) -> None:
        """Enqueue copies of what came before the block at `position` to where rows begin."""
        for memory, spec in zip(self._windows, self._specs, strict=True):
            rows, pitch = prod(spec.shape[:-1]), spec.shape[-1]
            before = pitch - self._room
            if not before:
                continue
            begun = memory[: rows * pitch].reshape(rows, pitch)
            seen = memory[position : position + rows * pitch].reshape(rows, pitch)
            stream = self._program.arrays.cuda.get_current_stream()
            if before <= position:
                self._copy(begun, seen, 0, 0, before, stream)
                continue
            # The two overlap.
            kept = self._scratch[: rows * before].reshape(rows, before)
            self._copy(kept, seen, 0, 0, before, stream)
            self._copy(begun, kept, 0, 0, before, stream)

    def _captured(self, enqueue: Callable[[], None]) -> Any:
        """What `enqueue` enqueues, as a graph."""
        cuda = self._program.arrays.cuda
        stream = cuda.Stream(non_blocking=True)
        cuda.get_current_stream().synchronize()
        with stream:
            return captured(cuda, stream, enqueue)


def _touched(program: Program) -> list[Touched]:
    """What each call reads and writes of the program's memories."""
    first = memory_positions(program)
    return [
        (isinstance(call, Copy), tuple(first[at.space] + at.index for at in buffers_of(call)))
        for call in program.calls
    ]
