"""Activations: Relu, LeakyRelu, PRelu, Clip, Sigmoid, HardSwish, HardSigmoid, Elu, …"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import clamp, hard_sigmoid, leaky, select_positive, sigmoid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBody, ScalarBuilder
    from convir.frontends.onnx.call import Call

_PRELU_BROADCAST_OPSET = 7
"""Before this version PRelu has one slope, or one a channel."""
_CLIP_INPUTS_OPSET = 11
"""From this version on, the bounds of Clip are inputs and no longer attributes."""


def _on_floats(call: Call, body: ScalarBody) -> list[SSAValue]:
    value = call.input(0)
    if not isinstance(element_of(value), AnyFloat):
        raise call.error(f"is not supported on elements of type {element_of(value)}")
    return [call.emit.elementwise([value], body)]


def _relu(call: Call) -> Sequence[SSAValue]:
    return _on_floats(
        call,
        lambda body, args: body.insert(arith.MaximumfOp(args[0], body.number(0, args[0].type))),
    )


def _leaky_relu(call: Call) -> Sequence[SSAValue]:
    alpha = float(call.attribute("alpha", 0.01))

    return _on_floats(call, lambda body, args: leaky(body, args[0], alpha))


def _prelu(call: Call) -> Sequence[SSAValue]:
    x, slope = call.input(0), call.input(1)
    if call.opset < _PRELU_BROADCAST_OPSET and shape_of(slope) != (1,):
        ones = [1] * (len(shape_of(x)) - 2)
        slope = call.emit.reshape(slope, [*shape_of(slope), *ones])
    return [call.emit.elementwise([x, slope], lambda body, args: leaky(body, *args[:2]))]


def _clip(call: Call) -> Sequence[SSAValue]:
    if call.opset < _CLIP_INPUTS_OPSET:
        low, high = (call.attribute(name, None) for name in ("min", "max"))
        return _on_floats(call, lambda body, args: clamp(body, args[0], low, high))
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
            bound = call.known(position, "the bound").item()
            value = call.emit.elementwise(
                [value],
                lambda body, args, op=op, bound=bound: body.insert(
                    op(args[0], body.number(bound, element))
                ),
            )
            continue
        value = call.emit.elementwise(
            [value, call.input(position)],
            lambda body, args, op=op: body.insert(op(args[0], args[1])),
        )
    return [value]


def _sigmoid(call: Call) -> Sequence[SSAValue]:
    return _on_floats(call, lambda body, args: sigmoid(body, args[0]))


def _hard_sigmoid_node(call: Call) -> Sequence[SSAValue]:
    alpha, beta = float(call.attribute("alpha", 0.2)), float(call.attribute("beta", 0.5))
    return _on_floats(call, lambda body, args: hard_sigmoid(body, args[0], alpha, beta))


def _hard_swish(call: Call) -> Sequence[SSAValue]:
    def swish(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        gate = hard_sigmoid(body, args[0], 1 / 6, 0.5)
        return body.insert(arith.MulfOp(args[0], gate))

    return _on_floats(call, swish)


def _elu(call: Call) -> Sequence[SSAValue]:
    alpha = float(call.attribute("alpha", 1.0))

    def elu(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        exponential = body.insert(math.ExpOp(args[0]))
        below = body.insert(arith.SubfOp(exponential, body.number(1, args[0].type)))
        scaled = body.insert(arith.MulfOp(below, body.number(alpha, args[0].type)))
        return select_positive(body, args[0], scaled)

    return _on_floats(call, elu)


def _softplus(call: Call) -> Sequence[SSAValue]:
    def softplus(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        # max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
        magnitude = body.insert(math.AbsFOp(args[0]))
        exponential = body.insert(math.ExpOp(body.insert(arith.NegfOp(magnitude))))
        positive = clamp(body, args[0], 0, None)
        return body.insert(arith.AddfOp(positive, body.insert(math.Log1pOp(exponential))))

    return _on_floats(call, softplus)


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Clip": _clip,
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid_node,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Relu": _relu,
    "Sigmoid": _sigmoid,
    "Softplus": _softplus,
}
