"""How many taps tiles of rows meet: one that is padding for all rows of a tile is skipped."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.position_tables import pixels_of_tap
from convir.lowering.kernels.host.code.tiles import KEPT_CHOICES, MAX_ROWS

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Phase

MOST_PIXELS = 4096
"""So many are looked at, of as many images as they hold; padding is little of larger images."""

LOW_ROWS = 4
"""What tiles less high than this skip does not count: they read more weights than a cache
delivers."""


@lru_cache(KEPT_CHOICES)
def live_taps(phase: Phase) -> tuple[float, ...]:
    """The taps that a tile meets on average, for tiles of 1 to `MAX_ROWS` rows: all, below
    `LOW_ROWS`."""
    axes = _first_images(phase.axes)
    pixels = prod(axis.size for axis in axes)
    if pixels > MOST_PIXELS or phase.taps == 1:
        return (float(phase.taps),) * MAX_ROWS
    masks = [_mask(axes, taps) for taps in product(*(range(len(axis.tap_rows)) for axis in axes))]
    live = [float(phase.taps)] * (LOW_ROWS - 1)
    for rows in range(LOW_ROWS, MAX_ROWS + 1):
        firsts = sum(1 << first for first in range(0, pixels, rows))
        met = 0
        for mask in masks:
            some = mask
            for row in range(1, rows):
                some |= mask >> row
            met += (some & firsts).bit_count()
        live.append(met / -(-pixels // rows))
    return tuple(live)


def _first_images(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """`axes` without the images that are too many to look at."""
    batch, *others = axes
    room = MOST_PIXELS // prod(axis.size for axis in others)
    if len(batch.tap_rows) > 1 or not room:
        return axes
    return replace(batch, size=min(batch.size, room)), *others


def _mask(axes: tuple[Axis, ...], taps: tuple[int, ...]) -> int:
    """A bit for each position, the first one lowest: whether the tap reads inside of A there."""
    mask, inner = 1, 1
    for axis, tap in zip(reversed(axes), reversed(taps), strict=True):
        met = pixels_of_tap(axis, tap)
        mask = sum(mask << position * inner for position in met if position < axis.size)
        inner *= axis.size
    return mask
