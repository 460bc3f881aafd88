"""How many points of a rectangle a linear form places in an interval, in logarithmic time.

The points are (i, j) for i in [0, m) and j in [0, n), and the form is a * i + b * j with positive
steps a and b: the outputs and taps of a window, whose numbers may be as large as any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm


def floor_sum(count: int, divisor: int, slope: int, start: int) -> int:
    """The sum of (slope * i + start) // divisor for i in [0, count); the divisor is positive."""
    total = 0
    while count > 0:
        quotient, slope = divmod(slope, divisor)
        total += quotient * (count * (count - 1) // 2)
        quotient, start = divmod(start, divisor)
        total += quotient * count
        # What is left are the points under a line, counted along the other axis.
        count, start = divmod(slope * count + start, divisor)
        divisor, slope = slope, divisor
    return total


@dataclass(frozen=True)
class Rectangle:
    """The points (i, j) of a rectangle, each at the place a * i + b * j."""

    m: int
    a: int
    n: int
    b: int

    def points_within(self, begin: int, end: int) -> int:
        """How many points have their place in [begin, end)."""
        return self._points_below(max(begin, end)) - self._points_below(begin)

    def places_within(self, begin: int, end: int) -> int:
        """How many numbers in [begin, end) are the place of some point."""
        # The points of one place lie b' and -a' apart: all but the first of them have one before.
        common, apart = gcd(self.a, self.b), lcm(self.a, self.b)
        before = Rectangle(self.m - self.b // common, self.a, self.n - self.a // common, self.b)
        others = before.points_within(begin - apart, end - apart)
        return self.points_within(begin, end) - others

    def columns_within(self, begin: int, end: int) -> int:
        """How many i have their place in [begin, end) for some j."""
        if begin >= end or self.n <= 0:
            return 0
        first = max(0, -((self.b * (self.n - 1) - begin) // self.a))
        count = min(self.m, (end - 1) // self.a + 1) - first
        if end - begin >= self.b:
            return max(0, count)
        start = self.a * first
        return floor_sum(count, self.b, self.a, start - begin) - floor_sum(
            count, self.b, self.a, start - end
        )

    def _points_below(self, end: int) -> int:
        """How many points have their place in front of `end`."""
        if self.m <= 0 or self.n <= 0:
            return 0
        whole = min(self.m, max(0, -((self.b * (self.n - 1) - end) // self.a)))
        some = min(self.m, max(whole, (end - 1) // self.a + 1))
        partly = floor_sum(some - whole, self.b, -self.a, end - self.a * whole + self.b - 1)
        return whole * self.n + partly
