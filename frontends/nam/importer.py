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

from convir.frontends.emitter import Emitter
from convir.frontends.nam.read import read_nam
from convir.frontends.nam.stages import Stages
from convir.frontends.nam.wavenet import emit_wavenet

if TYPE_CHECKING:
    from pathlib import Path

    from convir.frontends.nam.model import NamFile

FUNCTION = "main"

STATES_ATTRIBUTE = "convir.states"
"""How many of a function's last arguments are what its last results were in the call before."""

RATE_ATTRIBUTE = "convir.sample_rate"
"""Frames a second."""


def import_nam(source: str | Path, *, frames: int, size: float = 1.0) -> ModuleOp:
    """The module of a `.nam` file.

    `@main` takes a block, f32[1, channels, frames], and the histories of its convolutions,
    f32[1, channels, dilation * (taps - 1)] each; it returns the block's output, f32[1, channels,
    frames], and the histories for the next block. The attribute `convir.states` of the function
    says how many these are.

    Args:
        source: the path of the file.
        frames: frames of a block.
        size: which of a container's models, from 0 (the smallest) to 1 (the largest).

    Raises:
        NamError: the file cannot be read, or says something that is not supported.
        ValueError: `frames` is no positive number.
    """
    if frames < 1:
        raise ValueError(f"a block of {frames} frames is none")
    return _imported(read_nam(source, size), frames)


def _imported(source: NamFile, frames: int) -> ModuleOp:
    location = FileLineColLoc(StringAttr(source.file), IntAttr(0), IntAttr(0))
    function = func.FuncOp(FUNCTION, ([], []))
    function.location = location
    block = function.body.block
    x = block.insert_arg(TensorType(f32, [1, source.net.input_channels, frames]), 0)
    x.name_hint = "x"
    stages = Stages(Emitter(block, location), source)
    y = emit_wavenet(stages, source.net, x)
    stages.emit.location = location
    returned = func.ReturnOp(y, *stages.histories)
    returned.location = location
    block.add_op(returned)
    function.update_function_type()
    function.attributes[STATES_ATTRIBUTE] = IntegerAttr(len(stages.histories), i64)
    if source.sample_rate:
        function.attributes[RATE_ATTRIBUTE] = FloatAttr(source.sample_rate, f64)
    return ModuleOp([function])
