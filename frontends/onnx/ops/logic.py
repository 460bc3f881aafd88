"""Comparisons, what is computed of their results, Where, and Cast."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, i1, i64
from xdsl.ir.affine import AffineExpr

from convir.frontends.elements import element_type, element_type_of_array
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.ops.arithmetic import numpy_operands
from convir.frontends.scalar_functions import cast_scalar, compared
from convir.frontends.tensor_functions.gather import from_start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

_RELATIONS = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}

_OF_BOOLS: Mapping[str, Callable[..., Operation]] = {
    "And": arith.AndIOp,
    "Or": arith.OrIOp,
    "Xor": arith.XOrIOp,
}


def _compare(name: str, call: Call) -> Sequence[SSAValue]:
    operands, relation = numpy_operands(call), _RELATIONS[name]
    return [call.emit.elementwise(operands, lambda body, args: compared(body, relation, *args), i1)]


def _logical(name: str, call: Call) -> Sequence[SSAValue]:
    operands, op = numpy_operands(call), _OF_BOOLS[name]
    _check_bools(call, operands)
    return [call.emit.elementwise(operands, lambda body, args: body.insert(op(*args)))]


def _not(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    _check_bools(call, [x])

    def negated(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return body.insert(arith.XOrIOp(args[0], body.number(1, i1)))

    return [call.emit.elementwise([x], negated)]


def _check_bools(call: Call, values: Sequence[SSAValue]) -> None:
    if any(element_of(value) != i1 for value in values):
        raise call.error(f"is not supported on elements of type {element_of(values[0])}")


def _where(call: Call) -> Sequence[SSAValue]:
    condition = call.input(0)
    _check_bools(call, [condition])
    operands = call.alike(1, 2)
    chosen = call.constant(0)
    if chosen is not None and (chosen.all() or not chosen.any()):
        shape = np.broadcast_shapes(*map(shape_of, (condition, *operands)))
        return [call.emit.broadcast(operands[0 if chosen.all() else 1], shape)]
    return [
        call.emit.elementwise(
            [condition, *operands],
            lambda body, args: body.insert(arith.SelectOp(*args)),
            element_of(operands[0]),
        )
    ]


def _triangle(call: Call) -> Sequence[SSAValue]:
    """Trilu: what is above the diagonal, or below, and 0 elsewhere."""
    x, is_upper = call.input(0), bool(call.attribute("upper", 1))
    call.check_rank(x, 2)
    shift = int(call.known_scalar(1, "the diagonal")) if call.has(1) else 0
    rank, element = len(shape_of(x)), element_of(x)
    loops = [AffineExpr.dimension(loop) for loop in range(rank)]

    def kept(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        row, column = (body.index(rank - n) for n in (2, 1))
        diagonal = body.insert(arith.AddiOp(row, body.number(shift, row.type)))
        is_kept = compared(body, "ge" if is_upper else "le", column, diagonal)
        return body.insert(arith.SelectOp(is_kept, args[0], body.number(0, element)))

    init = call.emit.empty(shape_of(x), element), loops
    return [call.emit.generic([(x, loops)], init, rank, 0, kept)]


def _one_hot(call: Call) -> Sequence[SSAValue]:
    """One value at the index that an element is, another elsewhere."""
    indices, values = call.input(0), call.known(2, "the values")
    depth = int(call.known_scalar(1, "the depth"))
    element = element_type_of_array(values)
    if values.shape != (2,) or element is None or depth < 0:
        message = f"its values {values.dtype}{list(values.shape)} and depth {depth} mean nothing"
        raise call.error(message)
    shape = shape_of(indices)
    axis = call.axis(int(call.attribute("axis", -1)), len(shape) + 1)
    off, on = values.tolist()
    loops = [AffineExpr.dimension(loop) for loop in range(len(shape) + 1)]
    have = element_of(indices)

    def flag(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        index = cast_scalar(body, args[0], i64)
        here = body.insert(arith.IndexCastOp(body.index(axis), i64))
        is_here = compared(body, "eq", from_start(body, index, depth), here)
        if isinstance(have, AnyFloat):  # Any other number than an index is nowhere.
            is_index = compared(body, "eq", cast_scalar(body, index, have), args[0])
            is_here = body.insert(arith.AndIOp(is_here, is_index))
        numbers = (body.number(value, element) for value in (on, off))
        return body.insert(arith.SelectOp(is_here, *numbers))

    sizes = [*shape[:axis], depth, *shape[axis:]]
    init = call.emit.empty(sizes, element), loops
    source = [*loops[:axis], *loops[axis + 1 :]]
    return [call.emit.generic([(indices, source)], init, len(loops), 0, flag)]


def _is_nan(call: Call) -> Sequence[SSAValue]:
    (x,) = call.floats(0)
    return [call.emit.elementwise([x], lambda b, args: compared(b, "ne", args[0], args[0]), i1)]


def _is_inf(call: Call) -> Sequence[SSAValue]:
    (x,) = call.floats(0)
    signs = [bool(call.attribute(f"detect_{sign}", 1)) for sign in ("negative", "positive")]

    def infinite(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (value,) = args
        if not any(signs):
            return body.number(0, i1)
        if all(signs):
            value = body.insert(math.AbsFOp(value))
        bound = body.number(float("inf" if signs[1] else "-inf"), value.type)
        return compared(body, "eq", value, bound)

    return [call.emit.elementwise([x], infinite, i1)]


def _cast(call: Call) -> Sequence[SSAValue]:
    """Between floats, signed integers and bools."""
    x = call.input(0)
    wanted = element_type(int(call.attribute("to")))
    for name in ("saturate", "round_mode"):
        call.attribute(name, None)  # They are about f8 alone.
    if wanted is None:
        have, number = element_of(x), call.attribute("to")
        raise call.error(f"from {have} to TensorProto type {number} is not supported")
    return [_converted(call, x, wanted)]


def _cast_like(call: Call) -> Sequence[SSAValue]:
    for name in ("saturate", "round_mode"):
        call.attribute(name, None)
    return [_converted(call, call.input(0), element_of(call.input(1)))]


def _converted(call: Call, x: SSAValue, wanted: Attribute) -> SSAValue:
    if element_of(x) == wanted:
        return x
    return call.emit.elementwise([x], lambda body, args: cast_scalar(body, args[0], wanted), wanted)


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    **{name: partial(_compare, name) for name in _RELATIONS},
    **{name: partial(_logical, name) for name in _OF_BOOLS},
    "Cast": _cast,
    "CastLike": _cast_like,
    "IsInf": _is_inf,
    "IsNaN": _is_nan,
    "Not": _not,
    "OneHot": _one_hot,
    "Trilu": _triangle,
    "Where": _where,
}
