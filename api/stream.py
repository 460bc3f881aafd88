"""`convir.stream`: a model that is given one block after another, and remembers.

A function whose first argument and result are blocks, [1, channels, frames], and whose other
arguments and results are windows, [1, channels, frames before the block + room for it], in the same
order: what `convir.frontends.nam` makes of a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from convir.api.arguments import check_fraction, check_integer, check_type
from convir.api.compile import DEFAULT_PIPELINE, Job
from convir.api.sources import nam_source
from convir.runtime.arrays.border import plain
from convir.runtime.devices import CUDA, HOST, find_device
from convir.runtime.executable import Executable
from convir.runtime.host.device import HostProgram
from convir.runtime.host.stream import HostStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.runtime.cuda.device import CudaProgram
    from convir.runtime.cuda.stream import CudaStream
    from convir.runtime.executable import DeviceProgram
    from convir.runtime.program import StreamSpec

DEFAULT_FRAMES = 64
"""Frames that are computed at a time: what audio hosts commonly ask for."""

ROOM_BLOCKS = {HOST: 8, CUDA: 32}
"""Blocks after which windows begin anew: what they remember is copied once in so many. On the host
all of them together still fit in the second-level cache; on a GPU each place takes a graph, and a
copy as long as a layer."""


_F32 = np.dtype(np.float32)


def stream(
    source: str | Path,
    *,
    frames: int = DEFAULT_FRAMES,
    size: float = 1.0,
    pipeline: str = DEFAULT_PIPELINE,
    threads: int | None = 1,
    device: str = HOST,
) -> Stream:
    """A stream through a .nam model, which begins after enough silence.

    Args:
        source: the path of the model.
        frames: how many frames are computed at a time. Blocks of any other size are cut into such;
            what is left takes as long as all of one.
        size: which of the models that the file contains, from 0 (the smallest) to 1.
        pipeline: passes to run before lowering.
        threads: at most so many threads on the host; None for all cores.
        device: `host`, `cuda`, `cuda:1`, or `auto` for a GPU where there is one.

    Raises:
        DiagnosticError: the model cannot be read.
        TypeError: an argument is of a type that means nothing here.
        ValueError: `frames` or `threads` is below 1; `size` is not from 0 to 1; `device` names no
            device.
        NoGpuError: a GPU was asked for by name and cannot be used.
    """
    check_type("source", source, str | Path, "the path of a model")
    check_integer("frames", frames, 1)
    check_fraction("size", size)
    check_type("pipeline", pipeline, str, "text")
    check_integer("threads", threads, 1, optional=True)
    check_type("device", device, str, "the name of a device")
    on = find_device(device)
    room = ROOM_BLOCKS[on.kind] * frames
    model = nam_source(Path(source), frames, room, size)
    program = Job(model, "main", pipeline, on, threads=threads).compile()
    assert isinstance(program, Executable)
    return Stream(program.loaded, room)


class Stream:
    """A function with states, called block after block; one thread at a time.

    On a GPU blocks and outputs are CuPy arrays, and everything is enqueued on the current stream,
    the same in all calls. Blocks on the host are copied there.
    """

    def __init__(self, program: DeviceProgram, room: int) -> None:
        """A stream that begins in silence.

        Args:
            program: computes some frames at a time.
            room: frames of a window behind those that came before the block.
        """
        block, output = program.inputs[0], program.outputs[0]
        self._states, spec = _on_device(program, room)
        self._arrays = program.arrays
        # A frame of output depends on no more frames before it than all windows hold together.
        self._remembered = sum(window.shape[-1] - room for window in program.inputs[1:])
        self.channels = block.shape[1]
        """Of the blocks that go in."""
        self.output_channels = output.shape[1]
        """Of those that come out."""
        self.sample_rate = spec.sample_rate
        """Frames a second that the model was made for; None if it does not say so."""
        self.reset()

    def reset(self) -> None:
        """Forget everything: what comes next is heard after silence."""
        self._states.forget()
        self.process(np.zeros((self.channels, self._remembered), np.float32))

    def process(self, block: Any, out: Any = None) -> Any:
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
        arrays = self._arrays
        block = arrays.asarray(plain(block, "the block"))
        if block.dtype != _F32:
            raise TypeError(f"the block holds {block.dtype}, not float32")
        shape = self._output_shape(block)
        made = arrays.empty(shape, _F32) if out is None else plain(out, "`out`")
        if made.shape != shape or made.dtype != _F32:
            raise ValueError(f"`out` is {made.dtype}{list(made.shape)}, not float32{list(shape)}")
        if not block.flags.c_contiguous:
            block = arrays.ascontiguousarray(block)
        if made.flags.c_contiguous:
            self._states.run(block, made)
        else:
            dense = arrays.empty(shape, _F32)
            self._states.run(block, dense)
            made[...] = dense
        return made

    def prepare(self, block: Any, out: Any) -> Callable[[], None]:
        """A call that does what `process(block, out)` does, for arrays that stay where they are.

        What they hold is read and written by each call; their shapes are not looked at again.

        Args:
            block: a dense array as for `process`, on the model's device.
            out: a dense array of the output's shape, which does not overlap `block`.

        Raises:
            TypeError: one of them holds no f32, or lies on another device.
            ValueError: one has another shape, or is not dense; or they overlap.
        """
        for array in (block, out):
            plain(array, "the array of a prepared call")
            if not isinstance(array, self._arrays.ndarray) or array.dtype != _F32:
                raise TypeError("a prepared call takes arrays of float32 on the model's device")
            if not array.flags.c_contiguous:
                raise ValueError("a prepared call takes dense arrays")
        shape = self._output_shape(block)
        if out.shape != shape:
            raise ValueError(f"`out` is {out.dtype}{list(out.shape)}, not float32{list(shape)}")
        if self._arrays.may_share_memory(block, out):
            raise ValueError("`out` overlaps the block of a prepared call")
        return self._states.prepare(block, out)

    def _output_shape(self, block: Any) -> tuple[int, ...]:
        """The shape of the output of `block`.

        Raises:
            ValueError: `block` has a shape that the model does not take.
        """
        shape = block.shape
        if self.channels == 1 and len(shape) == 1:
            return shape if self.output_channels == 1 else (self.output_channels, shape[0])
        if len(shape) != 2 or shape[0] != self.channels:
            raise ValueError(f"the block has the shape {shape}, not ({self.channels}, n)")
        return self.output_channels, shape[1]


def _on_device(program: DeviceProgram, room: int) -> tuple[HostStream | CudaStream, StreamSpec]:
    """What keeps a program's states on its device, and what the program says about them."""
    if isinstance(program, HostProgram):
        return HostStream(program, room), program.plan.stream
    from convir.runtime.cuda.stream import CudaStream  # noqa: PLC0415  (where there is a GPU)

    on_gpu = cast("CudaProgram", program)
    return CudaStream(on_gpu, room), on_gpu.program.stream
