"""`convir.stream`: a model that is given one block after another, and remembers.

A function whose first argument and result are blocks, [1, channels, frames], and whose other
arguments and results are windows, [1, channels, frames before the block + room for it], in the same
order: what `convir.frontends.nam` makes of a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from convir.api.compile import DEFAULT_PIPELINE, Job
from convir.api.sources import nam_source
from convir.runtime.devices import HOST, find_device
from convir.runtime.executable import Executable
from convir.runtime.host.stream import HostStream
from convir.runtime.host_memory import address_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from convir.runtime.host.device import HostProgram
    from convir.runtime.host.stream import BlockProgram

    Block = npt.NDArray[np.float32]

DEFAULT_FRAMES = 64
"""Frames that are computed at a time: what audio hosts commonly ask for."""

ROOM_BLOCKS = 8
"""Blocks after which windows begin anew: what they remember is copied once in so many, and all of
them together still fit in the second-level cache."""

_FRAME_BYTES = 4


def stream(
    source: str | Path,
    *,
    frames: int = DEFAULT_FRAMES,
    size: float = 1.0,
    pipeline: str = DEFAULT_PIPELINE,
    threads: int | None = 1,
) -> Stream:
    """A stream through a .nam model on the CPU, which begins after enough silence.

    Args:
        source: the path of the model.
        frames: how many frames are computed at a time, a power of two. Blocks of any other size are
            cut into such and smaller powers of two, each compiled when it first comes.
        size: which of the models that the file contains, from 0 (the smallest) to 1.
        pipeline: passes to run before lowering.
        threads: at most so many threads; None for all cores.

    Raises:
        DiagnosticError: the model cannot be read.
        ValueError: `frames` is no power of two.
    """
    if frames < 1 or frames & (frames - 1):
        raise ValueError(f"frames={frames} is no power of two")
    room = ROOM_BLOCKS * max(frames, DEFAULT_FRAMES)
    device = find_device(HOST)

    def compiled(count: int) -> HostProgram:
        model = nam_source(Path(source), count, room, size)
        job = Job(model, "main", pipeline, device, threads=threads)
        program = job.compile()
        assert isinstance(program, Executable)
        return cast("HostProgram", program.loaded)

    return Stream(compiled, frames, room)


class Stream:
    """A function with states, called block after block; one thread at a time."""

    def __init__(self, compiled: Callable[[int], HostProgram], frames: int, room: int) -> None:
        """A stream that begins in silence.

        Args:
            compiled: gives the program for blocks of so many frames.
            frames: the most frames that are computed at a time, a power of two.
            room: frames of a window behind those that came before the block.
        """
        self._compiled = compiled
        self._frames = frames
        program = compiled(frames)
        self._windows = HostStream(program, room)
        self._programs = {frames: self._windows.load(program)}
        # A frame of output depends on no more frames before it than all windows hold together.
        self._remembered = sum(spec.shape[-1] - room for spec in program.inputs[1:])
        self.channels = program.inputs[0].shape[1]
        """Of the blocks that go in."""
        self.output_channels = program.outputs[0].shape[1]
        """Of those that come out."""
        self.sample_rate = program.plan.stream.sample_rate
        """Frames a second that the model was made for; None if it does not say so."""
        self.reset()

    def reset(self) -> None:
        """Forget everything: what comes next is heard after silence."""
        self._windows.forget()
        count = -(-self._remembered // self._frames) * self._frames
        unheard = np.empty((self.output_channels, count), np.float32)
        self._run(np.zeros((self.channels, count), np.float32), unheard)

    def process(self, block: Block, out: Block | None = None) -> Block:
        """The output of the next block.

        Args:
            block: f32[channels, n], or f32[n] where there is one channel; any n.
            out: where to write it, which may be `block`; a new array if None.

        Returns:
            f32[output channels, n], or f32[n] if the block has one dimension and so has the output.

        Raises:
            TypeError: the block's elements are no f32.
            ValueError: it, or `out`, has another shape.
        """
        block = np.asarray(block)
        if block.dtype != np.float32:
            raise TypeError(f"the block holds {block.dtype}, not float32")
        is_flat = block.ndim == 1 and self.channels == 1
        if not is_flat and (block.ndim != 2 or len(block) != self.channels):
            raise ValueError(f"the block has the shape {block.shape}, not ({self.channels}, n)")
        count = block.shape[-1]
        shape = (count,) if is_flat and self.output_channels == 1 else (self.output_channels, count)
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.shape != shape or out.dtype != np.float32:
            raise ValueError(f"`out` is {out.dtype}{list(out.shape)}, not float32{list(shape)}")
        elif np.may_share_memory(block, out):
            block = block.copy()
        self._run(block, out)
        return out

    def _run(self, block: Block, out: Block) -> None:
        """The outputs of `block`, f32[channels, n] or f32[n], in `out`; the two do not overlap."""
        count = block.shape[-1]
        is_line = block.size == count == out.size
        if is_line and block.flags.c_contiguous and out.flags.c_contiguous:
            self._line(address_of(block), address_of(out), count)
            return
        for begin, size in self._pieces(0, count):
            piece = slice(begin, begin + size)
            dense = np.ascontiguousarray(block[..., piece])
            made = np.empty((*out.shape[:-1], size), np.float32)
            self._windows.run(self._program(size), address_of(dense), address_of(made), 1)
            out[..., piece] = made

    def _line(self, x: int, y: int, count: int) -> None:
        """One channel at the address `x`; its outputs, one channel too, go to `y`."""
        whole = count // self._frames
        if whole:
            self._windows.run(self._programs[self._frames], x, y, whole)
        for begin, size in self._pieces(whole * self._frames, count):
            at = begin * _FRAME_BYTES
            self._windows.run(self._program(size), x + at, y + at, 1)

    def _pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Where blocks begin, and their frames: powers of two, the largest first."""
        while begin < end:
            size = min(self._frames, 1 << ((end - begin).bit_length() - 1))
            yield begin, size
            begin += size

    def _program(self, size: int) -> BlockProgram:
        program = self._programs.get(size)
        if program is None:
            program = self._programs[size] = self._windows.load(self._compiled(size))
        return program
