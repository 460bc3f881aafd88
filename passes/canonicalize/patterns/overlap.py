"""How the regions that two slices take of one tensor lie to each other.

A region is, in each dimension, the elements `offset + stride * i` for `i` below a size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.analysis.slices import Mixed, Size, SliceView


@dataclass(frozen=True)
class Span:
    """The elements of one dimension that a slice takes, as far as they are known."""

    offset: Mixed
    size: Size
    stride: Mixed


def spans(view: SliceView) -> tuple[Span, ...]:
    """One span for each dimension of the large tensor."""
    return tuple(
        Span(offset, size, stride)
        for offset, size, stride in zip(
            view.mixed_offsets, view.mixed_sizes, view.mixed_strides, strict=True
        )
    )


def same(one: SliceView, other: SliceView) -> bool:
    """True if both provably take the same elements in the same order."""
    return spans(one) == spans(other)


def within(inner: SliceView, outer: SliceView) -> tuple[tuple[int, int], ...] | None:
    """Where `inner` lies in what `outer` takes: offset and stride there, for each dimension.

    None unless every element of `inner` is provably one of `outer`.
    """
    places: list[tuple[int, int]] = []
    for span, outer_span in zip(spans(inner), spans(outer), strict=True):
        place = _within(span, outer_span)
        if place is None:
            return None
        places.append(place)
    return tuple(places)


def disjoint(one: SliceView, other: SliceView) -> bool:
    """True if the two provably share no element."""
    return any(_disjoint(a, b) for a, b in zip(spans(one), spans(other), strict=True))


def _within(inner: Span, outer: Span) -> tuple[int, int] | None:
    if inner == outer:
        return 0, 1
    known, outer_known = _known(inner), _known(outer)
    if known is None or outer_known is None:
        return None
    offset, size, stride = known
    outer_offset, outer_size, outer_stride = outer_known
    if size == 0:
        return None
    if size == 1:
        stride = outer_stride
    if (offset - outer_offset) % outer_stride or stride % outer_stride:
        return None
    first = (offset - outer_offset) // outer_stride
    step = stride // outer_stride
    if first < 0 or first + step * (size - 1) >= outer_size:
        return None
    return first, step


def _disjoint(one: Span, other: Span) -> bool:
    known, other_known = _known(one), _known(other)
    if known is None or other_known is None:
        return False
    a, a_size, a_stride = known
    b, b_size, b_stride = other_known
    if a_size == 0 or b_size == 0:
        return True
    if a + a_stride * (a_size - 1) < b or b + b_stride * (b_size - 1) < a:
        return True
    return (a - b) % gcd(a_stride, b_stride) != 0


def _known(span: Span) -> tuple[int, int, int] | None:
    """Offset, size and stride, if all are numbers."""
    offset, size, stride = span.offset, span.size, span.stride
    if isinstance(offset, int) and isinstance(size, int) and isinstance(stride, int):
        return offset, size, stride
    return None
