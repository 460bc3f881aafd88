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
    import numpy.typing as npt

    from convir.runtime.host.device import HostProgram

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
        frames: how many frames are computed at a time. Blocks of any other size are cut into such;
            what is left takes as long as all of one.
        size: which of the models that the file contains, from 0 (the smallest) to 1.
        pipeline: passes to run before lowering.
        threads: at most so many threads; None for all cores.

    Raises:
        DiagnosticError: the model cannot be read.
        ValueError: `frames` is no positive number.
    """
    room = ROOM_BLOCKS * frames
    model = nam_source(Path(source), frames, room, size)
    program = Job(model, "main", pipeline, find_device(HOST), threads=threads).compile()
    assert isinstance(program, Executable)
    return Stream(cast("HostProgram", program.loaded), room)


class Stream:
    """A function with states, called block after block; one thread at a time."""

    def __init__(self, program: HostProgram, room: int) -> None:
        """A stream that begins in silence.

        Args:
            program: computes some frames at a time.
            room: frames of a window behind those that came before the block.
        """
        block, output = program.inputs[0], program.outputs[0]
        self._native = HostStream(program, room)
        # A frame of output depends on no more frames before it than all windows hold together.
        self._remembered = sum(spec.shape[-1] - room for spec in program.inputs[1:])
        self.channels = block.shape[1]
        """Of the blocks that go in."""
        self.output_channels = output.shape[1]
        """Of those that come out."""
        self.sample_rate = program.plan.stream.sample_rate
        """Frames a second that the model was made for; None if it does not say so."""
        self.reset()

    def reset(self) -> None:
        """Forget everything: what comes next is heard after silence."""
        self._native.forget()
        self.process(np.zeros((self.channels, self._remembered), np.float32))

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
        made = np.empty(shape, np.float32) if out is None else out
        if made.shape != shape or made.dtype != np.float32:
            raise ValueError(f"`out` is {made.dtype}{list(made.shape)}, not float32{list(shape)}")
        if out is not None and (not out.flags.c_contiguous or np.may_share_memory(block, out)):
            made = np.empty(shape, np.float32)
        if not block.flags.c_contiguous:
            block = np.ascontiguousarray(block)
        size = count * _FRAME_BYTES
        self._native.run(address_of(block), address_of(made), size, size, size)
        if out is not None and made is not out:
            out[...] = made
            return out
        return made
