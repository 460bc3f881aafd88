"""A stream on the host: one native call a block, states in memory that moves along with them.

The programs of a stream, one for each size of a block, share the windows of its states. A window
is lent to a program from where the frames before its block begin; `stream.ll` says how it moves on.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from math import prod
from typing import TYPE_CHECKING, Any

from convir.runtime.host.device import POINTER_BYTES, Chain, Frame
from convir.runtime.host.jit import compile_ir
from convir.runtime.host.plan import KernelLaunch
from convir.runtime.host.pool import shared_pool
from convir.runtime.host_memory import address_of, aligned_bytes
from convir.runtime.program import Copy, Space

if TYPE_CHECKING:
    from convir.runtime.host.device import HostProgram
    from convir.runtime.host.jit import Library
    from convir.runtime.host.plan import HostPlan, Step
    from convir.runtime.host.pool import ThreadPool
    from convir.runtime.program import Array, TensorSpec

_RUN = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)

_POSITION = 8
"""Which word of a stream says how far its windows have moved on."""


@dataclass(frozen=True)
class BlockProgram:
    """A program for blocks of one size, with memory of its own."""

    words: Any
    """What the native code reads of it."""
    address: int
    kept: tuple[object, ...] = field(repr=False)
    """What the words point to."""


class HostStream:
    """The windows of a stream, and what runs on them; one thread at a time."""

    def __init__(self, program: HostProgram, room: int) -> None:
        """Windows full of zeros, for programs whose states are as those of `program`.

        Args:
            program: takes a block and windows, gives an output and the same windows.
            room: frames of a window's row behind those that came before the block.
        """
        specs = program.inputs[1:]
        self._windows = [_window_memory(spec, room) for spec in specs]
        words: list[int] = []
        for spec, memory in zip(specs, self._windows, strict=True):
            frame_bytes, frames = spec.dtype.itemsize, spec.shape[-1]
            rows = prod(spec.shape[:-1])
            pitch = frames * frame_bytes
            words += [address_of(memory), rows, pitch, pitch - room * frame_bytes]
        self._frame_bytes = program.inputs[0].dtype.itemsize
        self._window_words = _words(words)
        self._memories = _words([0] * (2 * len(specs) + 2))
        self._room = room * self._frame_bytes
        self._together = False
        self._pool: ThreadPool | None = None
        self._stream = _words([0] * (_POSITION + 1))
        self._native = _RUN(_library().address("stream_run"))

    def load(self, program: HostProgram) -> BlockProgram:
        """`program`, ready to run on the windows.

        Raises:
            ValueError: it does what cannot be done in place, or takes more than machine code.
        """
        _check_in_place(program.plan)
        for part in program.parts:
            if not isinstance(part, Chain):
                raise ValueError("a stream's program has steps that are no machine code")
            self._together |= part.together
        self._meet_pool()
        frame = Frame(program)
        table = ctypes.addressof(frame.table)
        patches = _words(
            [
                word
                for position, memory, offset in program.given
                for word in (table + position * POINTER_BYTES, memory, offset)
            ]
        )
        step = program.inputs[0].shape[-1] * self._frame_bytes
        words = _words(
            [
                ctypes.addressof(patches),
                len(program.given),
                frame.launches,
                len(program.links),
                step,
            ]
        )
        return BlockProgram(words, ctypes.addressof(words), (program, frame, patches))

    def run(self, program: BlockProgram, x: int, y: int, count: int) -> None:
        """Run `program` on `count` blocks.

        Args:
            program: from `load`.
            x: the address of the first block; the next ones lie behind it.
            y: where the outputs go, in the same way.
            count: how many.
        """
        if self._pool is not shared_pool():  # This process is a fork.
            self._meet_pool()
        self._native(ctypes.addressof(self._stream), program.address, x, y, count)

    def forget(self) -> None:
        """Fill the windows with zeros."""
        for memory in self._windows:
            memory.fill(0)

    def _meet_pool(self) -> None:
        self._pool = shared_pool()
        if self._together:
            self._pool.start()
        self._stream[:] = [
            *self._pool.run_words(),
            ctypes.addressof(self._window_words),
            len(self._windows),
            ctypes.addressof(self._memories),
            self._room,
            self._stream[_POSITION],
        ]


def _window_memory(spec: TensorSpec, room: int) -> Array:
    """The bytes of a window. A program takes all of it, also when it has moved on: what then lies
    behind it is read by some, though what they read means nothing."""
    return aligned_bytes((prod(spec.shape) + room) * spec.dtype.itemsize, zeroed=True)


def _check_in_place(plan: HostPlan) -> None:
    """Refuse programs that read a state after they have begun to write it.

    Raises:
        ValueError: `plan` is such a one.
    """
    states = plan.stream.states
    if states != len(plan.inputs) - 1 or states != len(plan.outputs) - 1:
        raise ValueError("a stream's program takes one block, gives one, and all else are states")
    first_output = len(plan.inputs)
    copied, written = set[int](), set[int]()
    for step in plan.steps:
        touched = _memories_of(step, first_output)
        if isinstance(step, Copy) and touched[1] == first_output + touched[0]:
            copied.add(touched[0])
            continue
        for state in range(1, states + 1):
            if state in touched and state in written:
                raise ValueError(f"state {state - 1} of a stream's program is read after a write")
            if first_output + state in touched:
                written.add(state)
    missing = [state - 1 for state in range(1, states + 1) if state not in copied]
    if missing:
        raise ValueError(f"states {missing} of a stream's program are not updated in place")


def _memories_of(step: Step, first_output: int) -> tuple[int, ...]:
    """Which inputs and outputs a step touches, as numbers of memories; -1 is any other."""
    if isinstance(step, KernelLaunch):
        return tuple(memory for memory, _ in step.arguments)
    first = {Space.INPUT: 0, Space.OUTPUT: first_output}
    buffers = (step.source, step.out) if isinstance(step, Copy) else ()
    return tuple(first[x.space] + x.index if x.space in first else -1 for x in buffers)


def _words(values: list[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


@cache
def _library() -> Library:
    ir = resources.files("convir.runtime.host").joinpath("stream.ll").read_text(encoding="utf-8")
    return compile_ir(ir, exports=("stream_run",))
