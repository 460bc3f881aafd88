"""Whether 32 bits are enough for every index that a loop function computes: interval arithmetic.

An element that a kernel reads through a gather, or an index that its body computes, may be
anything that its type holds; everything else is bounded by the loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType

if TYPE_CHECKING:
    from xdsl.dialects import func
    from xdsl.ir import Attribute, Block, Operation, SSAValue

Interval: TypeAlias = tuple[int, int]
"""The least and the largest value."""

_ANY: Interval = (-(1 << 63), (1 << 63) - 1)


def fits(loops: func.FuncOp, size: int, limit: int) -> bool:
    """Whether every index of a loop function, and every position in a buffer, is within ±limit.

    Args:
        loops: the loop function.
        size: the range that its last two arguments, begin and end, lie in.
        limit: the bound.
    """
    *buffers, begin, end = loops.body.block.args
    ranges = _Ranges(limit)
    ranges.known |= {begin: (0, 0), end: (0, size)}
    if size >= limit or any(_elements(buffer.type) >= limit for buffer in buffers):
        return False
    return ranges.block(loops.body.block)


def _elements(buffer_type: Attribute) -> int:
    return buffer_type.element_count() if isinstance(buffer_type, MemRefType) else 1


@dataclass
class _Ranges:
    limit: int
    known: dict[SSAValue, Interval] = field(default_factory=dict["SSAValue", Interval])

    def block(self, block: Block) -> bool:
        """Whether all indices of a block are within the limit."""
        return all(self._op(op) for op in block.ops)

    def _op(self, op: Operation) -> bool:
        if isinstance(op, scf.ForOp):
            begin, end = self._of(op.lb), self._of(op.ub)
            self.known[op.body.block.args[0]] = (begin[0], max(begin[0], end[1]))
        elif len(op.results) == 1:
            self.known[op.results[0]] = self._result(op)
        if not all(self.block(block) for region in op.regions for block in region.blocks):
            return False
        values = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
        return all(
            -self.limit < bound < self.limit
            for value in values
            if isinstance(value.type, IndexType)
            for bound in self._of(value)
        )

    def _of(self, value: SSAValue) -> Interval:
        known = self.known.get(value)
        if known is not None:
            return known
        value_type: Attribute = value.type
        if not isinstance(value_type, IntegerType):
            return _ANY
        half = 1 << (value_type.bitwidth - 1)
        return (-half, half - 1)

    def _result(self, op: Operation) -> Interval:
        if not isinstance(op.results[0].type, IndexType) or isinstance(op, memref.LoadOp):
            return _ANY if isinstance(op.results[0].type, IndexType) else self._of(op.results[0])
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return (op.value.value.data, op.value.value.data)
        if op.name == "arith.index_cast":
            return self._of(op.operands[0])
        if op.name == "arith.select":
            return _hull(*map(self._of, op.operands[1:]))
        if len(op.operands) != 2:
            return _ANY
        a, b = map(self._of, op.operands)
        return _binary(op.name, a, b)


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
        case "arith.andi" if b[0] >= 0:
            return (0, b[1])
        case "arith.floordivsi" | "arith.ceildivsi" | "arith.divsi" if b[0] > 0:
            quotients = [x // y for x in a for y in b]
            return (min(quotients), max(quotients) + 1)
        case "arith.remsi" if b[0] > 0:
            return (-b[1] + 1, b[1] - 1)
        case _:
            return _ANY
