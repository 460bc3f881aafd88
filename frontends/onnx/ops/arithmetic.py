"""Elementwise arithmetic with broadcasting: Add, Sub, Mul, Div, Min, Max, Sqrt, Exp, …"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat

from convir.frontends.emitter import element_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.frontends.onnx.call import Call

    Scalar = Callable[..., Operation]

_NUMPY_BROADCAST_OPSET = 7
"""Before this version an operand is aligned with the dimension that an attribute names."""

_BINARY: Mapping[str, tuple[Scalar, Scalar | None]] = {
    "Add": (arith.AddfOp, arith.AddiOp),
    "Sub": (arith.SubfOp, arith.SubiOp),
    "Mul": (arith.MulfOp, arith.MuliOp),
    "Div": (arith.DivfOp, arith.DivSIOp),
    "Min": (arith.MinimumfOp, arith.MinSIOp),
    "Max": (arith.MaximumfOp, arith.MaxSIOp),
    "Pow": (math.PowFOp, None),
    "Sum": (arith.AddfOp, arith.AddiOp),
}
"""The op on floats, and on signed integers."""

_UNARY: Mapping[str, Scalar] = {
    "Abs": math.AbsFOp,
    "Ceil": math.CeilOp,
    "Erf": math.ErfOp,
    "Exp": math.ExpOp,
    "Floor": math.FloorOp,
    "Log": math.LogOp,
    "Neg": arith.NegfOp,
    "Sqrt": math.SqrtOp,
    "Tanh": math.TanhOp,
}


def _binary(name: str, call: Call) -> Sequence[SSAValue]:
    on_floats, on_integers = _BINARY[name]
    total, *others = call.inputs
    if call.opset < _NUMPY_BROADCAST_OPSET and len(others) == 1:
        others = [_aligned(call, others[0], len(shape_of(total)))]
    element = element_of(total)
    op = on_floats if isinstance(element, AnyFloat) else on_integers
    if op is None:
        raise call.error(f"is not supported on elements of type {element}")
    for other in others:
        if element_of(other) != element:
            raise call.error(f"its inputs are of {element} and of {element_of(other)}")
        total = call.emit.elementwise(
            [total, other], lambda body, args: body.insert(op(args[0], args[1]))
        )
    return [total]


def _mean(call: Call) -> Sequence[SSAValue]:
    (total,) = _binary("Sum", call)
    element, count = element_of(total), len(call.node.inputs)
    if not isinstance(element, AnyFloat):
        raise call.error(f"is not supported on elements of type {element}")
    return [
        call.emit.elementwise(
            [total],
            lambda body, args: body.insert(arith.DivfOp(args[0], body.number(count, element))),
        )
    ]


def _aligned(call: Call, operand: SSAValue, rank: int) -> SSAValue:
    """The second operand with the dimensions that old versions leave out behind it."""
    shape = shape_of(operand)
    axis = int(call.attribute("axis", rank - len(shape)))
    if not int(call.attribute("broadcast", 0)):
        return operand
    return call.emit.reshape(operand, [*shape, *([1] * (rank - axis - len(shape)))])


def _unary(name: str, call: Call) -> Sequence[SSAValue]:
    value = call.input(0)
    if not isinstance(element_of(value), AnyFloat):
        raise call.error(f"is not supported on elements of type {element_of(value)}")
    op = _UNARY[name]
    return [call.emit.elementwise([value], lambda body, args: body.insert(op(args[0])))]


OPERATORS = {
    **{name: partial(_binary, name) for name in _BINARY},
    **{name: partial(_unary, name) for name in _UNARY},
    "Mean": _mean,
}
