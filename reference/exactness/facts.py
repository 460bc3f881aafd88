"""What is known of a value: whether it is exact, and which roundings led to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.reference.dtypes import FLOAT_LIMITS, DType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Fact:
    """Exactness and roundings of one value, on the worst path to it."""

    inexact: str | None = None
    """Which operation may round a result of its own, and where; None if none does."""
    roundings: Mapping[DType, int] = field(default_factory=dict[DType, int])
    """How often the value was rounded to each float type; a sum counts its terms."""

    @property
    def relative_error(self) -> float:
        """The customary tolerance relative to the value: CK's, for one convolution."""
        return max(
            (FLOAT_LIMITS[dtype].half_ulp * count for dtype, count in self.roundings.items()),
            default=0.0,
        )

    @property
    def absolute_error(self) -> float:
        """What those roundings may lose besides, where values are subnormal."""
        return max(
            (FLOAT_LIMITS[dtype].half_step * count for dtype, count in self.roundings.items()),
            default=0.0,
        )

    @staticmethod
    def merge(facts: Iterable[Fact]) -> Fact:
        """What is known of a value that was computed, without rounding, from these."""
        inexact: str | None = None
        roundings: dict[DType, int] = {}
        for fact in facts:
            inexact = inexact or fact.inexact
            for dtype, count in fact.roundings.items():
                roundings[dtype] = max(roundings.get(dtype, 0), count)
        return Fact(inexact, roundings)

    def rounded(self, dtype: DType, times: int = 1) -> Fact:
        """The same after `times` more roundings to `dtype`."""
        count = self.roundings.get(dtype, 0) + times
        return Fact(self.inexact, {**self.roundings, dtype: count})

    def because(self, reason: str) -> Fact:
        """The same, not exact for `reason`, unless an earlier reason stands."""
        return Fact(self.inexact or reason, self.roundings)


EXACT = Fact()
"""An input, or a constant."""
