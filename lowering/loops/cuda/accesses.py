"""Which lanes of a vector one memory access can serve: aligned runs of consecutive elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FixedBitwidthType, IntegerType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.lowering.loops.cuda.lanes import LaneBuilder
    from convir.lowering.loops.indices import Term

VECTOR_BYTES = 16
"""The most that a thread loads or stores at once."""


SPARSEST = 4
"""A vector is loaded if at least one in so many of its elements is needed, and two are."""


@dataclass(frozen=True)
class Access:
    """Consecutive elements, as many as `lanes` has entries."""

    start: Term
    """The position of the first, which its number divides."""
    lanes: tuple[tuple[int, ...], ...]
    """Which of the terms are at each of the elements; none where it is not needed."""


def element_bytes(element_type: Attribute) -> int:
    """The size of an element in memory; an index takes 8 bytes, an i1 one."""
    if isinstance(element_type, IntegerType):
        return max(1, element_type.bitwidth // 8)
    return element_type.size if isinstance(element_type, FixedBitwidthType) else 8


def accesses(
    terms: Sequence[Term], lane: LaneBuilder, element_type: Attribute, filled: int = 1
) -> list[Access]:
    """The fewest accesses that serve all `terms`, with base addresses that are aligned.

    Args:
        terms: the positions, one for each lane.
        lane: knows what divides their bases.
        element_type: what lies there.
        filled: a number that divides the buffer's elements: a load may take unneeded elements
            with it inside an aligned run of so many, which then lies in the buffer. 1 for stores.
    """
    bases: dict[SSAValue | None, dict[int, list[int]]] = {}
    for i, (base, offset) in enumerate(terms):
        bases.setdefault(base, {}).setdefault(offset, []).append(i)
    widest = max(1, VECTOR_BYTES // element_bytes(element_type))
    found: list[Access] = []
    for base, at in bases.items():
        multiple = lane.multiple_of(base)
        offsets = sorted(at)
        first = 0
        while first < len(offsets):
            start, size, used = _run(offsets[first:], multiple, widest, filled)
            lanes = tuple(tuple(at.get(offset, ())) for offset in range(start, start + size))
            found.append(Access((base, start), lanes))
            first += used
    return found


def runs(terms: Sequence[Term]) -> int:
    """How many runs of consecutive elements, aligned or not, `terms` are made of."""
    places = set(terms)
    return sum((base, offset - 1) not in places for base, offset in places)


def _run(offsets: Sequence[int], multiple: int, widest: int, filled: int) -> tuple[int, int, int]:
    """An aligned access for the first offsets: its start, its size, how many it serves."""
    size = widest
    while size > 1:
        start = offsets[0] // size * size
        used = sum(offset < start + size for offset in offsets)
        complete = used == size or (used >= max(2, size // SPARSEST) and filled % size == 0)
        if complete and multiple % size == 0:
            return start, size, used
        size //= 2
    return offsets[0], 1, 1
