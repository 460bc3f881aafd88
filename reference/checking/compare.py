"""Where two arrays differ most, against a tolerance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from convir.reference.dtypes import FLOAT64, Array

_CHUNK_ELEMENTS = 1 << 20
"""How many elements are compared at a time."""


@dataclass(frozen=True)
class Difference:
    """Where two arrays differ most, against what is allowed there."""

    position: int = 0
    """In the flattened arrays."""
    error: float = 0.0
    allowed: float = 0.0
    undefined: int = 0
    """How many elements were expected to be NaN, and so may be anything."""


def largest_error(
    expected: Array,
    actual: Array,
    relative: float,
    absolute: float = 0.0,
    declared: Array | None = None,
) -> Difference:
    """Where |actual - expected| most exceeds relative * (|expected| + max |expected|) and absolute.

    The arrays are taken in chunks, so that nothing of their size is made.

    Args:
        expected: NaN where anything will do.
        actual: of the same shape.
        relative: allowed error.
        absolute: allowed error.
        declared: where `expected` was computed in f64, the same in the types of the IR. What is
            NaN there is undefined as well. What is infinite there and finite in f64 overflowed: it
            is not part of the maximum, and may be infinite or NaN, as the order of a sum decides.
            An element that equals it is right, however far from f64 the types led both.
    """
    comparison = _Comparison(expected.reshape(-1), actual.reshape(-1), None)
    if declared is not None:
        comparison = replace(comparison, declared=declared.reshape(-1))
    starts = range(0, expected.size, _CHUNK_ELEMENTS)
    largest = 0.0
    if relative > 0:
        for start in starts:
            chunk = comparison.part(start)
            counted = ~(chunk.overflowed | chunk.undefined)
            largest = max(largest, float(chunk.magnitude.max(initial=0.0, where=counted)))
    worst = Difference()
    undefined = 0
    for start in starts:
        chunk = comparison.part(start)
        allowed = np.maximum(relative * (chunk.magnitude + largest), absolute)
        error = chunk.error(allowed)
        position = int(np.argmax(error - allowed))
        found = Difference(start + position, float(error[position]), float(allowed[position]))
        undefined += int(np.count_nonzero(chunk.undefined))
        if start == 0 or found.error - found.allowed > worst.error - worst.allowed:
            worst = found
    return replace(worst, undefined=undefined)


@dataclass(frozen=True)
class _Comparison:
    """Flat arrays that are compared; see `largest_error`."""

    expected: Array
    actual: Array
    declared: Array | None

    def part(self, start: int) -> _Comparison:
        """One chunk of them."""
        part = slice(start, start + _CHUNK_ELEMENTS)
        declared = None if self.declared is None else self.declared[part]
        return _Comparison(self.expected[part], self.actual[part], declared)

    @cached_property
    def wide(self) -> Array:
        """What is expected, in f64."""
        return self.expected.astype(FLOAT64)

    @cached_property
    def magnitude(self) -> Array:
        """|expected|, 0 where it is not finite."""
        return np.where(np.isfinite(self.wide), np.abs(self.wide), 0.0)

    @cached_property
    def overflowed(self) -> Array:
        """Where the declared types are too narrow for what f64 holds."""
        if self.declared is None:
            return np.zeros(self.wide.shape, np.bool_)
        return np.isfinite(self.wide) & np.isinf(self.declared.astype(FLOAT64))

    @cached_property
    def undefined(self) -> Array:
        """Where anything will do."""
        undefined = np.isnan(self.wide)
        if self.declared is not None:
            undefined |= np.isnan(self.declared.astype(FLOAT64))
        return undefined

    def error(self, allowed: Array) -> Array:
        """|actual - expected|, 0 where the declared types excuse more than is allowed."""
        wide = self.actual.astype(FLOAT64)
        with np.errstate(all="ignore"):
            error = np.abs(wide - self.wide)
        error = np.where((self.actual == self.expected) | self.undefined, 0.0, error)
        error = np.where(np.isnan(error), np.inf, error)
        if self.declared is None:
            return error
        excused = (self.actual == self.declared) | (self.overflowed & ~np.isfinite(wide))
        return np.where(excused & (error > allowed), 0.0, error)
