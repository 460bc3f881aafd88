"""Index arithmetic in the body of a linalg op, read by evaluating it.

An expression over one loop (`linalg.index 1`, shifted, divided, compared …) is computed for all
trips of that loop at once. Two spellings of one function thus read the same, and nothing depends
on the order or the choice of the ops that some other compiler emitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import OpResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt
    from xdsl.ir import Operation, SSAValue

    Values: TypeAlias = npt.NDArray[np.int64]
    """The values of an expression at trips 0, 1, 2 … of its loop."""

MAX_TRIPS: Final = 1 << 22
"""Loops longer than this are not evaluated: 32 MB for each intermediate."""

_MAX_OPS: Final = 256
"""Expressions of more ops than this are not index arithmetic that anybody wrote."""

_INDEX: Final = IndexType()
_INDEX_BITS: Final = 64
_TRUTH: Final = IntegerType(1)
_LOGIC: Final = frozenset({"arith.andi", "arith.ori", "arith.xori"})


def _divsi(lhs: Values, rhs: Values) -> Values:
    """Division rounded towards zero."""
    quotient = np.abs(lhs) // np.abs(rhs)
    return np.where((lhs < 0) == (rhs < 0), quotient, -quotient)


_BINARY: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}

# These have no value for some right-hand sides: a zero divisor, a shift by the width or more.
_DIVISIONS: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "arith.divsi": _divsi,
    "arith.floordivsi": np.floor_divide,
    "arith.remsi": np.fmod,
}

_SHIFTS: Final[dict[str, Callable[[Values, Values], Values]]] = {
    "arith.shrsi": np.right_shift,
    "arith.shli": np.left_shift,
}

_COMPARE: Final[dict[int, Callable[[Values, Values], npt.NDArray[np.bool_]]]] = {
    0: np.equal,
    1: np.not_equal,
    2: np.less,
    3: np.less_equal,
    4: np.greater,
    5: np.greater_equal,
}


def loops_in(value: SSAValue) -> frozenset[int] | None:
    """The loops whose `linalg.index` the expression reads.

    None if it reads anything but those, constants and integer arithmetic.
    """
    loops: set[int] = set()
    seen: set[SSAValue] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if len(seen) > _MAX_OPS or not isinstance(current, OpResult):
            return None
        match current.op:
            case IndexOp() as index:
                loops.add(index.dim.value.data)
            case arith.ConstantOp(value=IntegerAttr()) if current.type in (_INDEX, _TRUTH):
                pass
            case op if _is_understood(op):
                stack.extend(op.operands)
            case _:
                return None
    return frozenset(loops)


def values_along(value: SSAValue, trips: int) -> Values | None:
    """The expression's values at trips 0 … `trips - 1` of the one loop it reads.

    Truth values are 0 and 1. None if it is not defined at some trip (a division by zero), or if
    `trips` is more than `MAX_TRIPS`. The caller has asked `loops_in` that one loop at most is read.
    """
    if trips > MAX_TRIPS:
        return None
    index = np.arange(trips, dtype=np.int64)
    known: dict[SSAValue, Values | None] = {}
    pending = [value]
    with np.errstate(all="ignore"):
        while pending:
            op = cast("OpResult", pending[-1]).op
            unknown = [operand for operand in op.operands if operand not in known]
            if unknown:
                pending.extend(unknown)
            else:
                known[pending.pop()] = _compute(op, index, known)
    return known[value]


def _compute(
    op: Operation, index: Values, known: Mapping[SSAValue, Values | None]
) -> Values | None:
    if isinstance(op, IndexOp):
        return index
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        number = op.value.value.data
        return np.full_like(index, number & 1 if op.value.type == _TRUTH else number)
    lhs, rhs = (known[operand] for operand in op.operands)
    if lhs is None or rhs is None:
        return None
    if isinstance(op, arith.CmpiOp):
        compare = _COMPARE.get(op.predicate.value.data)
        return None if compare is None else compare(lhs, rhs).astype(np.int64)
    if op.name in _DIVISIONS:
        return _DIVISIONS[op.name](lhs, rhs) if rhs.all() else None
    if op.name in _SHIFTS:
        in_range = ((rhs >= 0) & (rhs < _INDEX_BITS)).all()
        return _SHIFTS[op.name](lhs, rhs) if in_range else None
    return _BINARY[op.name](lhs, rhs)


def _is_understood(op: Operation) -> bool:
    """True for arithmetic on `index`, comparisons of those, and the logic of truth values."""
    if op.name == "arith.cmpi":
        return op.operands[0].type == _INDEX
    if op.name in _LOGIC and op.results[0].type == _TRUTH:
        return True
    is_arithmetic = op.name in _BINARY or op.name in _DIVISIONS or op.name in _SHIFTS
    return is_arithmetic and op.results[0].type == _INDEX
