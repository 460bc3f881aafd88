"""Elementwise arithmetic with broadcasting: Add, Sub, Mul, Div, Min, Max, Sqrt, Exp, …"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, i1

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import compared, rounded, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.frontends.emitter import ScalarBuilder
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
}
"""The op on floats, and on signed integers."""

_UNARY: Mapping[str, Scalar] = {
    "Abs": math.AbsFOp,
    "Ceil": math.CeilOp,
    "Cos": math.CosOp,
    "Erf": math.ErfOp,
    "Exp": math.ExpOp,
    "Floor": math.FloorOp,
    "Log": math.LogOp,
    "Neg": arith.NegfOp,
    "Round": math.RoundEvenOp,
    "Sin": math.SinOp,
    "Sqrt": math.SqrtOp,
    "Tan": math.TanOp,
    "Tanh": math.TanhOp,
}


def _binary(name: str, call: Call) -> Sequence[SSAValue]:
    on_floats, on_integers = _BINARY[name]
    total, *others = numpy_operands(call)
    element = element_of(total)
    op = on_floats if isinstance(element, AnyFloat) else on_integers
    if op is None:
        raise call.error(f"is not supported on elements of type {element}")
    for other in others:
        total = call.emit.elementwise(
            [total, other], lambda body, args: body.insert(op(args[0], args[1]))
        )
    return [total]


def _sum(call: Call, *, mean: bool = False) -> Sequence[SSAValue]:
    """The sum of all inputs, or their mean; of f16 and bf16 in f32, rounded once."""
    values = call.floats(*range(len(call.node.inputs)))
    element = element_of(values[0])
    wide = wide_of(element)

    def total(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        result, *others = (widened(body, arg, wide) for arg in args)
        for other in others:
            result = body.insert(arith.AddfOp(result, other))
        if mean:
            result = body.insert(arith.DivfOp(result, body.number(len(args), wide)))
        return rounded(body, result, element)

    return [call.emit.elementwise(values, total)]


def numpy_operands(call: Call) -> list[SSAValue]:
    """All inputs, of one element type, with shapes that broadcast as NumPy's do.

    Raises:
        OnnxError: one is of another element type.
    """
    first, *others = call.alike(*range(len(call.node.inputs)))
    if call.opset < _NUMPY_BROADCAST_OPSET and len(others) == 1:
        others = [_aligned(call, others[0], len(shape_of(first)))]
    return [first, *others]


def _aligned(call: Call, operand: SSAValue, rank: int) -> SSAValue:
    """The second operand with the dimensions that old versions leave out behind it."""
    shape = shape_of(operand)
    axis = int(call.attribute("axis", rank - len(shape)))
    if not int(call.attribute("broadcast", 0)):
        return operand
    return call.emit.reshape(operand, [*shape, *([1] * (rank - axis - len(shape)))])


def _unary(name: str, call: Call) -> Sequence[SSAValue]:
    (value,) = call.floats(0)
    op = _UNARY[name]
    return [call.emit.elementwise([value], lambda body, args: body.insert(op(args[0])))]


def _reciprocal(call: Call) -> Sequence[SSAValue]:
    (value,) = call.floats(0)
    return [
        call.emit.elementwise(
            [value],
            lambda body, args: body.insert(arith.DivfOp(body.number(1, args[0].type), args[0])),
        )
    ]


def _mod(call: Call) -> Sequence[SSAValue]:
    """The remainder of the sign of the divisor, or with `fmod` of the dividend."""
    operands = numpy_operands(call)
    element, of_dividend = element_of(operands[0]), bool(call.attribute("fmod", 0))
    if isinstance(element, AnyFloat) or element == i1:
        raise call.error(f"is not supported on elements of type {element}")

    def remainder(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        rest = body.insert(arith.RemSIOp(args[0], args[1]))
        if of_dividend:
            return rest
        zero = body.number(0, rest.type)
        differs = body.insert(arith.XOrIOp(rest, args[1]))
        is_other = body.insert(
            arith.AndIOp(compared(body, "ne", rest, zero), compared(body, "lt", differs, zero))
        )
        moved = body.insert(arith.AddiOp(rest, args[1]))
        return body.insert(arith.SelectOp(is_other, moved, rest))

    return [call.emit.elementwise(operands, remainder)]


def _sign(call: Call) -> Sequence[SSAValue]:
    """1 above 0, -1 below, and 0 and NaN as they are."""
    value = call.input(0)

    def sign(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (x,) = args
        zero, *ones = (body.number(number, x.type) for number in (0, 1, -1))
        for relation, one in zip(("gt", "lt"), ones, strict=True):
            x = body.insert(arith.SelectOp(compared(body, relation, args[0], zero), one, x))
        return x

    return [call.emit.elementwise([value], sign)]


OPERATORS = {
    **{name: partial(_binary, name) for name in _BINARY},
    **{name: partial(_unary, name) for name in _UNARY},
    "Mod": _mod,
    "Reciprocal": _reciprocal,
    "Sign": _sign,
    "Mean": partial(_sum, mean=True),
    "Sum": _sum,
}
