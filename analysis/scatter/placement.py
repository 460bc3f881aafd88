"""Where the elements of a dense dimension lie in a larger one, and arithmetic on that.

A `Placement` says that element `t` of a source dimension lies at `offset + stride * t` of a
dimension of `extent` elements that is zero elsewhere. A dimension that was made by collapsing
several is a sequence of placements, outermost first, as the digits of a number in mixed radix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.analysis.slices import Mixed, Size


@dataclass(frozen=True)
class Placement:
    """One digit: `size` elements, one every `stride`, from `offset` on, in `extent` places."""

    offset: Mixed
    stride: Mixed
    size: Size
    extent: Size
    source_size: Size
    """The size of the source dimension, of which only some elements may be placed."""
    start: int = 0
    """The first source element placed."""
    step: int = 1
    """The distance between the source elements that are placed."""

    @staticmethod
    def whole(size: Size) -> Placement:
        """All of a dimension, without gaps."""
        return Placement(0, 1, size, size, size)

    @property
    def covers(self) -> bool:
        """True if there is provably no gap."""
        return self.offset == 0 and self.stride == 1 and self.size == self.extent

    @property
    def crops(self) -> bool:
        """True if some source elements are not placed, or that cannot be excluded."""
        return self.start != 0 or self.step != 1 or self.source_size != self.size


Digits: TypeAlias = tuple[Placement, ...]
"""A dimension: its placements, outermost first; () is a dimension of one element."""


def product(sizes: Sequence[Size]) -> Size | None:
    """The product of sizes; None if several are not static, or one is not and others exceed 1."""
    static = prod(size for size in sizes if isinstance(size, int))
    dynamic = [size for size in sizes if not isinstance(size, int)]
    if not dynamic:
        return static
    return dynamic[0] if static == 1 and len(dynamic) == 1 else None


def covers(digits: Digits) -> bool:
    """True if the dimension provably has no gap."""
    return all(placement.covers for placement in digits)


def uncropped(placement: Placement) -> Placement:
    """The placement once its source holds only the elements that are placed."""
    return replace(placement, source_size=placement.size, start=0, step=1)


def place(inner: Digits, offset: Mixed, stride: Mixed, extent: Size) -> Digits | None:
    """The dimension after `inner` is itself inserted at `offset`, every `stride`.

    None if that is no longer one placement per digit.
    """
    match inner:
        case ():
            return (Placement(offset, 1, 1, extent, 1),)
        case (placement,):
            moved = _place_digit(placement, offset, stride, extent)
            return None if moved is None else (moved,)
        case _:
            return _place_outermost(inner, offset, stride, extent)


def read(digits: Digits, start: Mixed, step: Mixed, count: Size) -> Digits | None:
    """What indices `start + step * y` for `y < count` read of the dimension, as a dimension.

    None if every element read is a gap, or if what is read cannot be proved.
    """
    extent = product([placement.extent for placement in digits])
    if start == 0 and step == 1 and extent is not None and count == extent:
        return digits
    if not (isinstance(start, int) and isinstance(step, int) and isinstance(count, int)):
        return None
    match digits:
        case ():
            solution = _common(Placement.whole(1), start, step, count)
        case (placement,):
            solution = _common(placement, start, step, count)
        case _:
            return None
    return None if solution is None else (solution,)


def simplified(digits: Digits) -> Digits:
    """The same dimension with as few digits as possible."""
    merged: list[Placement] = []
    for placement in digits:
        if placement.covers and placement.extent == 1 and placement.source_size == 1:
            continue
        joined = _joined(merged[-1], placement) if merged else None
        if joined is None:
            merged.append(placement)
        else:
            merged[-1] = joined
    return tuple(merged)


def split(digits: Digits, extents: Sequence[Size]) -> tuple[Digits, ...] | None:
    """The dimension as several, outermost first, of the given extents.

    None if a placement would have to be cut where it has gaps.
    """
    if sum(extent != 1 for extent in extents) <= 1:
        # One dimension takes all digits, the others have one element each.
        wide = next((i for i, extent in enumerate(extents) if extent != 1), 0)
        return tuple(digits if i == wide else () for i in range(len(extents)))
    remaining = list(digits)
    parts: list[Digits] = []
    for extent in reversed(extents):
        part = _take_inner(remaining, extent)
        if part is None:
            return None
        parts.append(part)
    if any(placement.extent != 1 for placement in remaining):
        return None
    parts[-1] = (*remaining, *parts[-1])
    return tuple(reversed(parts))


def _place_digit(
    placement: Placement, offset: Mixed, stride: Mixed, extent: Size
) -> Placement | None:
    inner_offset, inner_stride = placement.offset, placement.stride
    if inner_offset == 0 and inner_stride == 1:
        # One element keeps no distance from a second one.
        kept_stride = 1 if placement.size == 1 else stride
        return replace(placement, offset=offset, stride=kept_stride, extent=extent)
    if offset == 0 and stride == 1:
        return replace(placement, extent=extent)
    if not (isinstance(inner_offset, int) and isinstance(inner_stride, int)):
        return None
    if not (isinstance(offset, int) and isinstance(stride, int)):
        return None
    return replace(
        placement,
        offset=offset + stride * inner_offset,
        stride=stride * inner_stride,
        extent=extent,
    )


def _place_outermost(inner: Digits, offset: Mixed, stride: Mixed, extent: Size) -> Digits | None:
    """More room around a number in mixed radix only moves and widens its first digit."""
    if stride != 1:
        return None
    below = product([placement.extent for placement in inner[1:]])
    first = inner[0]
    if not (isinstance(below, int) and isinstance(offset, int) and isinstance(extent, int)):
        return None
    if offset % below or extent % below or not isinstance(first.offset, int):
        return None
    moved = replace(first, offset=first.offset + offset // below, extent=extent // below)
    return (moved, *inner[1:])


def _common(placement: Placement, start: int, step: int, count: int) -> Placement | None:
    """Solve `start + step * y == offset + stride * t` for 0 <= y < count, 0 <= t < size."""
    offset, stride, size = placement.offset, placement.stride, placement.size
    if not (isinstance(offset, int) and isinstance(stride, int) and isinstance(size, int)):
        return None
    divisor = gcd(step, stride)
    if step < 1 or (start - offset) % divisor:
        return None
    y_step, t_step = stride // divisor, step // divisor
    # The first t for which offset + stride * t - start is a multiple of step ...
    t = pow(y_step, -1, t_step) * ((start - offset) // divisor) % t_step if t_step > 1 else 0
    # ... and for which y is not negative.
    behind = start - offset - stride * t
    if behind > 0:
        period = stride * t_step
        t += t_step * -(-behind // period)
    y = (offset + stride * t - start) // step
    if t >= size or y >= count:
        return None
    hits = min((size - 1 - t) // t_step, (count - 1 - y) // y_step) + 1
    if hits == 1:
        y_step = t_step = 1
    return Placement(
        offset=y,
        stride=y_step,
        size=hits,
        extent=count,
        source_size=placement.source_size,
        start=placement.start + placement.step * t,
        step=placement.step * t_step,
    )


def _joined(outer: Placement, inner: Placement) -> Placement | None:
    """Two neighbouring digits as one, where the result is still evenly spaced."""
    if not isinstance(outer.extent, int) or not isinstance(inner.extent, int):
        return None
    if not (isinstance(outer.offset, int) and isinstance(inner.offset, int)):
        return None
    offset = outer.offset * inner.extent + inner.offset
    extent = outer.extent * inner.extent
    if outer.size == 1 and outer.source_size == 1:
        return replace(inner, offset=offset, extent=extent)
    if inner.size == 1 and inner.source_size == 1 and isinstance(outer.stride, int):
        return replace(outer, offset=offset, stride=outer.stride * inner.extent, extent=extent)
    dense = inner.covers and outer.stride == 1 and not (inner.crops or outer.crops)
    if not dense or not isinstance(outer.size, int):
        return None
    size = outer.size * inner.extent
    return Placement(offset, 1, size, extent, size)


def _take_inner(remaining: list[Placement], extent: Size) -> Digits | None:
    """Remove the innermost digits whose extents multiply to `extent`."""
    taken: list[Placement] = []
    while True:
        have = product([placement.extent for placement in taken])
        if have == extent:
            return tuple(reversed(taken))
        if not remaining or not isinstance(extent, int) or not isinstance(have, int):
            return None
        inner = remaining[-1]
        wanted, rest = divmod(extent, have)
        if rest or not isinstance(inner.extent, int):
            return None
        if wanted % inner.extent == 0:
            taken.append(remaining.pop())
            continue
        cut = _cut(inner, wanted)
        if cut is None:
            return None
        remaining[-1] = cut[0]
        taken.append(cut[1])


def _cut(placement: Placement, inner: int) -> tuple[Placement, Placement] | None:
    """One digit as two, the inner one of `inner` places; undoes `_joined`."""
    offset, stride, size = placement.offset, placement.stride, placement.size
    extent = placement.extent
    if not (isinstance(offset, int) and isinstance(stride, int) and isinstance(size, int)):
        return None
    if not isinstance(extent, int) or extent % inner:
        return None
    outside = extent // inner
    if size == 1 or stride % inner == 0:
        point = Placement(offset % inner, 1, 1, inner, 1)
        outer_stride = 1 if size == 1 else stride // inner
        return (
            replace(placement, offset=offset // inner, stride=outer_stride, extent=outside),
            point,
        )
    if stride != 1 or offset % inner or size % inner or placement.crops:
        return None
    rows = size // inner
    return Placement(offset // inner, 1, rows, outside, rows), Placement.whole(inner)
