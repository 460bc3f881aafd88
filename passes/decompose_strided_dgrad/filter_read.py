"""The filter of a contraction as it lies in memory, where an op only turns it around.

The gradient of a convolution's input reads the filter with its taps reversed and its dimensions
permuted: `W'[f, r, c] = W[c, R - 1 - r, f]`. What counts the taps from the other end reads W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from convir.analysis.rearrangement import rearrangement
from convir.analysis.slices import is_encoded, size_of

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from convir.analysis.linear import LinearIndex
    from convir.analysis.slices import Size
    from convir.passes.decompose_strided_dgrad.match import ScatteredOperand


@dataclass(frozen=True)
class FilterRead:
    """A filter of which each dimension is indexed by one loop."""

    value: SSAValue
    loops: tuple[int, ...]
    """The loop of each dimension."""
    reversed: frozenset[int] = frozenset()
    """The loops that count taps from the last one."""


def filter_as_it_lies(operand: ScatteredOperand) -> FilterRead | None:
    """What the filter of `operand` was reversed and permuted from, or the filter; None where a
    dimension is not one loop."""
    value = operand.other.value
    loops = tuple(index.bare for index in operand.other.index)
    given = FilterRead(value, tuple(loop for loop in loops if loop is not None))
    if len(given.loops) < len(loops):
        return None
    found = rearrangement(value.owner) if isinstance(value.owner, Operation) else None
    if found is None or is_encoded(found.source) or len(found.index) != len(loops):
        return given
    taps = {split.tap.dim for split in operand.split if split.tap is not None}
    order: list[int] = []
    backwards: set[int] = set()
    for dim, index in enumerate(found.index):
        if len(index.terms) != 1:
            return given
        ((read, _),) = index.terms
        size = size_of(found.source, dim)
        if size != size_of(value, read):
            return given
        if read in taps and _is_reversed(index, size):
            backwards.add(given.loops[read])
        elif index.bare is None:
            return given
        order.append(read)
    if sorted(order) != list(range(len(loops))):
        return given
    return FilterRead(found.source, tuple(given.loops[dim] for dim in order), frozenset(backwards))


def _is_reversed(index: LinearIndex, size: Size) -> bool:
    """Whether an index runs over all of a dimension from its end; not one of a single element."""
    return isinstance(size, int) and index.terms[0][1] == -1 and index.constant == size - 1
