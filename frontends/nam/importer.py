"""A WaveNet as ops of one function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    f64,
    i64,
)

from convir.dialects.stream_attributes import RATE_ATTR, STATES_ATTR
from convir.frontends.emitter import Emitter
from convir.frontends.nam.fields import LARGEST
from convir.frontends.nam.read import read_nam
from convir.frontends.nam.stages import Stages
from convir.frontends.nam.wavenet import emit_wavenet

if TYPE_CHECKING:
    from pathlib import Path

    from convir.frontends.nam.model import NamFile

FUNCTION = "main"


def import_nam(
    source: str | Path, *, frames: int, room: int | None = None, size: float = 1.0
) -> ModuleOp:
    """The module of a `.nam` file.

    `@main` takes a block, f32[1, channels, frames], and for each convolution that remembers a
    window, f32[1, channels, before + room]: the `before` frames that came before the block, at
    least dilation * (taps - 1), and room for it. It returns the block's output, f32[1, channels,
    frames], and the windows with the block behind `before`; moved to the left by `frames` they are
    those of the next block. The attribute `convir.states` of the function says how many there are.

    Args:
        source: the path of the file.
        frames: frames of a block.
        room: frames of a window behind what came before, at least `frames`; as many if None.
        size: which of a container's models, from 0 (the smallest) to 1 (the largest).

    Raises:
        NamError: the file cannot be read, or says something that is not supported.
        ValueError: `frames` is not a positive number, or there is no room for them; `size` is
            none from 0 to 1.
    """
    room = frames if room is None else room
    if not 1 <= frames <= LARGEST:
        raise ValueError(f"a block of {frames} frames is none")
    if not frames <= room <= LARGEST:
        raise ValueError(f"room={room} is none for a block of {frames} frames")
    if not 0 <= size <= 1:
        raise ValueError(f"size is {size}, not from 0 to 1")
    return _imported(read_nam(source, size), frames, room)


def _imported(source: NamFile, frames: int, room: int) -> ModuleOp:
    location = FileLineColLoc(StringAttr(source.file), IntAttr(0), IntAttr(0))
    function = func.FuncOp(FUNCTION, ([], []))
    function.location = location
    block = function.body.block
    x = block.insert_arg(TensorType(f32, [1, source.net.input_channels, frames]), 0)
    x.name_hint = "x"
    stages = Stages(Emitter(block, location), source, room)
    y = emit_wavenet(stages, source.net, x)
    stages.emit.location = location
    returned = func.ReturnOp(y, *stages.windows)
    returned.location = location
    block.add_op(returned)
    function.update_function_type()
    function.attributes[STATES_ATTR] = IntegerAttr(len(stages.windows), i64)
    if source.sample_rate:
        function.attributes[RATE_ATTR] = FloatAttr(source.sample_rate, f64)
    return ModuleOp([function])
