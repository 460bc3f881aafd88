"""Layers of quantised tensors on their integers: sums in i32, and from those to the next integers.

A tensor of 8-bit integers is held as unsigned bytes in i8; signed integers have 128 added, and so
has their zero point. With weights that lie around zero

    Σ (x - zero) * w  =  Σ x * w  -  zero * Σ w

where x is padded with its zero point. The last term and the bias are one constant a channel. A
layer between DequantizeLinear and QuantizeLinear says how its result is quantised (`Requantise`),
by onnxruntime's formulas, and what it is in reals, for other readers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, i8, i16, i32

from convir.dialects.conv.geometry import Geometry
from convir.dialects.conv.ops import FpropOp
from convir.frontends.elements import MEMORY, constant
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.steps import SIGN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call
    from convir.frontends.onnx.steps import Steps

QUAD = 4
"""Channels that CPUs multiply at once."""
_MOST = 255
_I8 = np.iinfo(np.int8)
_I32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Quantised:
    """A tensor of quantised integers."""

    unsigned: SSAValue
    """As unsigned bytes."""
    steps: Steps


def bytes_of(call: Call, name: str, value: SSAValue) -> SSAValue:
    """A tensor of 8-bit integers as unsigned bytes.

    Args:
        call: the node that reads it.
        name: what the model calls it.
        value: it, as it is held elsewhere: uint8 in i16, int8 in i8.
    """
    known = call.graph.held_bytes
    if name not in known:
        narrows = element_of(value) == i16

        def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            if narrows:
                return scalars.insert(arith.TruncIOp(args[0], i8))
            return scalars.insert(arith.AddiOp(args[0], scalars.number(-SIGN, i8)))

        known[name] = call.emit.elementwise([value], body, i8)
    return known[name]


def held(call: Call, unsigned: SSAValue, dtype: np.dtype[np.generic]) -> SSAValue:
    """Unsigned bytes as operators that know nothing of them hold 8-bit integers."""
    narrow = dtype == np.int8

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        if narrow:
            return scalars.insert(arith.AddiOp(args[0], scalars.number(-SIGN, i8)))
        return scalars.insert(arith.ExtUIOp(args[0], i16))

    return call.emit.elementwise([unsigned], body, i8 if narrow else i16)


def stored(scalars: ScalarBuilder, real: SSAValue, low: float, high: float, zero: int) -> SSAValue:
    """The byte of a real in steps: within [`low`, `high`], to nearest even, plus `zero`.

    A NaN becomes no integer in particular.
    """
    for relation, bound in (("ogt", low), ("olt", high)):
        limit = scalars.number(bound, f32)
        within = scalars.insert(arith.CmpfOp(real, limit, relation))
        real = scalars.insert(arith.SelectOp(within, real, limit))
    step = scalars.insert(arith.FPToSIOp(scalars.insert(math.RoundEvenOp(real)), i32))
    if zero:
        step = scalars.insert(arith.AddiOp(step, scalars.number(zero, i32)))
    return scalars.insert(arith.TruncIOp(step, i8))


def real_of(scalars: ScalarBuilder, byte: SSAValue, zero: int) -> SSAValue:
    """An unsigned byte minus `zero`, as f32."""
    wide = scalars.insert(arith.ExtUIOp(byte, i32))
    if zero:
        wide = scalars.insert(arith.AddiOp(wide, scalars.number(-zero, i32)))
    return scalars.insert(arith.SIToFPOp(wide, f32))


def requantised(call: Call, sums: SSAValue, factor: Array, zero: int, least: int = 0) -> SSAValue:
    """Sums in i32 times f32 factors as unsigned bytes around `zero`, none below `least`."""
    tensors = [] if factor.size == 1 else [_tensor(call, factor)]

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        by = args[1] if tensors else scalars.number(factor.item(), f32)
        real = scalars.insert(arith.SIToFPOp(args[0], f32))
        real = scalars.insert(arith.MulfOp(real, by))
        return stored(scalars, real, least - zero, _MOST - zero, zero)

    return call.emit.elementwise([sums, *tensors], body, i8)


def scaled(call: Call, sums: SSAValue, factor: Array) -> SSAValue:
    """Sums in i32 times f32 factors, in f32."""
    tensors = [] if factor.size == 1 else [_tensor(call, factor)]

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        by = args[1] if tensors else scalars.number(factor.item(), f32)
        return scalars.insert(arith.MulfOp(scalars.insert(arith.SIToFPOp(args[0], f32)), by))

    return call.emit.elementwise([sums, *tensors], body, f32)


def _tensor(call: Call, array: Array) -> SSAValue:
    return call.emit.insert(constant(np.ascontiguousarray(array), MEMORY, None))


def signed_weights(weights: Array) -> Array | None:
    """Weights minus their zero points, if each is the sum of two signed bytes; else None."""
    fits = weights.size and weights.min() >= 2 * _I8.min and weights.max() <= 2 * _I8.max
    return weights.astype(np.int16) if fits else None


def _parts(weights: Array) -> list[Array]:
    """Signed bytes whose sum is `weights`: one tensor of them where that can be."""
    first = np.clip(weights, _I8.min, _I8.max)
    rest = weights - first
    return [part.astype(np.int8) for part in (first, rest) if part is first or part.any()]


def convolved(
    call: Call,
    x: SSAValue,
    zero: int,
    weights: Array,
    windows: Callable[[SSAValue, SSAValue], tuple[tuple[int, ...], Geometry]],
    bias: Array | None = None,
) -> SSAValue | None:
    """The sums of a convolution of bytes and a bias, in i32; None where they do not fit.

    Args:
        call: the node.
        x: N x C x positions, unsigned bytes.
        zero: what x has for 0, and around it.
        weights: K x C/G x taps, sums of two signed bytes.
        windows: the shape of the result of an image and a filter, and the geometry.
        bias: integers, K.
    """
    k, rest = weights.shape[0], tuple(range(1, weights.ndim))
    wide = weights.astype(np.int64)
    added = -zero * wide.sum(axis=rest)
    added = added if bias is None else added + bias.astype(np.int64)
    reach = np.abs(wide).sum(axis=rest) * _MOST + np.abs(added)
    if reach.max(initial=0) > _I32.max:
        return None
    shape, geometry = windows(x, x_like(call, weights))
    low, high = list(geometry.pad_low), list(geometry.pad_high)
    more = -shape_of(x)[1] % QUAD
    if more and geometry.groups == 1:
        # Whole words of channels; the bytes beside them meet zeros.
        none = [0] * (weights.ndim - 1)
        x = call.emit.pad(x, [0, *none], [0, more, *none[1:]], call.emit.number(0, i8))
        weights = np.pad(weights, [(0, 0), (0, more), *[(0, 0)] * len(low)])
    if any((*low, *high)) and zero:
        fill = call.emit.number(zero - 256 if zero >= SIGN else zero, i8)
        x = call.emit.pad(x, [0, 0, *low], [0, 0, *high], fill)
        geometry = replace(geometry, pad_low=(0,) * len(low), pad_high=(0,) * len(high))
    sums = call.emit.filled(0, shape, i32)
    for part in _parts(weights):
        sums = call.emit.insert(FpropOp(x, _tensor(call, part), sums, geometry, i32))
    if not added.any():
        return sums
    addend = _tensor(call, added.astype(np.int32).reshape(k, *([1] * len(low))))
    return call.emit.elementwise(
        [sums, addend], lambda body, args: body.insert(arith.AddiOp(args[0], args[1]))
    )


def x_like(call: Call, weights: Array) -> SSAValue:
    """A tensor of the shape of `weights`, of which nothing but that is asked."""
    return call.emit.empty(weights.shape, i8)


def multiplied(
    call: Call, x: SSAValue, zero: int, weights: Array, bias: Array | None = None
) -> SSAValue | None:
    """The sums of a product of bytes with a matrix and a bias, in i32; None where they do not fit.

    Args:
        call: the node.
        x: … x K, unsigned bytes.
        zero: what x has for 0.
        weights: K x N, sums of two signed bytes.
        bias: integers, N.
    """
    *outer, depth = shape_of(x)
    rows = prod(outer)
    if depth != weights.shape[0]:
        raise call.error(f"its operands have {depth} columns and {weights.shape[0]} rows")
    if not rows or not weights.size:
        return None
    geometry = Geometry("NCW", "KCS", "NCW", (1,), (0,), (0,), (1,), 1)
    shape = rows, weights.shape[1], 1
    image = call.emit.reshape(x, [rows, depth, 1])
    filters = np.ascontiguousarray(weights.T)[:, :, None]
    sums = convolved(call, image, zero, filters, lambda _x, _w: (shape, geometry), bias)
    return None if sums is None else call.emit.reshape(sums, [*outer, weights.shape[1]])


def totals(call: Call, x: SSAValue, zero: int) -> SSAValue | None:
    """The sums of each channel of N x C x positions minus `zero` each, in i32, N x C x 1 x …"""
    batch, channels, *sizes = shape_of(x)
    ones = np.ones((channels, 1, *sizes), np.int8)
    rank = len(sizes)
    names = "DHW"[3 - rank :], "TRS"[3 - rank :]
    if not 1 <= rank <= len("DHW") or not prod(sizes):
        return None
    geometry = Geometry(
        f"NC{names[0]}",
        f"KC{names[1]}",
        f"NC{names[0]}",
        (1,) * rank,
        (0,) * rank,
        (0,) * rank,
        (1,) * rank,
        channels,
    )
    shape = batch, channels, *([1] * rank)
    return convolved(call, x, zero, ones, lambda _x, _w: (shape, geometry))


def channel_factor(factor: Array, rank: int, axis: int) -> Array:
    """Factors in f32 that broadcast with a tensor of `rank`, along `axis`."""
    factor = factor.astype(np.float32)
    if factor.size == 1:
        return factor.reshape(())
    along = [1] * rank
    along[axis] = factor.size
    return factor.reshape(along)


def added(
    call: Call,
    operands: Sequence[Quantised],
    to: Steps,
    least: int,
) -> SSAValue:
    """The sum of two dequantised tensors as unsigned bytes of the steps `to`, none below `least`.

    Rounded where onnxruntime's QLinearAdd is on CPUs that fuse multiplications with additions.
    """
    a, b = operands
    ratios = [x.steps.scale / to.scale for x in operands]
    zeros = [np.float32(x.steps.signed_zero) for x in operands]
    fixed = np.float32(to.signed_zero) - _fused(ratios[0], zeros[0], ratios[1] * zeros[1])

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = scalars.number(float(fixed), f32)
        for byte, ratio, operand in reversed(list(zip(args, ratios, operands, strict=True))):
            real = real_of(scalars, byte, operand.steps.offset)
            by = scalars.number(float(ratio), f32)
            total = scalars.insert(math.FmaOp(real, by, total))
        return stored(scalars, total, least - to.offset, _MOST - to.offset, to.offset)

    return call.emit.elementwise([a.unsigned, b.unsigned], body, i8)


def zero_added(call: Call, x: SSAValue, to: Steps, least: int) -> SSAValue:
    """Reals as unsigned bytes, none below `least`: their steps and the zero point, rounded."""

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        real = scalars.insert(arith.DivfOp(args[0], scalars.number(float(to.scale), f32)))
        real = scalars.insert(arith.AddfOp(real, scalars.number(to.signed_zero, f32)))
        return stored(scalars, real, least - to.offset, _MOST - to.offset, to.offset)

    return call.emit.elementwise([x], body, i8)


def _fused(left: np.float32, right: np.float32, total: np.float32) -> np.float32:
    """`left * right + total`, rounded once."""
    return np.float32(np.float64(left) * np.float64(right) + np.float64(total))
