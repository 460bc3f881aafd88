"""The abstract domain of exactness: multiples of a power of two, up to a bound."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np

from convir.reference.dtypes import FLOAT64, FLOAT_LIMITS, Array, DType, is_float

_CHUNK_ELEMENTS = 1 << 17
"""How many elements are measured at a time, so that temporaries stay in cache."""
_F64_FRACTION_BITS = 52
_F64_LOWEST_EXPONENT = -1074


@dataclass(frozen=True)
class Grid:
    """Every value is an integer multiple of `2**exponent` and at most `bound` in magnitude.

    A sum, or a product, of values on grids lies on a grid again. If a type can hold every point of
    that grid then the operation does not round, in whatever order its terms are taken.
    """

    exponent: int
    bound: float

    @staticmethod
    def of(array: Array) -> Grid:
        """The grid on which the finite elements of `array` lie; NaN and infinities are left out."""
        compact = array[tuple(slice(None) if s else slice(1) for s in array.strides)]
        if compact.size == 0:
            return ZERO
        if not is_float(array.dtype):
            return Grid(0, float(max(int(compact.max()), -int(compact.min()))))
        chunks = np.nditer(
            compact,
            flags=["external_loop", "buffered"],
            op_dtypes=[FLOAT64],
            casting="unsafe",
            buffersize=_CHUNK_ELEMENTS,
        )
        grid = ZERO
        for chunk in chunks:
            grid = grid.join(_measure(np.asarray(chunk)))
        return grid

    @staticmethod
    def of_number(value: float) -> Grid:
        """The grid of one number."""
        return Grid.of(np.array(value, FLOAT64))

    def join(self, other: Grid) -> Grid:
        """A grid on which the points of both lie."""
        if self.bound == 0:
            return other
        if other.bound == 0:
            return self
        return Grid(min(self.exponent, other.exponent), max(self.bound, other.bound))

    def plus(self, other: Grid) -> Grid:
        """A grid for sums and differences of one point of each."""
        return Grid(self.join(other).exponent, self.bound + other.bound)

    def times(self, other: Grid) -> Grid:
        """A grid for products of one point of each."""
        return Grid(self.exponent + other.exponent, self.bound * other.bound)

    def repeated(self, count: int) -> Grid:
        """A grid for sums of up to `count` points."""
        return Grid(self.exponent, self.bound * count)

    def fits(self, dtype: DType) -> bool:
        """Whether the float type `dtype` holds every point exactly."""
        if self.bound == 0:
            return True
        limits = FLOAT_LIMITS[dtype]
        power = frexp(self.bound)[1] - 1
        digits = power - self.exponent + (self.bound != 2.0**power)
        in_range = self.exponent >= limits.lowest_exponent and self.bound <= limits.largest
        return in_range and digits <= limits.digits


ZERO = Grid(0, 0.0)
"""The grid of zero alone."""


def _measure(values: Array) -> Grid:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return ZERO
    bound = float(np.abs(finite).max())
    if np.array_equal(finite, np.rint(finite)):
        return Grid(0, bound)
    bits = finite[finite != 0].view(np.uint64)
    exponents = (bits >> np.uint64(_F64_FRACTION_BITS)) & np.uint64(0x7FF)
    fractions = bits & np.uint64((1 << _F64_FRACTION_BITS) - 1)
    normal = exponents != 0
    fractions |= normal.astype(np.uint64) << np.uint64(_F64_FRACTION_BITS)
    trailing = np.bitwise_count((fractions & (~fractions + np.uint64(1))) - np.uint64(1))
    scale = np.maximum(exponents, 1).astype(np.int64) - 1 + _F64_LOWEST_EXPONENT
    return Grid(int((scale + trailing).min()), bound)
