"""The vectors that one step of a pass computes side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import RowProgram

VECTORS = 4
"""As many accumulators as hide an addition's latency."""
SHORT_VECTORS = 8
"""The same of vectors of at most 32 bytes: a step, and what surrounds it, is for more of them."""
SHORT_BYTES = 32


@dataclass(frozen=True)
class Slot:
    """A vector of a step."""

    row: int
    """Along the innermost reduced axis, from where the step begins."""
    lane: int
    """Along the innermost axis, across rows."""
    active: int
    """The lanes that hold elements."""
    group: int
    """Slots of one group are combined with each other."""


@dataclass(frozen=True)
class Slots:
    """Those of an item: a row, or a block of rows."""

    program: RowProgram
    lanes: int
    """Elements in a vector."""
    length: int
    """Elements of the item along the innermost axis."""

    @property
    def _vectors(self) -> int:
        is_short = self.lanes * STORAGE_BYTES[self.program.element] <= SHORT_BYTES
        return SHORT_VECTORS if is_short else VECTORS

    @cached_property
    def groups(self) -> list[int]:
        """The active lanes of each group."""
        if self.program.along_rows:
            return [self.lanes]
        return [min(self.lanes, self.length - at) for at in range(0, self.length, self.lanes)]

    @cached_property
    def steps(self) -> tuple[int, list[Slot], list[Slot]]:
        """How far a step of the innermost reduced axis goes, its slots, and those of the rest."""
        program, count = self.program, self.lanes
        reduced = zip(program.sizes, program.reduced, strict=True)
        *_, length = (size for size, is_reduced in reduced if is_reduced)
        if program.along_rows:
            step = self._vectors * count
            rest = length % step
            return (
                step,
                [Slot(i * count, 0, count, 0) for i in range(self._vectors)],
                [Slot(at, 0, min(count, rest - at), 0) for at in range(0, rest, count)],
            )
        unrolled = max(1, self._vectors // len(self.groups))
        rest = length % unrolled
        slots = [
            Slot(row, group * count, active, group)
            for row in range(unrolled)
            for group, active in enumerate(self.groups)
        ]
        return unrolled, slots, slots[: rest * len(self.groups)]
