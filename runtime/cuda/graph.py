"""A program as a CUDA graph: captured once, replayed as one launch on memory of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from convir.runtime.arrays.border import ArrayBorder
from convir.runtime.cuda.capture import captured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.cuda.streams import OnDevice
    from convir.runtime.program import Array, TensorSpec


class Capturable(Protocol):
    """A compiled program that can be enqueued on memory of its caller."""

    arrays: Any
    index: int

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        ...

    def scope(self, stream: Any = None) -> OnDevice:
        """A context in which its GPU, and `stream` if it is not None, are current."""
        ...

    def new_arena(self) -> Any:
        """Memory for temporaries."""
        ...

    def new_states(self) -> list[Any]:
        """Persistent buffers, all zeros."""
        ...

    def run_in(
        self, inputs: Sequence[Array], outputs: Sequence[Array], arena: Any, states: Sequence[Any]
    ) -> None:
        """Enqueue the program on the current stream."""
        ...


class CudaGraph:
    """A program captured for replay, on buffers that live as long as it does.

    Write `inputs`, call `replay()`, read `outputs`; or call it with arrays, which are copied into
    `inputs` first. Every replay overwrites `outputs`, and they are what a call returns. Calls and
    replays run one after the other, whatever threads and streams they come from.
    """

    inputs: tuple[Array, ...]
    """CuPy arrays that a replay reads; zeros at first."""
    outputs: tuple[Array, ...]
    """CuPy arrays that a replay writes."""

    def __init__(self, compiled: Capturable, calls: int = 1) -> None:
        """Run the program once on zeros, which loads what is loaded lazily, then capture it.

        Args:
            compiled: the program.
            calls: how often a replay runs it.

        Raises:
            ValueError: `calls` is not positive.
            GpuMemoryError: its buffers do not fit on the GPU.
        """
        if calls < 1:
            raise ValueError(f"a graph runs its program at least once, not {calls} times")
        self._compiled = compiled
        self._border = ArrayBorder(compiled.arrays, compiled.index)
        self._lock = threading.Lock()
        arrays = compiled.arrays
        with compiled.scope():
            self.inputs = tuple(arrays.zeros(spec.shape, spec.dtype) for spec in compiled.inputs)
            self.outputs = tuple(map(self._border.empty, compiled.outputs))
            self._arena = compiled.new_arena()
            self._states = compiled.new_states()
            arrays.cuda.get_current_stream().synchronize()
            self._graph = self._capture(arrays.cuda, calls)
            self._replayed: Any = arrays.cuda.Event(disable_timing=True)
            self._stream = 0

    def _capture(self, cuda: Any, calls: int) -> Any:
        memory = (self.inputs, self.outputs, self._arena, self._states)
        stream = cuda.Stream(non_blocking=True)
        with stream:
            self._compiled.run_in(*memory)
            for state in self._states:
                state.fill(0)  # The run on zeros is none of the caller's.
            stream.synchronize()

            def enqueue() -> None:
                for _ in range(calls):
                    self._compiled.run_in(*memory)

            return captured(cuda, stream, enqueue)

    def replay(self, stream: Any = None) -> None:
        """Enqueue what was captured once, on `inputs` as they are then.

        Args:
            stream: as for calls of an executable; the current stream if None.
        """
        with self._compiled.scope(stream), self._lock:
            self._launch(self._after_the_last())

    def __call__(self, *arguments: Any, stream: Any = None) -> Any:
        """Copy `arguments` into `inputs` and replay.

        Args:
            arguments: one array per input, as for calls of an executable.
            stream: where the copies and the program are enqueued; the current stream if None.

        Returns:
            `outputs`, or the only one of them: the next replay overwrites it.

        Raises:
            TypeError: an argument is not an array, or has another dtype than the program's.
            ValueError: the number or the shape of the arguments differs from the program's.
        """
        specs = self._compiled.inputs
        if len(arguments) != len(specs):
            raise ValueError(f"the program takes {len(specs)} arrays, not {len(arguments)}")
        with self._compiled.scope(stream), self._lock:
            current = self._after_the_last()
            for i, (value, spec) in enumerate(zip(arguments, specs, strict=True)):
                self.inputs[i][...] = self._border.argument(value, spec, i)
            self._launch(current)
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def _after_the_last(self) -> Any:
        """The current stream, which waits for the last replay if that went to another stream."""
        current = self._compiled.arrays.cuda.get_current_stream()
        if current.ptr != self._stream:
            current.wait_event(self._replayed)
        return current

    def _launch(self, current: Any) -> None:
        self._graph.launch(current)
        self._replayed.record(current)
        self._stream = current.ptr
