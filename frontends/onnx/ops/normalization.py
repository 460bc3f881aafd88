"""BatchNormalization at inference, and normalisations by what an image itself holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir.affine import AffineExpr

from convir.frontends.elements import FLOAT, element_type
from convir.frontends.emitter import element_of, reshaped_from, shape_of
from convir.frontends.scalar_functions import rounded, scaled, summed, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

_GAIN_PER_CHANNEL_OPSET = 21
"""Before this version GroupNormalization has one scale a group."""

PARAMETERS = (1, 2, 3, 4)
"""The inputs scale, B, mean and variance: one element a channel each."""


def scale_and_shift(call: Call, element: Attribute, channels: int) -> tuple[SSAValue, SSAValue]:
    """The factor and the summand of each of `channels` that a BatchNormalization comes to.

    Of f16 and bf16 they are f32: their own rounding would be the same error at each position.

    Raises:
        OnnxError: it trains, or its parameters are of another type than `element`, or not as many
            as channels.
    """
    epsilon = call.number("epsilon", 1e-5)
    call.attribute("momentum", 0.9)  # It says how training averages, and nothing about inference.
    if int(call.attribute("training_mode", 0)) or not int(call.attribute("spatial", 1)):
        raise call.error("only inference with one scale per channel is supported")
    call.attribute("is_test", 1)
    scale, bias, mean, variance = call.floats(*PARAMETERS)
    if element_of(scale) != element:
        raise call.error(f"its parameters are of {element_of(scale)}, its input of {element}")
    for position in PARAMETERS:
        call.shaped(call.input(position), (channels,), f"input #{position}")
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
    call.check_rank(x, 2)
    factors, summands = scale_and_shift(call, element_of(x), shape_of(x)[1])
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
    """Of the elements along some dimensions, which have size 1 in the last two.

    All are of the type in which elements are summed.
    """

    centered: SSAValue
    """The elements less their mean."""
    mean: SSAValue
    inverse: SSAValue
    """One over the deviation."""


def _statistics(call: Call, x: SSAValue, axes: Sequence[int]) -> _Statistics:
    epsilon = call.number("epsilon", 1e-5)
    emit, wide, shape = call.emit, wide_of(element_of(x)), shape_of(x)
    count = prod(shape[axis] for axis in axes)
    kept = [1 if dim in axes else size for dim, size in enumerate(shape)]

    def mean_of(value: SSAValue) -> SSAValue:
        total = emit.reduce(value, axes, 0, summed, wide)
        mean = emit.elementwise(
            [total], lambda b, args: b.insert(arith.DivfOp(args[0], b.number(count, wide)))
        )
        return emit.reshape(mean, kept)

    def difference(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return body.insert(arith.SubfOp(widened(body, args[0], wide), args[1]))

    def inverse(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        shifted = body.insert(arith.AddfOp(args[0], body.number(epsilon, wide)))
        return body.insert(arith.DivfOp(body.number(1, wide), body.insert(math.SqrtOp(shifted))))

    mean = mean_of(x)
    centered = emit.elementwise([x, mean], difference, wide)
    squares = emit.elementwise([centered], lambda b, args: b.insert(arith.MulfOp(args[0], args[0])))
    return _Statistics(centered, mean, emit.elementwise([mean_of(squares)], inverse))


def _affine(call: Call, statistics: _Statistics, gains: Sequence[SSAValue]) -> SSAValue:
    """The normalised elements times the first of `gains`, plus the second, of the input's type."""
    element, wide = element_of(call.input(0)), element_of(statistics.mean)

    def body(builder: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = builder.insert(arith.MulfOp(args[0], args[1]))
        for gain, op in zip(args[2:], (arith.MulfOp, arith.AddfOp), strict=False):
            total = builder.insert(op(total, widened(builder, gain, wide)))
        return rounded(builder, total, element)

    normalized = statistics.centered, statistics.inverse
    return call.emit.elementwise([*normalized, *gains], body, element)


def _by_groups(
    call: Call, x: SSAValue, groups: int, parameters: Sequence[SSAValue], per_group: int
) -> SSAValue:
    """`x` less the mean of each of `groups` equal runs of its channels, over their deviation; by
    `parameters`, each with `per_group` elements a group."""
    n, channels, *spatial = shape_of(x)
    parts = call.emit.reshape(x, [n, groups, channels // groups, *spatial])
    gain_shape = [groups, per_group, *([1] * len(spatial))]
    gains = [call.emit.reshape(value, gain_shape) for value in parameters]
    statistics = _statistics(call, parts, range(2, 3 + len(spatial)))
    return call.emit.reshape(_affine(call, statistics, gains), shape_of(x))


def _instance_normalization(call: Call) -> Sequence[SSAValue]:
    x, *parameters = call.floats(0, 1, 2)
    call.check_rank(x, 2)
    n, groups, *_ = shape = shape_of(x)
    for position, value in enumerate(parameters, 1):
        call.shaped(value, (groups,), f"input #{position}")
    # Exporters write GroupNorm so: each group was made one channel, and is parted again.
    of_channels = [
        value
        for value in reshaped_from(x)
        if shape_of(value)[:1] == (n,) and len(shape_of(value)) > 1
        if groups and shape_of(value)[1] % groups == 0
    ]
    return [call.emit.reshape(_by_groups(call, of_channels[-1], groups, parameters, 1), shape)]


def _group_normalization(call: Call) -> Sequence[SSAValue]:
    x, *parameters = call.floats(0, 1, 2)
    call.check_rank(x, 2)
    groups = call.count("num_groups")
    call.attribute("stash_type", FLOAT)  # What is computed in is never less.
    channels = shape_of(x)[1]
    if channels % groups:
        raise call.error(f"{channels} channels are no {groups} groups")
    per_channel = call.opset >= _GAIN_PER_CHANNEL_OPSET
    per_group = channels // groups if per_channel else 1
    return [_by_groups(call, x, groups, parameters, per_group)]


def _layer_normalization(call: Call) -> Sequence[SSAValue]:
    x, *gains = call.floats(*(position for position in range(3) if call.has(position)))
    rank = len(shape_of(x))
    axis = call.axis(int(call.attribute("axis", -1)), rank)
    statistics = _statistics(call, x, range(axis, rank))
    stash = element_type(int(call.attribute("stash_type", FLOAT)))
    if not isinstance(stash, AnyFloat):
        raise call.error(f"'stash_type' is {call.attribute('stash_type', FLOAT)}, not a float type")
    results = [
        call.shaped(_affine(call, statistics, gains), shape_of(x), "its result"),
        call.converted(statistics.mean, stash),
        call.converted(statistics.inverse, stash),
    ]
    return results[: len(call.node.outputs)]


def _local_response(call: Call) -> Sequence[SSAValue]:
    """Every element by the squares of its neighbours in the channels around it."""
    (x,) = call.floats(0)
    call.check_rank(x, 2)
    size = call.count("size")
    alpha = call.number("alpha", 1e-4) / size
    beta, bias = call.number("beta", 0.75), call.number("bias", 1.0)
    emit, element, shape = call.emit, element_of(x), shape_of(x)
    wide = wide_of(element)
    low, high = [0] * len(shape), [0] * len(shape)
    low[1], high[1] = (size - 1) // 2, size // 2
    padded = emit.pad(x, low, high, emit.number(0, element))
    loops = [AffineExpr.dimension(loop) for loop in range(len(shape) + 1)]
    window = [loops[0], loops[1] + loops[-1], *loops[2:-1]]
    # What says how long the window is; nobody reads its elements.
    counted = emit.empty([size], element)

    def add_square(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value = widened(body, args[0], wide)
        return body.insert(arith.AddfOp(args[-1], body.insert(arith.MulfOp(value, value))))

    squares = emit.generic(
        [(padded, window), (counted, loops[-1:])],
        (emit.filled(0, shape, wide), loops[:-1]),
        len(shape),
        1,
        add_square,
    )

    def divided(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value, total = (widened(body, arg, wide) for arg in args)
        base = body.insert(arith.AddfOp(scaled(body, total, alpha), body.number(bias, wide)))
        power = body.insert(math.PowFOp(base, body.number(beta, wide)))
        return rounded(body, body.insert(arith.DivfOp(value, power)), element)

    return [emit.elementwise([x, squares], divided, element)]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response,
    "LayerNormalization": _layer_normalization,
}
