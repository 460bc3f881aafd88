"""The range of every index that a loop function computes, and which of them need 64 bits.

An element that a kernel reads through a gather, or an index that its body computes from data, may
be anything that its type holds; everything else is bounded by the loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Block, Operation

if TYPE_CHECKING:
    from xdsl.dialects import func
    from xdsl.ir import Attribute, SSAValue

Interval: TypeAlias = tuple[int, int]
"""The least and the largest value."""

_ANY: Interval = (-(1 << 63), (1 << 63) - 1)


def wide_indices(loops: func.FuncOp, size: int, limit: int) -> set[SSAValue]:
    """The indices of a loop function that are not proved to be within ±limit.

    Args:
        loops: the loop function.
        size: the range that its last two arguments, begin and end, lie in.
        limit: the bound.
    """
    begin, end = loops.body.block.args[-2:]
    ranges = IndexRanges({begin: (0, 0), end: (0, size)})
    return {
        value
        for op in loops.walk()
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args))
        if isinstance(value.type, IndexType)
        and not all(-limit < bound < limit for bound in ranges.of(value))
    }


class IndexRanges:
    """The ranges of integers and indices, found when they are asked for."""

    def __init__(self, known: dict[SSAValue, Interval] | None = None) -> None:
        """Ranges that follow from `known`, which loop functions' arguments are in."""
        self._known = dict(known or {})

    def bound(self, value: SSAValue, least: int, largest: int) -> None:
        """Take it as given that `value` lies between two numbers."""
        self._known[value] = (least, largest)

    def of(self, value: SSAValue) -> Interval:
        """The range of an integer or an index."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._range(value)
        return found

    def _range(self, value: SSAValue) -> Interval:
        value_type: Attribute = value.type
        if isinstance(value_type, IntegerType):
            half = 1 << (value_type.bitwidth - 1)
            return (-half, half - 1)
        owner = value.owner
        if isinstance(owner, Block):
            bounds = _loop_bounds(owner.parent_op()) if value is owner.args[0] else None
            if bounds is None:
                return _ANY
            begin, end = map(self.of, bounds)
            return (begin[0], max(begin[0], end[1]))
        return self._result(owner) if isinstance(value_type, IndexType) else _ANY

    def _result(self, op: Operation) -> Interval:
        if isinstance(op, memref.LoadOp):
            return _ANY
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return (op.value.value.data, op.value.value.data)
        if op.name == "arith.index_cast":
            return self.of(op.operands[0])
        if op.name == "arith.select":
            return _hull(*map(self.of, op.operands[1:]))
        if len(op.operands) != 2:
            return _ANY
        a, b = map(self.of, op.operands)
        return _binary(op.name, a, b)


def _loop_bounds(op: Operation | None) -> tuple[SSAValue, SSAValue] | None:
    if isinstance(op, scf.ForOp):
        return op.lb, op.ub
    if isinstance(op, scf.ParallelOp):
        return op.lowerBound[0], op.upperBound[0]
    return None


def _hull(a: Interval, b: Interval) -> Interval:
    return (min(a[0], b[0]), max(a[1], b[1]))


def _binary(name: str, a: Interval, b: Interval) -> Interval:
    """The range of a binary op; unsigned ones are only read where their operands are natural."""
    natural = (max(a[0], 0), max(a[1], 0))
    is_constant = b[0] == b[1]
    match name:
        case "arith.addi":
            return (a[0] + b[0], a[1] + b[1])
        case "arith.subi":
            return (a[0] - b[1], a[1] - b[0])
        case "arith.muli":
            products = [x * y for x in a for y in b]
            return (min(products), max(products))
        case "arith.maxsi":
            return (max(a[0], b[0]), max(a[1], b[1]))
        case "arith.minsi":
            return (min(a[0], b[0]), min(a[1], b[1]))
        case "arith.divui" if b[0] > 0:
            return (natural[0] // b[1], natural[1] // b[0])
        case "arith.remui" if b[0] > 0:
            return (0, b[1] - 1)
        case "arith.shrui" if is_constant and 0 <= b[0] < 64:
            return (natural[0] >> b[0], natural[1] >> b[0])
        case "arith.shrsi" if is_constant and 0 <= b[0] < 64:
            return (a[0] >> b[0], a[1] >> b[0])
        case "arith.andi" if b[0] >= 0:
            return (0, b[1])
        case "arith.floordivsi" | "arith.ceildivsi" | "arith.divsi" if b[0] > 0:
            quotients = [x // y for x in a for y in b]
            return (min(quotients), max(quotients) + 1)
        case "arith.remsi" if b[0] > 0:
            return (-b[1] + 1, b[1] - 1)
        case _:
            return _ANY
