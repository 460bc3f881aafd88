"""Activations: Relu, LeakyRelu, PRelu, Clip, Sigmoid, HardSwish, HardSigmoid, Elu, …"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import (
    clamp,
    elu,
    hard_sigmoid,
    leaky,
    rounded,
    scaled,
    sigmoid,
    softplus,
    wide_of,
    widened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBody, ScalarBuilder
    from convir.frontends.onnx.call import Call

_PRELU_BROADCAST_OPSET = 7
"""Before this version PRelu has one slope, or one a channel."""
_CLIP_INPUTS_OPSET = 11
"""From this version on, the bounds of Clip are inputs and no longer attributes."""

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""The defaults of Selu's attributes, as the operator's schema has them."""
GELU_CUBE = 0.044715
"""Of the polynomial inside of the approximate Gelu."""


def _exactly(call: Call, body: ScalarBody) -> list[SSAValue]:
    """Of elements of the input's own type, which `body` does not round."""
    return [call.emit.elementwise(call.floats(0), body)]


def _on_floats(call: Call, body: ScalarBody) -> list[SSAValue]:
    """In f32 for f16 and bf16: in steps of f16, 1 / (1 + exp(12)) is 0."""

    def rounding_once(builder: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (x,) = args
        wide = widened(builder, x, wide_of(element_of(call.input(0))))
        return rounded(builder, body(builder, [wide]), x.type)

    return _exactly(call, rounding_once)


def _relu(call: Call) -> Sequence[SSAValue]:
    return _exactly(
        call,
        lambda body, args: body.insert(arith.MaximumfOp(args[0], body.number(0, args[0].type))),
    )


def _leaky_relu(call: Call) -> Sequence[SSAValue]:
    alpha = call.number("alpha", 0.01)

    return _on_floats(call, lambda body, args: leaky(body, args[0], alpha))


def _prelu(call: Call) -> Sequence[SSAValue]:
    x, slope = call.floats(0, 1)
    if call.opset < _PRELU_BROADCAST_OPSET and shape_of(slope) != (1,):
        ones = [1] * (len(shape_of(x)) - 2)
        slope = call.emit.reshape(slope, [*shape_of(slope), *ones])
    result = call.emit.elementwise([x, slope], lambda body, args: leaky(body, *args[:2]))
    return [call.shaped(result, shape_of(x), "its result")]


def _clip(call: Call) -> Sequence[SSAValue]:
    if call.opset < _CLIP_INPUTS_OPSET:
        low, high = (call.attribute(name, None) for name in ("min", "max"))
        return _exactly(call, lambda body, args: clamp(body, args[0], low, high))
    value = call.input(0)
    element = element_of(value)
    is_float = isinstance(element, AnyFloat)
    ops = (
        (arith.MaximumfOp if is_float else arith.MaxSIOp),
        (arith.MinimumfOp if is_float else arith.MinSIOp),
    )
    for position, op in enumerate(ops, start=1):
        if not call.has(position):
            continue
        if call.is_known(position):
            bound = call.known_scalar(position, "the bound")
            value = call.emit.elementwise(
                [value],
                lambda body, args, op=op, bound=bound: body.insert(
                    op(args[0], body.number(bound, element))
                ),
            )
            continue
        value = call.emit.elementwise(
            [value, call.alike(0, position)[1]],
            lambda body, args, op=op: body.insert(op(args[0], args[1])),
        )
    return [value]


def _sigmoid(call: Call) -> Sequence[SSAValue]:
    return _on_floats(call, lambda body, args: sigmoid(body, args[0]))


def _hard_sigmoid_node(call: Call) -> Sequence[SSAValue]:
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    return _on_floats(call, lambda body, args: hard_sigmoid(body, args[0], alpha, beta))


def _hard_swish(call: Call) -> Sequence[SSAValue]:
    def swish(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        gate = hard_sigmoid(body, args[0], 1 / 6, 0.5)
        return body.insert(arith.MulfOp(args[0], gate))

    return _on_floats(call, swish)


def _elu(call: Call) -> Sequence[SSAValue]:
    alpha = call.number("alpha", 1.0)
    return _on_floats(call, lambda body, args: elu(body, args[0], alpha))


def _selu(call: Call) -> Sequence[SSAValue]:
    alpha = call.number("alpha", SELU_ALPHA)
    gamma = call.number("gamma", SELU_GAMMA)
    return _on_floats(call, lambda body, args: scaled(body, elu(body, args[0], alpha), gamma))


def _thresholded_relu(call: Call) -> Sequence[SSAValue]:
    alpha = call.number("alpha", 1.0)

    def above(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (x,) = args
        is_above = body.insert(arith.CmpfOp(x, body.number(alpha, x.type), "ogt"))
        return body.insert(arith.SelectOp(is_above, x, body.number(0, x.type)))

    return _exactly(call, above)


def _softplus(call: Call) -> Sequence[SSAValue]:
    return _on_floats(call, lambda body, args: softplus(body, args[0]))


def _softsign(call: Call) -> Sequence[SSAValue]:
    def softsign(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (x,) = args
        magnitude = body.insert(math.AbsFOp(x))
        above = body.insert(arith.AddfOp(magnitude, body.number(1, x.type)))
        return body.insert(arith.DivfOp(x, above))

    return _on_floats(call, softsign)


def _mish(call: Call) -> Sequence[SSAValue]:
    def mish(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        gate = body.insert(math.TanhOp(softplus(body, args[0])))
        return body.insert(arith.MulfOp(args[0], gate))

    return _on_floats(call, mish)


def _swish(call: Call) -> Sequence[SSAValue]:
    alpha = call.number("alpha", 1.0)

    def swish(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        gate = sigmoid(body, scaled(body, args[0], alpha))
        return body.insert(arith.MulfOp(args[0], gate))

    return _on_floats(call, swish)


def _gelu(call: Call) -> Sequence[SSAValue]:
    form = call.choice("approximate", "none", ("none", "tanh"))

    def gate(body: ScalarBuilder, x: SSAValue) -> SSAValue:
        if form == "none":
            return body.insert(math.ErfOp(scaled(body, x, sqrt(1 / 2))))
        cube = body.insert(arith.MulfOp(body.insert(arith.MulfOp(x, x)), x))
        curved = body.insert(arith.AddfOp(x, scaled(body, cube, GELU_CUBE)))
        return body.insert(math.TanhOp(scaled(body, curved, sqrt(2 / pi))))

    def gelu(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (x,) = args
        above = body.insert(arith.AddfOp(gate(body, x), body.number(1, x.type)))
        return body.insert(arith.MulfOp(scaled(body, x, 1 / 2), above))

    return _on_floats(call, gelu)


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Clip": _clip,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid_node,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "Mish": _mish,
    "PRelu": _prelu,
    "Relu": _relu,
    "Selu": _selu,
    "Sigmoid": _sigmoid,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Swish": _swish,
    "ThresholdedRelu": _thresholded_relu,
}
