"""BatchNormalization at inference, and normalisations by what an image itself holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import rounded, scaled, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

_GAIN_PER_CHANNEL_OPSET = 21
"""Before this version GroupNormalization has one scale a group."""

PARAMETERS = (1, 2, 3, 4)
"""The inputs scale, B, mean and variance: one element a channel each."""


def scale_and_shift(call: Call, element: Attribute) -> tuple[SSAValue, SSAValue]:
    """The factor and the summand of each channel that a BatchNormalization comes to.

    Of f16 and bf16 they are f32: their own rounding would be the same error at each position.

    Raises:
        OnnxError: it trains, or its parameters are of another type than `element`.
    """
    epsilon = float(call.attribute("epsilon", 1e-5))
    call.attribute("momentum", 0.9)  # It says how training averages, and nothing about inference.
    if int(call.attribute("training_mode", 0)) or not int(call.attribute("spatial", 1)):
        raise call.error("only inference with one scale per channel is supported")
    call.attribute("is_test", 1)
    scale, bias, mean, variance = (call.input(position) for position in PARAMETERS)
    for parameter in (scale, bias, mean, variance):
        if element_of(parameter) != element:
            raise call.error(f"a parameter is of {element_of(parameter)}, its input of {element}")

    wide = wide_of(element_of(scale))

    def factor(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        gain, spread = (widened(body, arg, wide) for arg in args)
        shifted = body.insert(arith.AddfOp(spread, body.number(epsilon, spread.type)))
        return body.insert(arith.DivfOp(gain, body.insert(math.SqrtOp(shifted))))

    def summand(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        offset, center, gain = (widened(body, arg, wide) for arg in args)
        return body.insert(arith.SubfOp(offset, body.insert(arith.MulfOp(center, gain))))

    factors = call.emit.elementwise([scale, variance], factor, wide)
    return factors, call.emit.elementwise([bias, mean, factors], summand, wide)


def _batch_normalization(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    factors, summands = scale_and_shift(call, element_of(x))
    ones = [1] * (len(shape_of(x)) - 2)
    per_channel = [
        call.emit.reshape(value, [*shape_of(value), *ones]) for value in (factors, summands)
    ]

    def normalize(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value, gain, shift = args
        product = body.insert(arith.MulfOp(widened(body, value, gain.type), gain))
        return rounded(body, body.insert(arith.AddfOp(product, shift)), element_of(x))

    return [call.emit.elementwise([x, *per_channel], normalize, element_of(x))]


@dataclass(frozen=True)
class _Statistics:
    """Of the elements along some dimensions, which have size 1 in the last two."""

    centered: SSAValue
    """The elements less their mean."""
    mean: SSAValue
    inverse: SSAValue
    """One over the deviation."""

    @property
    def normalized(self) -> tuple[SSAValue, SSAValue]:
        """Two factors."""
        return self.centered, self.inverse


def _statistics(call: Call, x: SSAValue, axes: Sequence[int]) -> _Statistics:
    epsilon = float(call.attribute("epsilon", 1e-5))
    emit, element, shape = call.emit, element_of(x), shape_of(x)
    count = prod(shape[axis] for axis in axes)
    kept = [1 if dim in axes else size for dim, size in enumerate(shape)]

    def mean_of(value: SSAValue) -> SSAValue:
        total = emit.reduce(
            value, axes, 0, lambda b, args: b.insert(arith.AddfOp(args[1], args[0]))
        )
        mean = emit.elementwise(
            [total], lambda b, args: b.insert(arith.DivfOp(args[0], b.number(count, element)))
        )
        return emit.reshape(mean, kept)

    def inverse(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        shifted = body.insert(arith.AddfOp(args[0], body.number(epsilon, element)))
        return body.insert(arith.DivfOp(body.number(1, element), body.insert(math.SqrtOp(shifted))))

    mean = mean_of(x)
    centered = emit.elementwise([x, mean], lambda b, args: b.insert(arith.SubfOp(args[0], args[1])))
    squares = emit.elementwise([centered], lambda b, args: b.insert(arith.MulfOp(args[0], args[0])))
    return _Statistics(centered, mean, emit.elementwise([mean_of(squares)], inverse))


def _affine(call: Call, normalized: Sequence[SSAValue], gains: Sequence[SSAValue]) -> SSAValue:
    """The product of the two tensors `normalized`, times the first of `gains`, plus the second."""

    def body(builder: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = builder.insert(arith.MulfOp(args[0], args[1]))
        for position, op in enumerate((arith.MulfOp, arith.AddfOp)[: len(gains)], start=2):
            total = builder.insert(op(total, args[position]))
        return total

    return call.emit.elementwise([*normalized, *gains], body)


def _float(call: Call) -> SSAValue:
    """The input, of elements whose sums do not overflow."""
    x = call.input(0)
    element = element_of(x)
    if not isinstance(element, AnyFloat) or element.bitwidth < f32.bitwidth:
        raise call.error(f"is not supported on elements of type {element}")
    return x


def _instance_normalization(call: Call) -> Sequence[SSAValue]:
    x = _float(call)
    rank = len(shape_of(x))
    gains = [
        call.emit.reshape(call.input(i), [*shape_of(call.input(i)), *([1] * (rank - 2))])
        for i in (1, 2)
    ]
    return [_affine(call, _statistics(call, x, range(2, rank)).normalized, gains)]


def _group_normalization(call: Call) -> Sequence[SSAValue]:
    x, groups = _float(call), int(call.attribute("num_groups"))
    call.attribute("stash_type", 1)
    n, channels, *spatial = shape_of(x)
    if channels % groups:
        raise call.error(f"{channels} channels are no {groups} groups")
    parts = call.emit.reshape(x, [n, groups, channels // groups, *spatial])
    per_channel = call.opset >= _GAIN_PER_CHANNEL_OPSET
    gain_shape = [groups, channels // groups if per_channel else 1, *([1] * len(spatial))]
    gains = [call.emit.reshape(call.input(i), gain_shape) for i in (1, 2)]
    statistics = _statistics(call, parts, range(2, 3 + len(spatial)))
    return [call.emit.reshape(_affine(call, statistics.normalized, gains), shape_of(x))]


def _layer_normalization(call: Call) -> Sequence[SSAValue]:
    x = _float(call)
    call.attribute("stash_type", 1)
    rank = len(shape_of(x))
    axis = int(call.attribute("axis", -1)) % rank
    gains = [call.input(i) for i in (1, 2) if call.has(i)]
    statistics = _statistics(call, x, range(axis, rank))
    results = [
        _affine(call, statistics.normalized, gains),
        statistics.mean,
        statistics.inverse,
    ]
    return results[: len(call.node.outputs)]


def _local_response(call: Call) -> Sequence[SSAValue]:
    """Every element by the squares of its neighbours in the channels around it."""
    x, size = _float(call), int(call.attribute("size"))
    alpha = float(call.attribute("alpha", 1e-4)) / size
    beta, bias = float(call.attribute("beta", 0.75)), float(call.attribute("bias", 1.0))
    emit, element, shape = call.emit, element_of(x), shape_of(x)
    low, high = [0] * len(shape), [0] * len(shape)
    low[1], high[1] = (size - 1) // 2, size // 2
    padded = emit.pad(x, low, high, emit.number(0, element))
    loops = [AffineExpr.dimension(loop) for loop in range(len(shape) + 1)]
    window = [loops[0], loops[1] + loops[-1], *loops[2:-1]]
    # What says how long the window is; nobody reads its elements.
    counted = emit.empty([size], element)
    squares = emit.generic(
        [(padded, window), (counted, loops[-1:])],
        (emit.filled(0, shape, element), loops[:-1]),
        len(shape),
        1,
        lambda b, args: b.insert(arith.AddfOp(args[2], b.insert(arith.MulfOp(args[0], args[0])))),
    )

    def divided(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value, total = args
        base = body.insert(arith.AddfOp(scaled(body, total, alpha), body.number(bias, element)))
        return body.insert(
            arith.DivfOp(value, body.insert(math.PowFOp(base, body.number(beta, element))))
        )

    return [emit.elementwise([x, squares], divided)]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response,
    "LayerNormalization": _layer_normalization,
}
