"""Which lanes of a vector one memory access can serve: aligned runs of consecutive elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FixedBitwidthType, IntegerType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.lowering.cuda.lanes import LaneBuilder
    from convir.lowering.loops.indices import Term

VECTOR_BYTES = 16
"""The most that a thread loads or stores at once."""


@dataclass(frozen=True)
class Access:
    """Consecutive elements, as many as `lanes` has entries."""

    start: Term
    """The position of the first, which its number divides."""
    lanes: tuple[tuple[int, ...], ...]
    """Which of the terms are at each of the elements."""


def element_bytes(element_type: Attribute) -> int:
    """The size of an element in memory; an index takes 8 bytes, an i1 one."""
    if isinstance(element_type, IntegerType):
        return max(1, element_type.bitwidth // 8)
    return element_type.size if isinstance(element_type, FixedBitwidthType) else 8


def accesses(terms: Sequence[Term], lane: LaneBuilder, element_type: Attribute) -> list[Access]:
    """The fewest accesses that serve all `terms`, with base addresses that are aligned."""
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
            size = _run(offsets, first, multiple, widest)
            lanes = tuple(tuple(at[offset]) for offset in offsets[first : first + size])
            found.append(Access((base, offsets[first]), lanes))
            first += size
    return found


def _run(offsets: Sequence[int], first: int, multiple: int, widest: int) -> int:
    """How many elements from number `first` on one aligned access covers."""
    start, size = offsets[first], widest
    while size > 1:
        consecutive = first + size <= len(offsets) and offsets[first + size - 1] == start + size - 1
        if consecutive and multiple % size == 0 and start % size == 0:
            return size
        size //= 2
    return 1
