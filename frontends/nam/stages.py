"""The parts that a WaveNet is made of, on planar tensors f32[1, channels, frames]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir.affine import AffineExpr

from convir.dialects.conv.geometry import Geometry
from convir.dialects.conv.ops import FpropOp
from convir.frontends.elements import MEMORY, constant
from convir.frontends.emitter import shape_of
from convir.frontends.nam import activations
from convir.frontends.nam.errors import NamError
from convir.frontends.scalar_functions import leaky

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import Emitter, ScalarBody, ScalarBuilder
    from convir.frontends.nam.model import Activation, NamFile
    from convir.frontends.nam.weights import Weights

_LINE = 16
"""Frames that fill a cache line."""

MAX_FRAMES = 1 << 20
"""A stream begins with as many frames of silence as it remembers: half a minute at 44.1 kHz."""

MAX_ELEMENTS = 1 << 28
"""Of all windows before the block."""

_LAYOUTS = ("NCW", "KCS", "NCW")
_CHANNEL = 1
_FRAME = 2


@dataclass(frozen=True)
class Filter:
    """The weights of a convolution, as tensors."""

    taps: SSAValue
    """f32[K, C / groups, S]."""
    bias: SSAValue | None
    """f32[K]."""
    groups: int


@dataclass
class Stages:
    """Appends the parts of a model to a function."""

    emit: Emitter
    source: NamFile
    room: int
    """Frames of a window behind those that came before the block."""
    windows: list[SSAValue] = field(default_factory=list["SSAValue"])
    """What the convolutions see, the block included, in the order of the arguments."""
    _frames: int = 0
    """How many frames before a block all windows together remember."""
    _elements: int = 0
    """How many numbers they hold of them."""

    def error(self, message: str) -> NamError:
        """An error about the model."""
        return NamError(self.source.file, message)

    def filter(
        self,
        weights: Weights,
        inputs: int,
        channels: int,
        *,
        taps: int = 1,
        groups: int = 1,
        bias: bool,
    ) -> Filter:
        """The next weights as those of a convolution of `inputs` to `channels` channels.

        Raises:
            NamError: the channels are no multiple of the groups, or there are no more weights.
        """
        if inputs % groups or channels % groups:
            raise self.error(f"{inputs} to {channels} channels have no {groups} groups")
        w = self.emit.insert(weights.take((channels, inputs // groups, taps)))
        return Filter(w, self.emit.insert(weights.take((channels,))) if bias else None, groups)

    def convolution(self, x: SSAValue, w: Filter, dilation: int = 1) -> SSAValue:
        """A causal convolution: frame t sees the frames t, t - d, … t - d·(taps - 1) of `x`."""
        channels, _, taps = shape_of(w.taps)
        init = self.emit.filled(0.0, (1, channels, shape_of(x)[_FRAME]), f32)
        geometry = Geometry(
            *_LAYOUTS,
            strides=(1,),
            pad_low=(0,),
            pad_high=(0,),
            dilations=(dilation,),
            groups=w.groups,
        )
        seen = self._remembered(x, dilation * (taps - 1))
        y = self.emit.insert(FpropOp(seen, w.taps, init, geometry, f32))
        if w.bias is None:
            return y
        return self._by_channel(y, w.bias, total)

    def film(self, x: SSAValue, condition: SSAValue, w: Filter) -> SSAValue:
        """`x` times a scale of each channel and frame, plus a shift if `w` has outputs for it."""
        channels = shape_of(x)[_CHANNEL]
        made = self.convolution(condition, w)
        scale = self.channels(made, 0, channels)
        scaled = self.emit.elementwise([x, scale], product)
        if shape_of(made)[_CHANNEL] == channels:
            return scaled
        return self.sum(scaled, self.channels(made, channels, channels))

    def activated(self, x: SSAValue, activation: Activation) -> SSAValue:
        """An activation of every element.

        Raises:
            NamError: it has slopes for another number of channels.
        """
        if activation.kind != activations.PRELU:
            return self.emit.elementwise(
                [x], lambda body, args: activations.apply(body, args[0], activation)
            )
        channels = shape_of(x)[_CHANNEL]
        if len(activation.slopes) != channels:
            message = f"{len(activation.slopes)} slopes for {channels} channels"
            raise self.error(f"a {activations.PRELU} has {message}")
        slopes = self.emit.insert(constant(np.array(activation.slopes, np.float32), MEMORY, None))
        return self._by_channel(x, slopes, lambda body, args: leaky(body, args[0], args[1]))

    def sum(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """`x + y`."""
        return self.emit.elementwise([x, y], total)

    def scaled(self, x: SSAValue, factor: float) -> SSAValue:
        """`x * factor`."""
        return self.emit.elementwise(
            [x], lambda body, args: body.insert(arith.MulfOp(args[0], body.number(factor, f32)))
        )

    def channels(self, x: SSAValue, first: int, count: int) -> SSAValue:
        """Some neighbouring channels."""
        return self.emit.extract(x, (0, first, 0), (1, count, shape_of(x)[_FRAME]), (1, 1, 1))

    def _remembered(self, x: SSAValue, before: int) -> SSAValue:
        """`x` behind the `before` frames that came before it, in a window that remembers it."""
        if before == 0:
            return x
        _, channels, frames = shape_of(x)
        kept = frames_before(before, self.room)
        self._frames += before
        self._elements += channels * kept
        if self._frames > MAX_FRAMES or self._elements > MAX_ELEMENTS:
            raise self.error(
                f"its layers remember {self._frames} frames, {self._elements} numbers in all; "
                f"at most {MAX_FRAMES} and {MAX_ELEMENTS} are supported"
            )
        block = self.emit.block
        window = block.insert_arg(TensorType(f32, (1, channels, kept + self.room)), len(block.args))
        window.name_hint = "window"
        seen = self.emit.insert_into(x, window, (0, 0, kept))
        self.windows.append(seen)
        shape = (1, channels, before + frames)
        return self.emit.extract(seen, (0, 0, kept - before), shape, (1, 1, 1))

    def _by_channel(self, x: SSAValue, column: SSAValue, body: ScalarBody) -> SSAValue:
        """A function of each element and its channel's entry of `column`."""
        loops = [AffineExpr.dimension(loop) for loop in range(len(shape_of(x)))]
        init = self.emit.empty(shape_of(x), f32)
        inputs: list[tuple[SSAValue, Sequence[AffineExpr]]] = [
            (x, loops),
            (column, [loops[_CHANNEL]]),
        ]
        return self.emit.generic(inputs, (init, loops), len(loops), 0, body)


def frames_before(least: int, room: int) -> int:
    """How many frames a window holds before its `room`, at least `least`.

    Rows are an odd number of cache lines, so that the channels of a frame lie in different sets of
    a cache; where `room` is a number of lines, the block begins with one.
    """
    lines = -(-(least + room) // _LINE)
    return (lines + 1 - lines % 2) * _LINE - room


def product(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    """The first two scalars multiplied."""
    return body.insert(arith.MulfOp(args[0], args[1]))


def total(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    """The first two scalars added up."""
    return body.insert(arith.AddfOp(args[0], args[1]))
