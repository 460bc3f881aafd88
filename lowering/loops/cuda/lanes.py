"""Index arithmetic for the lanes of a vector, which differ by offsets known when code is built.

An index is one value for all lanes wherever that can be shown, and a base plus an offset in each
lane elsewhere: `8 * j + lane` divided by 16 is `8 * j / 16` in all eight lanes, and its remainder
`8 * j % 16 + lane`. What holds it together is by which number each base can be divided.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpKind

from convir.lowering.loops.cuda.index_range import IndexRanges
from convir.lowering.loops.indices import Condition, Flags, Index, IndexBuilder, Lanes, Term

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence


@dataclass
class LaneBuilder(IndexBuilder):
    """Index arithmetic for the lanes that are `active`; none are in code for single elements."""

    active: tuple[int, ...] = ()
    ranges: IndexRanges = field(default_factory=IndexRanges)
    _multiples: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    _positions: dict[tuple[Index, ...], tuple[Index, tuple[int, ...]]] = field(
        default_factory=dict[tuple[Index, ...], tuple[Index, tuple[int, ...]]]
    )

    @contextmanager
    def only(self, lanes: tuple[int, ...]) -> Generator[None]:
        """Build code for some of the lanes."""
        outer, self.active = self.active, lanes
        try:
            yield
        finally:
            self.active = outer

    def lanes_from(self, terms: Sequence[Term]) -> Index:
        """The index with the given value in each active lane: a scalar where all are the same."""
        if all(term == terms[0] for term in terms):
            base, offset = terms[0]
            return offset if base is None else super().add(base, offset)
        return Lanes(self.active, tuple(terms))

    def restricted(self, index: Index) -> Index:
        """`index` in the active lanes."""
        if not isinstance(index, Lanes) or index.lanes == self.active:
            return index
        at = dict(zip(index.lanes, index.terms, strict=True))
        return self.lanes_from([at[lane] for lane in self.active])

    def terms(self, index: Index) -> tuple[Term, ...]:
        """`index` in each of the active lanes."""
        index = self.restricted(index)
        if isinstance(index, Lanes):
            return index.terms
        term = (None, index) if isinstance(index, int) else (index, 0)
        return (term,) * max(1, len(self.active))

    def scalar(self, term: Term) -> SSAValue:
        """The index in one lane, as an SSA value."""
        base, offset = term
        return self.constant(offset) if base is None else self.value(super().add(base, offset))

    def multiple_of(self, value: SSAValue | None) -> int:
        """A number that divides `value`; 0 divides nothing but 0 itself."""
        if value is None:
            return 0
        found = self._multiples.get(value)
        if found is None:
            found = self._multiples[value] = self._multiple(value)
        return found

    def add(self, a: Index, b: Index) -> Index:
        """a + b."""
        if not _varies(a, b):
            return super().add(a, b)
        return self._map2(lambda x, y: (self._sum(x[0], y[0]), x[1] + y[1]), a, b)

    def sub(self, a: Index, b: Index) -> Index:
        """a - b."""
        if not _varies(a, b):
            return super().sub(a, b)
        return self._map2(lambda x, y: (self._difference(x[0], y[0]), x[1] - y[1]), a, b)

    def mul(self, a: Index, b: Index) -> Index:
        """a * b."""
        if not _varies(a, b):
            return super().mul(a, b)
        if isinstance(a, int):
            a, b = b, a
        if not isinstance(b, int):
            return self._map2(lambda x, y: (self.value(self._product(x, y)), 0), a, b)
        factor = b
        return self._map(lambda x: (self._scaled(x[0], factor), x[1] * factor), a)

    def div(self, a: Index, b: int) -> Index:
        """a / b for a >= 0 and b > 0."""
        if not isinstance(a, Lanes) or b <= 1:
            return super().div(a, b)
        return self._map(lambda term: self._quotient(term, b), a)

    def mod(self, a: Index, b: int) -> Index:
        """a mod b for a >= 0 and b > 0."""
        if not isinstance(a, Lanes) or b <= 1:
            return super().mod(a, b)
        return self._map(lambda term: self._remainder(term, b), a)

    def at_least(self, a: Index, bound: int) -> Condition:
        """Whether a >= bound."""
        return self._each(lambda term: self._ordered(term, bound, "sge"), a)

    def less(self, a: Index, bound: int) -> Condition:
        """Whether a < bound."""
        return self._each(lambda term: self._ordered(term, bound, "slt"), a)

    def equal(self, a: Index, b: int) -> Condition:
        """Whether a == b."""
        return self._each(lambda term: self._equal(term, b), a)

    def same(self, a: Index, b: SSAValue) -> Condition:
        """Whether a == b, for an index `b` that the code computes."""
        return self._each(lambda term: self._emit(arith.CmpiOp(self.scalar(term), b, "eq")), a)

    def all(self, conditions: Sequence[Condition]) -> Condition:
        """The conjunction."""
        if not any(isinstance(condition, Flags) for condition in conditions):
            return super().all(conditions)
        values = [self.flags(condition) for condition in conditions]
        each = [super(LaneBuilder, self).all(lane) for lane in zip(*values, strict=True)]
        return self.condition(cast("list[SSAValue | bool]", each))

    def flags(self, condition: Condition) -> tuple[SSAValue | bool, ...]:
        """`condition` in each of the active lanes."""
        if not isinstance(condition, Flags):
            return (condition,) * len(self.active)
        at = dict(zip(condition.lanes, condition.values, strict=True))
        return tuple(at[lane] for lane in self.active)

    def condition(self, values: Sequence[SSAValue | bool]) -> Condition:
        """The condition with the given value in each active lane."""
        if all(value is values[0] for value in values):
            return values[0]
        return Flags(self.active, tuple(values))

    def linearize(self, indices: Sequence[Index], shape: Sequence[int]) -> Index:
        """The row-major position of `indices`; what was taken apart is put together again."""
        known = self._known_position(indices, shape)
        if known is not None:
            return self.linearize(*known)
        return super().linearize(indices, shape)

    def delinearize(self, position: Index, shape: Sequence[int]) -> list[Index]:
        """The indices of the row-major `position` in an array of `shape`."""
        indices: list[Index] = []
        rest: list[Index] = [position]
        for size in reversed(shape[1:]):
            indices.append(self.mod(rest[-1], size))
            rest.append(self.div(rest[-1], size))
        result = [*([rest[-1]] if shape else []), *reversed(indices)]
        for rank in range(2, len(shape) + 1):
            self.remember(result[:rank], rest[len(shape) - rank], shape[:rank])
        return result

    def remember(self, indices: Sequence[Index], position: Index, shape: Sequence[int]) -> None:
        """Take it as given that `indices` in `shape` are at `position`."""
        if len(indices) > 1:
            self._positions[tuple(indices)] = (position, tuple(shape))

    def _known_position(
        self, indices: Sequence[Index], shape: Sequence[int]
    ) -> tuple[list[Index], list[int]] | None:
        """`indices` and `shape` with the longest known run of dimensions as one; None if none."""
        rank = len(indices)
        for length in range(rank, 1, -1):
            for first in range(rank - length + 1):
                last = first + length
                known = self._positions.get(tuple(indices[first:last]))
                if known is None or known[1][1:] != tuple(shape[first + 1 : last]):
                    continue
                size = shape[first]
                for extent in shape[first + 1 : last]:
                    size *= extent
                return (
                    [*indices[:first], known[0], *indices[last:]],
                    [*shape[:first], size, *shape[last:]],
                )
        return None

    def _binary(self, kind: AffineBinaryOpKind, lhs: Index, rhs: Index) -> Index:
        if not _varies(lhs, rhs) or kind in (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul):
            return super()._binary(kind, lhs, rhs)
        if kind is AffineBinaryOpKind.Mod and isinstance(rhs, int) and self.is_natural(lhs):
            return self.mod(lhs, rhs)
        if kind is AffineBinaryOpKind.FloorDiv and isinstance(rhs, int) and self.is_natural(lhs):
            return self.div(lhs, rhs)
        if kind is AffineBinaryOpKind.Mod:
            return super()._binary(kind, lhs, rhs)
        op = arith.FloorDivSIOp if kind is AffineBinaryOpKind.FloorDiv else arith.CeilDivSIOp
        return self._map2(
            lambda x, y: (self._emit(op(self.scalar(x), self.scalar(y))), 0), lhs, rhs
        )

    def is_natural(self, index: Index) -> bool:
        """Whether `index` is proved to be at least 0 in every lane."""
        return all(self._range(term)[0] >= 0 for term in self.terms(index))

    def at_most(self, index: Index, bound: int) -> bool:
        """Whether `index` is proved to be at most `bound` in every lane."""
        return all(self._range(term)[1] <= bound for term in self.terms(index))

    def _range(self, term: Term) -> tuple[int, int]:
        base, offset = term
        low, high = (0, 0) if base is None else self.ranges.of(base)
        return low + offset, high + offset

    def _map(self, function: Callable[[Term], Term], a: Index) -> Index:
        return self.lanes_from([function(term) for term in self.terms(a)])

    def _map2(self, function: Callable[[Term, Term], Term], a: Index, b: Index) -> Index:
        pairs = zip(self.terms(a), self.terms(b), strict=True)
        return self.lanes_from([function(x, y) for x, y in pairs])

    def _each(self, function: Callable[[Term], SSAValue | bool], a: Index) -> Condition:
        return self.condition([function(term) for term in self.terms(a)])

    def _sum(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        if a is None or b is None:
            return a or b
        return self.value(super().add(a, b))

    def _difference(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        return a if b is None else self.value(super().sub(0 if a is None else a, b))

    def _scaled(self, a: SSAValue | None, factor: int) -> SSAValue | None:
        return None if a is None or factor == 0 else self.value(super().mul(a, factor))

    def _product(self, a: Term, b: Term) -> Index:
        return super().mul(self.scalar(a), self.scalar(b))

    def _split(self, term: Term, divisor: int) -> tuple[SSAValue | None, int]:
        """A term as a base that `divisor` may not divide and a rest that never carries."""
        base, offset = term
        common = gcd(self.multiple_of(base), divisor)
        rest = offset % common
        return (None if base is None else self.value(super().add(base, offset - rest))), rest

    def _quotient(self, term: Term, divisor: int) -> Term:
        base, offset = term
        if self.multiple_of(base) % divisor == 0:
            quotient = None if base is None else self.value(super().div(base, divisor))
            return quotient, offset // divisor
        base, _ = self._split(term, divisor)
        assert base is not None
        return self.value(super().div(base, divisor)), 0

    def _remainder(self, term: Term, divisor: int) -> Term:
        base, offset = term
        if self.multiple_of(base) % divisor == 0:
            return None, offset % divisor
        base, rest = self._split(term, divisor)
        assert base is not None
        return self.value(super().mod(base, divisor)), rest

    def _ordered(self, term: Term, bound: int, predicate: str) -> SSAValue | bool:
        """Compare a term with a bound that is rounded up to what its base can be."""
        base, offset = term
        if base is None:
            return offset < bound if predicate == "slt" else offset >= bound
        step = max(1, self.multiple_of(base))
        limit = -((offset - bound) // step) * step
        low, high = self.ranges.of(base)
        if high < limit:
            return predicate == "slt"
        if low >= limit:
            return predicate == "sge"
        return self._compare(base, limit, predicate)

    def _equal(self, term: Term, wanted: int) -> SSAValue | bool:
        base, offset = term
        if base is None:
            return offset == wanted
        step = max(1, self.multiple_of(base))
        low, high = self.ranges.of(base)
        if (wanted - offset) % step != 0 or not low <= wanted - offset <= high:
            return False
        return self._compare(base, wanted - offset, "eq")

    def _multiple(self, value: SSAValue) -> int:
        op = value.owner
        if not isinstance(op, Operation):
            return 1
        if isinstance(op, arith.ConstantOp):
            return abs(_constant(value) or 0)
        if len(op.operands) != 2:
            return 1
        a, b = map(self.multiple_of, op.operands)
        constant: Any = _constant(op.operands[1])
        match op.name:
            case "arith.muli":
                return a * b
            case "arith.addi" | "arith.subi":
                return gcd(a, b)
            case "arith.remui":
                return gcd(a, b)
            case "arith.andi" if constant is not None and constant > 0:
                return gcd(a, constant + 1) if constant & (constant + 1) == 0 else 1
            case "arith.divui" if constant and a % constant == 0:
                return a // constant
            case "arith.shrui" if constant is not None and a % (1 << constant) == 0:
                return a >> constant
            case _:
                return 1


def _varies(*indices: Index) -> bool:
    return any(isinstance(index, Lanes) for index in indices)


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None
