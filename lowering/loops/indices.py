"""Index arithmetic that folds constants while it is built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
)

from convir.lowering.loops.value_numbers import ValueNumbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.builder import Builder
    from xdsl.ir import Block
    from xdsl.ir.affine import AffineExpr, AffineMap


@dataclass(frozen=True)
class Lanes:
    """An index that differs between the lanes of a vector: a base and an offset in each."""

    lanes: tuple[int, ...]
    """Which lanes of the vector these are."""
    terms: tuple[Term, ...]
    """The index in each of `lanes`."""


@dataclass(frozen=True)
class Flags:
    """A condition that differs between the lanes of a vector."""

    lanes: tuple[int, ...]
    values: tuple[SSAValue | bool, ...]


Term: TypeAlias = tuple[SSAValue | None, int]
"""A base that the code computes, if any, plus an offset known while the code is built."""

Index: TypeAlias = int | SSAValue | Lanes
"""An index known while the code is built, or one that the code computes, for one lane or many."""

Condition: TypeAlias = bool | SSAValue | Flags
"""A condition known while the code is built, or one that the code computes."""


@dataclass
class IndexBuilder:
    """Emits index arithmetic at `builder`; constants go once to the head of `entry`."""

    builder: Builder
    entry: Block
    numbers: ValueNumbers = field(default_factory=ValueNumbers)
    _constants: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])

    def constant(self, value: int) -> SSAValue:
        """An SSA value of the constant `value`."""
        found = self._constants.get(value)
        if found is not None:
            return found
        op = arith.ConstantOp(IntegerAttr(value, IndexType()))
        self.at_entry(op)
        self._constants[value] = op.result
        return op.result

    def at_entry(self, op: Operation) -> None:
        """Insert `op`, which has no operands, at the head of the function."""
        first = self.entry.first_op
        if first is None:
            self.entry.add_op(op)
        else:
            self.entry.insert_op_before(op, first)

    def value(self, index: Index) -> SSAValue:
        """`index` as an SSA value.

        Raises:
            TypeError: the index differs between lanes, of which scalar code has none.
        """
        if isinstance(index, Lanes):
            raise TypeError("an index of many lanes is not a scalar")
        return self.constant(index) if isinstance(index, int) else index

    def add(self, a: Index, b: Index) -> Index:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        return self._emit(arith.AddiOp(self.value(a), self.value(b)))

    def sub(self, a: Index, b: Index) -> Index:
        """a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if b == 0:
            return a
        return self._emit(arith.SubiOp(self.value(a), self.value(b)))

    def mul(self, a: Index, b: Index) -> Index:
        """a * b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        return self._emit(arith.MuliOp(self.value(a), self.value(b)))

    def least(self, a: Index, b: int) -> Index:
        """The smaller one of a and b."""
        if isinstance(a, int):
            return min(a, b)
        return self._emit(arith.MinSIOp(self.value(a), self.constant(b)))

    def div(self, a: Index, b: int) -> Index:
        """a / b for a >= 0 and b > 0; a shift where b is a power of two.

        A `b` of 0 is the size of a dimension without elements: what computes it never runs.
        """
        if b <= 1:
            return a
        if isinstance(a, int):
            return a // b
        if b & (b - 1) == 0:
            return self._emit(arith.ShRUIOp(self.value(a), self.constant(b.bit_length() - 1)))
        return self._emit(arith.DivUIOp(self.value(a), self.constant(b)))

    def mod(self, a: Index, b: int) -> Index:
        """a mod b for a >= 0 and b > 0; a mask where b is a power of two."""
        if b <= 1:
            return 0
        if isinstance(a, int):
            return a % b
        if b & (b - 1) == 0:
            return self._emit(arith.AndIOp(self.value(a), self.constant(b - 1)))
        return self._emit(arith.RemUIOp(self.value(a), self.constant(b)))

    def at_least(self, a: Index, bound: int) -> Condition:
        """Whether a >= bound, as a bool where it is known."""
        return a >= bound if isinstance(a, int) else self._compare(a, bound, "sge")

    def less(self, a: Index, bound: int) -> Condition:
        """Whether a < bound, as a bool where it is known."""
        return a < bound if isinstance(a, int) else self._compare(a, bound, "slt")

    def equal(self, a: Index, b: int) -> Condition:
        """Whether a == b, as a bool where it is known."""
        return a == b if isinstance(a, int) else self._compare(a, b, "eq")

    def same(self, a: Index, b: SSAValue) -> Condition:
        """Whether a == b, for an index `b` that the code computes."""
        return self._emit(arith.CmpiOp(self.value(a), b, "eq"))

    def all(self, conditions: Sequence[Condition]) -> Condition:
        """The conjunction, as a bool where it is known.

        Raises:
            TypeError: a condition differs between lanes, of which scalar code has none.
        """
        if any(condition is False for condition in conditions):
            return False
        result: SSAValue | None = None
        for condition in conditions:
            if isinstance(condition, bool):
                continue
            if isinstance(condition, Flags):
                raise TypeError("a condition of many lanes is not a scalar")
            both = arith.AndIOp(result, condition) if result is not None else None
            result = condition if both is None else self._emit(both)
        return True if result is None else result

    def linearize(self, indices: Sequence[Index], shape: Sequence[int]) -> Index:
        """The row-major position of `indices` in an array of `shape`."""
        position: Index = 0
        for index, size in zip(indices, shape, strict=True):
            position = self.add(self.mul(position, size), index)
        return position

    def delinearize(self, position: Index, shape: Sequence[int]) -> list[Index]:
        """The indices of the row-major `position` in an array of `shape`."""
        indices: list[Index] = []
        for size in reversed(shape[1:]):
            indices.append(self.mod(position, size))
            position = self.div(position, size)
        return [*([position] if shape else []), *reversed(indices)]

    def apply(self, indexing_map: AffineMap, dims: Sequence[Index]) -> list[Index]:
        """The results of `indexing_map` at the loop indices `dims`."""
        return [self.evaluate(expr, dims) for expr in indexing_map.results]

    def evaluate(self, expr: AffineExpr, dims: Sequence[Index]) -> Index:
        """The value of an affine expression without symbols at the loop indices `dims`."""
        match expr:
            case AffineConstantExpr():
                return expr.value
            case AffineDimExpr():
                return dims[expr.position]
            case AffineBinaryOpExpr():
                lhs, rhs = self.evaluate(expr.lhs, dims), self.evaluate(expr.rhs, dims)
                return self._binary(expr.kind, lhs, rhs)
            case _:
                raise NotImplementedError(f"affine expression {expr}")

    def _binary(self, kind: AffineBinaryOpKind, lhs: Index, rhs: Index) -> Index:
        match kind:
            case AffineBinaryOpKind.Add:
                return self.add(lhs, rhs)
            case AffineBinaryOpKind.Mul:
                return self.mul(lhs, rhs)
            case AffineBinaryOpKind.FloorDiv:
                if isinstance(lhs, int) and isinstance(rhs, int):
                    return lhs // rhs
                return self._emit(arith.FloorDivSIOp(self.value(lhs), self.value(rhs)))
            case AffineBinaryOpKind.CeilDiv:
                if isinstance(lhs, int) and isinstance(rhs, int):
                    return -(-lhs // rhs)
                return self._emit(arith.CeilDivSIOp(self.value(lhs), self.value(rhs)))
            case AffineBinaryOpKind.Mod:
                if isinstance(lhs, int) and isinstance(rhs, int):
                    return lhs % rhs
                quotient = self._binary(AffineBinaryOpKind.FloorDiv, lhs, rhs)
                return self.sub(lhs, self.mul(quotient, rhs))

    def _compare(self, a: Index, b: int, predicate: str) -> SSAValue:
        return self._emit(arith.CmpiOp(self.value(a), self.constant(b), predicate))

    def _emit(self, op: Operation) -> SSAValue:
        return self.numbers.emit(self.builder, op)
