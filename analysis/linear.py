"""Affine index expressions as linear forms: a coefficient per loop and a constant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class LinearIndex:
    """`constant + Σ coefficient · loop`, the index into one dimension of an operand."""

    terms: tuple[tuple[int, int], ...]
    """(loop, coefficient) pairs in the order of the loops, without zero coefficients."""
    constant: int = 0

    @staticmethod
    def of(coefficients: Mapping[int, int], constant: int = 0) -> LinearIndex:
        """The form with the given coefficient per loop; zeros are dropped."""
        terms = tuple(sorted((loop, c) for loop, c in coefficients.items() if c != 0))
        return LinearIndex(terms, constant)

    @property
    def loops(self) -> tuple[int, ...]:
        """The loops the index depends on, ascending."""
        return tuple(loop for loop, _ in self.terms)

    @property
    def bare(self) -> int | None:
        """The loop, where the index is that loop and nothing else."""
        if self.constant != 0 or len(self.terms) != 1 or self.terms[0][1] != 1:
            return None
        return self.terms[0][0]

    def coefficient(self, loop: int) -> int:
        """The coefficient of `loop`, 0 if the index does not depend on it."""
        return dict(self.terms).get(loop, 0)

    def restricted(self, keep: Callable[[int], bool]) -> LinearIndex:
        """The form with every loop for which `keep` is false set to 0."""
        return LinearIndex(tuple(term for term in self.terms if keep(term[0])), self.constant)

    def substituted(self, loop: int, start: int, step: int) -> LinearIndex:
        """The form after `loop := start + step · loop`."""
        coefficients = dict(self.terms)
        old = coefficients.get(loop, 0)
        coefficients[loop] = old * step
        return LinearIndex.of(coefficients, self.constant + old * start)

    def plus(self, other: LinearIndex) -> LinearIndex:
        """The sum of two forms."""
        coefficients = dict(self.terms)
        for loop, coefficient in other.terms:
            coefficients[loop] = coefficients.get(loop, 0) + coefficient
        return LinearIndex.of(coefficients, self.constant + other.constant)

    def affine(self, factor: int, offset: int) -> LinearIndex:
        """`factor · self + offset`."""
        scaled = {loop: coefficient * factor for loop, coefficient in self.terms}
        return LinearIndex.of(scaled, self.constant * factor + offset)

    def composed(self, forms: Sequence[LinearIndex]) -> LinearIndex:
        """The form where loop i is the form `forms[i]` over other loops."""
        result = LinearIndex((), self.constant)
        for loop, coefficient in self.terms:
            result = result.plus(forms[loop].affine(coefficient, 0))
        return result

    def maximum(self, bounds: tuple[int | None, ...]) -> int | None:
        """The largest value over loops running in [0, bound); None if a bound is dynamic."""
        total = self.constant
        for loop, coefficient in self.terms:
            bound = bounds[loop]
            if bound is None:
                return None
            total += max(0, coefficient * (bound - 1))
        return total

    def expression(self) -> AffineExpr:
        """The form as an affine expression."""
        total = AffineExpr.constant(self.constant)
        for loop, coefficient in reversed(self.terms):
            total = AffineExpr.dimension(loop) * coefficient + total
        return total


@cache
def _of_loop(loop: int) -> LinearIndex:
    return LinearIndex(((loop, 1),))


def linear_index(expr: AffineExpr) -> LinearIndex | None:
    """The linear form of `expr`; None if it divides, takes a remainder or has a symbol."""
    if isinstance(expr, AffineDimExpr):  # most are
        return _of_loop(expr.position)
    match expr:
        case AffineConstantExpr(value=value):
            return LinearIndex((), value)
        case AffineBinaryOpExpr(kind=kind, lhs=lhs, rhs=rhs):
            return _linear_binary(kind, linear_index(lhs), linear_index(rhs))
        case _:
            return None


def linear_map(indexing_map: AffineMap) -> tuple[LinearIndex, ...] | None:
    """The linear forms of a map's results; None if one of them is not linear."""
    forms = [linear_index(expr) for expr in indexing_map.results]
    return None if None in forms else tuple(form for form in forms if form is not None)


def _linear_binary(
    kind: AffineBinaryOpKind, lhs: LinearIndex | None, rhs: LinearIndex | None
) -> LinearIndex | None:
    if lhs is None or rhs is None:
        return None
    if kind == AffineBinaryOpKind.Add:
        return lhs.plus(rhs)
    if kind != AffineBinaryOpKind.Mul:
        return None
    form, factor = (lhs, rhs) if not rhs.terms else (rhs, lhs)
    if factor.terms:
        return None
    return form.affine(factor.constant, 0)
