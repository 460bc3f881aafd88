"""What the bodies of ops do with indices and conditions that differ between lanes.

A scatter written as index arithmetic tells by its remainders which lanes hold an element; this is
where that becomes known while the code is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import SSAValue

from convir.lowering.loops.indices import Flags, Lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Operation

    from convir.lowering.loops.cuda.lanes import LaneBuilder
    from convir.lowering.loops.indices import Condition, Index

_EQ, _NE, _SLT, _SLE, _SGT, _SGE = range(6)
_SIGNED = {6: _SLT, 7: _SLE, 8: _SGT, 9: _SGE}
"""Unsigned predicates, and what they are for numbers that are not negative."""


def index_op(
    lane: LaneBuilder, op: Operation, operands: Sequence[Index | Condition]
) -> Index | Condition | None:
    """The result of `op` on operands of which some differ between lanes; None if it is unknown.

    Args:
        lane: where code is built.
        op: an op of a body.
        operands: its operands, those that are index constants as numbers.
    """
    if isinstance(op, arith.CmpiOp) and isinstance(op.lhs.type, IndexType):
        return _compare(lane, op, operands)
    if op.name == "arith.andi" and op.results[0].type == i1:
        conditions = [x for x in operands if isinstance(x, bool | Flags) or _is_condition(x)]
        return lane.all(conditions) if len(conditions) == len(operands) else None
    if not isinstance(op.results[0].type, IndexType):
        return None
    indices: list[Index] = []
    for operand in operands:
        if isinstance(operand, Flags) or not (
            isinstance(operand, int | Lanes) or _is(operand, IndexType())
        ):
            return None
        indices.append(operand)
    found = _arithmetic(lane, op.name, indices) if len(indices) == 2 else None
    return found if found is not None else _each(lane, op, indices)


def _is_condition(value: Index | Condition) -> TypeGuard[SSAValue]:
    """Whether `value` is one condition for all lanes, and no vector of them."""
    return _is(value, i1)


def _is(value: object, wanted: Attribute) -> bool:
    return isinstance(value, SSAValue) and cast("SSAValue", value).type == wanted


def _arithmetic(lane: LaneBuilder, name: str, operands: Sequence[Index]) -> Index | None:
    """Arithmetic that lanes keep their form under."""
    a, b = operands
    match name:
        case "arith.addi":
            return lane.add(a, b)
        case "arith.subi":
            return lane.sub(a, b)
        case "arith.muli":
            return lane.mul(a, b)
        case "arith.minsi" if isinstance(b, int) and lane.at_most(a, b):
            return a
        case "arith.maxsi" if isinstance(b, int) and lane.is_natural(lane.sub(a, b)):
            return a
        case _:
            pass
    if not isinstance(b, int) or not lane.is_natural(a):
        return None
    match name:
        case "arith.divsi" | "arith.divui" | "arith.floordivsi" if b > 0:
            return lane.div(a, b)
        case "arith.remsi" | "arith.remui" if b > 0:
            return lane.mod(a, b)
        case "arith.shrsi" | "arith.shrui" if 0 <= b < 32:
            return lane.div(a, 1 << b)
        case "arith.andi" if b >= 0 and b & (b + 1) == 0:
            return lane.mod(a, b + 1)
        case _:
            return None


def _compare(
    lane: LaneBuilder, op: arith.CmpiOp, operands: Sequence[Index | Condition]
) -> Condition | None:
    a, b = operands
    if isinstance(a, Flags) or isinstance(b, Flags):
        return None
    predicate = op.predicate.value.data
    if isinstance(b, int) and b >= 0 and predicate in _SIGNED and lane.is_natural(a):
        predicate = _SIGNED[predicate]
    if isinstance(b, int):
        match predicate:
            case 0:
                return lane.equal(a, b)
            case 2:
                return lane.less(a, b)
            case 3:
                return lane.less(a, b + 1)
            case 4:
                return lane.at_least(a, b + 1)
            case 5:
                return lane.at_least(a, b)
            case _:
                pass
    pairs = zip(lane.terms(a), lane.terms(b), strict=True)
    number = op.predicate.value.data
    return lane.condition(
        [
            lane.numbers.emit(lane.builder, arith.CmpiOp(lane.scalar(x), lane.scalar(y), number))
            for x, y in pairs
        ]
    )


def _each(lane: LaneBuilder, op: Operation, indices: Sequence[Index]) -> Index:
    """`op` lane by lane."""
    columns = zip(*(lane.terms(index) for index in indices), strict=True)
    return lane.lanes_from(
        [
            (
                lane.numbers.emit(
                    lane.builder,
                    type(op).create(
                        operands=[lane.scalar(term) for term in column],
                        result_types=[IndexType()],
                        properties=op.properties,
                    ),
                ),
                0,
            )
            for column in columns
        ]
    )
