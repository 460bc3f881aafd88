"""A stream on the host: one native call for any number of frames, states updated in place.

A state is a window: rows of what a program sees, the frames that came before a block and the block.
A program is lent them from where the frames before its block begin; `stream.ll` says how they move.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from importlib import resources
from math import prod
from typing import TYPE_CHECKING, Any

from convir.runtime.arrays.host_memory import address_of, aligned_bytes
from convir.runtime.host.device import POINTER_BYTES, Chain, Frame
from convir.runtime.host.jit import AS_EMITTED, compile_ir
from convir.runtime.host.pool import shared_pool
from convir.runtime.in_place import check_in_place, copied
from convir.runtime.program import Copy, memory_positions

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.runtime.host.device import HostProgram
    from convir.runtime.host.jit import Library
    from convir.runtime.host.plan import HostPlan
    from convir.runtime.host.pool import ThreadPool
    from convir.runtime.in_place import Touched
    from convir.runtime.program import Array, TensorSpec

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64)

_POOL_WORDS = 4
"""How many words of a stream come from the pool; they are the first."""


class HostStream:
    """A program that is called block after block; one thread at a time."""

    def __init__(self, program: HostProgram, room: int) -> None:
        """Begin with states full of zeros.

        Args:
            program: takes a block, [1, channels, frames], and windows, gives an output and the
                same windows.
            room: frames of a window's row behind those that came before the block.

        Raises:
            ValueError: the program does what cannot be done in place, or by machine code alone.
        """
        plan = program.plan
        check_in_place(plan, plan.stream, _touched(plan))
        if not all(isinstance(part, Chain) for part in program.parts):
            raise ValueError("a stream's program has steps that are no machine code")
        self._together = any(link.workers != 1 for link in program.links)
        block, *windows = program.inputs
        output, frame_bytes = program.outputs[0], block.dtype.itemsize
        step = block.shape[-1] * frame_bytes
        self._windows = [_window_memory(spec, room) for spec in windows]
        self._frame = Frame(program)
        self._held: list[Any] = [
            _words(_window_words(windows, self._windows, room)),
            _words([0] * (len(program.inputs) + len(program.outputs))),
            _words(_patches(program, self._frame)),
            aligned_bytes(prod(block.shape) * frame_bytes, zeroed=True),
            aligned_bytes(prod(output.shape) * frame_bytes),
        ]
        window_words, memories, patches = map(ctypes.addressof, self._held[:3])
        self._words = _words(
            [
                *[0] * _POOL_WORDS,
                *(window_words, len(windows), memories, room * frame_bytes, 0),
                *(patches, len(program.given), self._frame.launches, len(program.links)),
                *(step, block.shape[1], output.shape[1]),
                *map(address_of, self._held[3:]),
            ]
        )
        self._arguments = _words([ctypes.addressof(self._words), 0, 0, 0])
        self._call = ctypes.addressof(self._arguments)
        self._rows = block.shape[1]
        self._native = _CALL(_library().address("stream_call"))
        self._program = program
        self._pool: ThreadPool | None = None

    def run(self, x: Array, y: Array) -> None:
        """Run the program on as many frames as come.

        Args:
            x: f32[channels, frames], dense; one channel may have one dimension.
            y: where the outputs go, likewise; it may overlap `x`.
        """
        source, target, nbytes = address_of(x), address_of(y), x.nbytes
        if source < target + y.nbytes and target < source + nbytes:
            x = x.copy()
            source = address_of(x)
        arguments = self._arguments
        arguments[1], arguments[2], arguments[3] = source, target, nbytes // self._rows
        if self._pool is not shared_pool():  # Also where this process is a fork.
            self._meet_pool()
        self._native(self._call)

    def prepare(self, x: Array, y: Array) -> Callable[[], None]:
        """`run(x, y)` as a call of its own; the two do not overlap, and stay where they are."""
        arguments = _words(
            [self._arguments[0], address_of(x), address_of(y), x.nbytes // self._rows]
        )
        return partial(self._prepared, ctypes.addressof(arguments), (arguments, x, y))

    def forget(self) -> None:
        """Fill the states with zeros."""
        for memory in self._windows:
            memory.fill(0)

    def _prepared(self, call: int, held: tuple[Any, ...]) -> None:
        """Run with the arguments at `call`; `held` keeps alive what they are and point to."""
        del held
        if self._pool is not shared_pool():
            self._meet_pool()
        self._native(call)

    def _meet_pool(self) -> None:
        self._pool = shared_pool()
        if self._together:
            self._pool.start()
        self._words[:_POOL_WORDS] = self._pool.run_words()


def _window_words(specs: list[TensorSpec], memories: list[Array], room: int) -> list[int]:
    """Of each window where it lies, its rows, and the bytes of a row and of what came before."""
    words: list[int] = []
    for spec, memory in zip(specs, memories, strict=True):
        pitch = spec.shape[-1] * spec.dtype.itemsize
        before = pitch - room * spec.dtype.itemsize
        words += [address_of(memory), prod(spec.shape[:-1]), pitch, before]
    return words


def _patches(program: HostProgram, frame: Frame) -> list[int]:
    """Of each pointer that a call brings where it lies, the memory it points into, and how far."""
    table = ctypes.addressof(frame.table)
    return [
        word
        for position, memory, offset in program.given
        for word in (table + position * POINTER_BYTES, memory, offset)
    ]


def _window_memory(spec: TensorSpec, room: int) -> Array:
    """The bytes of a window. A program takes all of it, also when it has moved on: what then lies
    behind it is read by some, though what they read means nothing."""
    return aligned_bytes((prod(spec.shape) + room) * spec.dtype.itemsize, zeroed=True)


def _touched(plan: HostPlan) -> list[Touched]:
    """What each step reads and writes of the plan's memories."""
    first = memory_positions(plan)
    return [
        copied(step, first)
        if isinstance(step, Copy)
        else (False, tuple(memory for memory, _ in getattr(step, "arguments", ())))
        for step in plan.steps
    ]


def _words(values: list[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


@cache
def _library() -> Library:
    ir = resources.files("convir.runtime.host").joinpath("stream.ll").read_text(encoding="utf-8")
    return compile_ir(ir, exports=("stream_call",), options=AS_EMITTED)
