"""`convir.stream`: a model that is given one block after another, and remembers.

A function whose first argument and result are blocks, [1, channels, frames], and whose other
arguments and results are histories, [1, channels, frames before the block], in the same order: what
`convir.frontends.nam` makes of a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convir.api.compile import DEFAULT_PIPELINE, compile
from convir.runtime.devices import HOST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from convir.runtime.executable import Executable

    Block = npt.NDArray[np.float32]

DEFAULT_FRAMES = 64
"""Frames that are computed at a time: what audio hosts commonly ask for."""


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

    def compiled(count: int) -> Executable:
        return compile(
            source,
            pipeline,
            HOST,
            shapes=[(1, 1, count)],
            size=size,
            threads=threads,
        )

    return Stream(compiled, frames)


class Stream:
    """A function with histories, called block after block; one thread at a time."""

    def __init__(self, compiled: Callable[[int], Executable], frames: int) -> None:
        """A stream that begins in silence.

        Args:
            compiled: gives the program for blocks of so many frames.
            frames: the most frames that are computed at a time, a power of two.
        """
        self._compiled = compiled
        self._frames = frames
        self._programs = {frames: compiled(frames)}
        program = self._programs[frames]
        self._histories = [program.empty(spec) for spec in program.inputs[1:]]
        self._next_histories = [program.empty(spec) for spec in program.inputs[1:]]
        self.channels = program.inputs[0].shape[1]
        """Of the blocks that go in."""
        self.output_channels = program.outputs[0].shape[1]
        """Of those that come out."""
        self.reset()

    def reset(self) -> None:
        """Forget everything: what comes next is heard after silence."""
        for history in self._histories:
            history[...] = 0
        program = self._programs[self._frames]
        silence, unheard = program.empty(program.inputs[0]), program.empty(program.outputs[0])
        silence[...] = 0
        # A frame of output depends on no more frames before it than all histories hold together.
        remembered = sum(spec.shape[-1] for spec in program.inputs[1:])
        for _ in range(-(-remembered // self._frames)):
            self._run(program, silence, unheard)

    def process(self, block: Block, out: Block | None = None) -> Block:
        """The output of the next block.

        Args:
            block: f32[channels, n], or f32[n] where there is one channel; any n.
            out: where to write it; a new array if None.

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
        planes = block[None] if is_flat else block
        if planes.ndim != 2 or len(planes) != self.channels:
            raise ValueError(f"the block has the shape {block.shape}, not ({self.channels}, n)")
        count = planes.shape[1]
        shape = (count,) if is_flat and self.output_channels == 1 else (self.output_channels, count)
        out = np.empty(shape, np.float32) if out is None else out
        if out.shape != shape or out.dtype != np.float32:
            raise ValueError(f"`out` is {out.dtype}{list(out.shape)}, not float32{list(shape)}")
        results = out.reshape(self.output_channels, count)
        begin = 0
        while begin < count:
            size = min(self._frames, 1 << ((count - begin).bit_length() - 1))
            self._piece(planes[:, begin : begin + size], results[:, begin : begin + size])
            begin += size
        return out

    def _piece(self, block: Block, result: Block) -> None:
        """One block whose size is a power of two."""
        size = block.shape[1]
        if size not in self._programs:
            self._programs[size] = self._compiled(size)
        program = self._programs[size]
        dense = np.ascontiguousarray(block)[None]
        if result.flags.c_contiguous:
            self._run(program, dense, result[None])
            return
        made = program.empty(program.outputs[0])
        self._run(program, dense, made)
        result[...] = made[0]

    def _run(self, program: Executable, block: Block, result: Block) -> None:
        program(block, *self._histories, out=(result, *self._next_histories))
        self._histories, self._next_histories = self._next_histories, self._histories
