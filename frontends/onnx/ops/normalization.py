"""BatchNormalization at inference: a scale and a shift for each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math

from convir.frontends.emitter import element_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

PARAMETERS = (1, 2, 3, 4)
"""The inputs scale, B, mean and variance: one element a channel each."""


def scale_and_shift(call: Call, element: Attribute) -> tuple[SSAValue, SSAValue]:
    """The factor and the summand of each channel that a BatchNormalization comes to.

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

    def factor(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        gain, spread = args
        shifted = body.insert(arith.AddfOp(spread, body.number(epsilon, spread.type)))
        return body.insert(arith.DivfOp(gain, body.insert(math.SqrtOp(shifted))))

    def summand(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        offset, center, gain = args
        return body.insert(arith.SubfOp(offset, body.insert(arith.MulfOp(center, gain))))

    factors = call.emit.elementwise([scale, variance], factor)
    return factors, call.emit.elementwise([bias, mean, factors], summand)


def _batch_normalization(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    factors, summands = scale_and_shift(call, element_of(x))
    ones = [1] * (len(shape_of(x)) - 2)
    per_channel = [
        call.emit.reshape(value, [*shape_of(value), *ones]) for value in (factors, summands)
    ]

    def normalize(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        scaled = body.insert(arith.MulfOp(args[0], args[1]))
        return body.insert(arith.AddfOp(scaled, args[2]))

    return [call.emit.elementwise([x, *per_channel], normalize)]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "BatchNormalization": _batch_normalization,
}
