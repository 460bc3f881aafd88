"""How a contraction is cut into items of work, blocks for the caches, and tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import POINTER_BYTES
from convir.lowering.kernels.host.code.tiles import (
    MAX_ROWS,
    SLACK,
    BroadcastTile,
    DotTile,
    GroupTile,
    Shape,
    Tile,
    choose,
)
from convir.lowering.kernels.host.implicit_gemm.live_taps import live_taps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

BLOCK_ROWS = 112
"""Rows of C in an item, at least: each panel of weights that comes from the second-level cache
serves them all, and their rows of A stay in that cache."""

BLOCK_CACHE = 2**20
"""Bytes of that cache; a larger one holds more rows in proportion."""

ITEM_SHARE = 0.25
"""Of the second-level cache: the rows of A and C of an item of more than `BLOCK_ROWS`."""

SCRATCH_BYTES = 256 * 1024
"""Accumulators of an item on their way to C, on the stack of the thread and in its cache."""

FEW_CHUNKS = 2
"""Where no more items than this read a panel, they find it in a cache only if they follow each
other."""

KEPT_SHARE = 0.625
"""Of the second-level cache: weights that stay in it until the next item reads them."""

MIN_ITEMS = 16
"""With fewer items than this, threads would wait for each other."""

PANEL_SHARE = 0.125
"""Of the second-level cache: the input channels of a panel of dot products, which are read from it
once per tile, beside the rows."""

BLOCK_SHARE = 2 / 3
"""Of the first-level cache: the taps and input channels of a panel that all tiles of an item read
before the next ones; from the second-level cache they come once per item."""

PRODUCTS = 160
"""About as many are added up in a register, one after the other, where sums are rounded as finely
as results are: n sums of random numbers are off by √(n/2) units in the last place. onnxruntime's
have 128 to 144."""

MOST = 1.5
"""Times as many of them as are wanted, at most, where the taps of a block are rounded up."""

MAX_TABLE_BYTES = 512 * 1024
"""Row tables live on the stack of the thread."""

_TABLE_ROWS = MAX_TABLE_BYTES // POINTER_BYTES
"""Of one tap."""


def _max_taps(tile_rows: int) -> int:
    """With more of them a row table has no room for an item of one tile, and the tile behind it."""
    return _TABLE_ROWS // (SLACK + 2 * tile_rows)


MAX_TAPS = _max_taps(1)
"""No tile has a row table for more."""
MAX_TAPS_OF_FULL_TILES = _max_taps(MAX_ROWS)
"""For more of them tiles are less high than they could be."""


@dataclass(frozen=True)
class Panels:
    """How the columns of a group are cut, and packed."""

    tile: Tile
    panels: int
    """Panels of columns, the last one maybe narrower."""
    panel_out_channels: int
    """Columns of a full panel."""
    groups: int
    """Groups that are products of their own; 1 if vectors hold several groups."""
    out_channels: int
    """Columns of such a group."""
    last_out_channels: int
    """Columns of the last panel."""
    last_tile: Tile
    """The tile of the last panel."""
    panel_elements: int
    """Elements of one tap of a packed panel."""
    last_elements: int
    """Elements of one tap of the last packed panel."""

    @property
    def tap_elements(self) -> int:
        """Elements of one tap of all packed panels."""
        return (self.panels - 1) * self.panel_elements + self.last_elements


@dataclass(frozen=True)
class Blocking(Panels):
    """The cuts of one contraction."""

    chunks: int
    """Pieces of every phase's output pixels; an item does one piece of each phase."""
    bounds: tuple[tuple[int, ...], ...]
    """For each phase the `chunks + 1` output pixels between pieces."""
    column_parts: int
    """Pieces of the columns, in whole panels."""
    tap_block: int
    """Taps that are reduced in registers before the next panel is read."""
    in_channel_block: int
    """Input channels of them."""
    table_width: int
    """Rows in a line of the row table, slack included."""
    items_per_group: int
    """Items of one group."""
    panels_first: bool
    """Whether adjacent items are pieces of the output pixels for the same panels; else panels for
    the same output pixels. Of items that belong together the former holds."""
    chunks_together: int
    """Adjacent pieces of the output pixels, from a multiple of this number on, that a thread which
    takes all of them computes as one: they are apart for further threads only."""
    parts_together: int
    """The same of pieces of the columns."""
    scratch_out_channels: int
    """Columns of an item's scratch memory; 0 if tiles store straight into C."""
    in_place: bool
    """Whether weights are read where they lie; `panel_elements` are those of packed ones."""


def shape_of(spec: Contraction) -> Shape:
    """What the choice of a tile depends on."""
    worked = tuple((phase.pixels, live_taps(phase)) for phase in spec.phases if phase.taps)
    shapes = worked or tuple((phase.pixels, (1.0,) * MAX_ROWS) for phase in spec.phases)
    fuses = spec.a.group_stride == spec.in_channels and (
        spec.c.group_stride == spec.out_channels * spec.c.stride
    )
    return Shape(shapes, spec.in_channels, spec.out_channels, spec.groups, fuses)


def block(spec: Contraction, lanes: Lanes) -> Blocking:
    """Choose the cuts of `spec`.

    Raises:
        ValueError: there are too many taps for a row table on the stack.
    """
    pixels = tuple(phase.pixels for phase in spec.phases)
    shape = shape_of(spec)
    taps = max(phase.taps for phase in spec.phases)
    if taps > MAX_TAPS:
        raise ValueError(f"{taps} taps are too many for a row table")
    most_rows = (_TABLE_ROWS // max(taps, 1) - SLACK) // 2
    tile = choose(shape, lanes.count, lanes.cpu, min(most_rows, MAX_ROWS))
    groups, out_channels = spec.groups, spec.out_channels
    if isinstance(tile, GroupTile):
        groups, out_channels = 1, groups * out_channels
    panel_out_channels = tile.out_channels(lanes.count)
    panels = -(-out_channels // panel_out_channels)
    most = max(pixels)
    rows = min(_item_rows(spec, lanes), _TABLE_ROWS // max(taps, 1) - SLACK - tile.rows)
    chunks = -(-most // rows)
    direct = spec.c.type == spec.element and spec.c.stride == 1
    parts = 1
    if not direct:
        line_bytes = (rows + tile.rows + SLACK) * panel_out_channels * lanes.bytes
        parts = -(-panels // max(1, SCRATCH_BYTES // line_bytes))
    weights = taps * spec.in_channels * out_channels * lanes.bytes
    kept = int(KEPT_SHARE * lanes.cpu.l2_bytes)
    panels_first = 1 < chunks <= FEW_CHUNKS and weights > kept
    if panels_first:
        parts = max(parts, min(panels, -(-weights // kept)))
    parts_together = chunks_together = 1
    if chunks * groups * parts < MIN_ITEMS:
        parts_together = min(panels // parts, -(-MIN_ITEMS // (chunks * groups * parts)))
        parts *= parts_together
    if chunks * groups * parts < MIN_ITEMS:
        worth = -(-most // (MIN_TILES_PER_ITEM * tile.rows))
        chunks_together = max(1, min(-(-MIN_ITEMS // (chunks * groups * parts)), worth // chunks))
        chunks *= chunks_together
    bounds = tuple(bounds_of(count, chunks, tile.rows) for count in pixels)
    longest = max(longest_of(line, chunks_together) for line in bounds)
    width = -(-longest // tile.rows) * tile.rows + SLACK
    last_out_channels = out_channels - (panels - 1) * panel_out_channels
    last_tile = tile.narrowed(last_out_channels, lanes.count)
    panel_elements = tile.panel_elements(spec.in_channels, lanes.count)
    scratch = 0 if direct else -(-panels * parts_together // parts) * panel_out_channels
    tap_block, in_channel_block = _blocks(spec, tile, taps, lanes)
    return Blocking(
        tile=tile,
        chunks=chunks,
        bounds=bounds,
        column_parts=parts,
        panels=panels,
        panel_out_channels=panel_out_channels,
        tap_block=tap_block,
        in_channel_block=in_channel_block,
        table_width=width,
        items_per_group=chunks * parts,
        panels_first=panels_first,
        chunks_together=chunks_together,
        parts_together=parts_together,
        groups=groups,
        out_channels=out_channels,
        scratch_out_channels=scratch,
        last_tile=last_tile,
        last_out_channels=last_out_channels,
        panel_elements=panel_elements,
        last_elements=last_tile.panel_elements(spec.in_channels, lanes.count),
        in_place=isinstance(tile, BroadcastTile) and reads_in_place(spec, lanes.count, lanes.bytes),
    )


def _item_rows(spec: Contraction, lanes: Lanes) -> int:
    """Rows of C in an item, at most."""
    l2_bytes = lanes.cpu.l2_bytes
    row_bytes = (spec.in_channels + spec.out_channels) * lanes.bytes
    fitting = min(int(ITEM_SHARE * l2_bytes) // row_bytes, BLOCK_ROWS * l2_bytes // BLOCK_CACHE)
    return max(BLOCK_ROWS, fitting)


def _blocks(spec: Contraction, tile: Tile, taps: int, lanes: Lanes) -> tuple[int, int]:
    """The taps and the input channels that tiles reduce before they go on to the next panel."""
    channels = spec.in_channels
    if isinstance(tile, GroupTile):
        return taps, channels
    if isinstance(tile, DotTile):
        panel_bytes = taps * tile.panel_elements(channels, lanes.count) * lanes.bytes
        blocks = max(1, round(panel_bytes / (PANEL_SHARE * lanes.cpu.l2_bytes)))
        return taps, -(-channels // blocks // lanes.count) * lanes.count
    line_bytes = tile.out_channels(lanes.count) * lanes.bytes
    products = int(BLOCK_SHARE * lanes.cpu.l1_bytes) // line_bytes
    if max(phase.pixels for phase in spec.phases) <= tile.rows:
        products = taps * channels  # No second tile reads them from the cache.
    rounds_finely = spec.element == "f32" and spec.a.type == "f32"
    if rounds_finely:
        products = min(products, PRODUCTS)
    in_channels = _part(channels, products)
    of_block = _part(taps, products / in_channels)
    if rounds_finely and of_block * in_channels > MOST * PRODUCTS:
        of_block = max(1, PRODUCTS // in_channels)
    return of_block, in_channels


def _part(whole: int, wanted: float) -> int:
    """About `wanted`, so that parts of `whole` are equally long but for the last one."""
    return -(-whole // max(1, min(whole, round(whole / wanted))))


def longest_of(bounds: Sequence[int], together: int) -> int:
    """Output pixels of the longest of the pieces between `bounds`, so many of them together."""
    last = len(bounds) - 1
    return max(
        bounds[min(first + together, last)] - bounds[first] for first in range(0, last, together)
    )


def with_pieces(cuts: Blocking, bounds: tuple[int, ...]) -> Blocking:
    """`cuts` of a contraction of one phase with other items: all columns of each of the pieces
    between the output pixels `bounds`."""
    longest = max(b - a for a, b in pairwise(bounds))
    width = -(-longest // cuts.tile.rows) * cuts.tile.rows + SLACK
    return replace(
        cuts,
        chunks=len(bounds) - 1,
        bounds=(bounds,),
        column_parts=1,
        table_width=width,
        items_per_group=len(bounds) - 1,
        panels_first=False,
        chunks_together=1,
        parts_together=1,
        scratch_out_channels=cuts.scratch_out_channels and cuts.panels * cuts.panel_out_channels,
    )


IN_PLACE_BYTES = 64 * 1024
"""Larger matrices of weights are packed: lines that lie apart share few sets of the caches."""


IN_PLACE_ROWS = 64
"""So few rows take less time with lines that lie apart than it takes to pack the matrix of every
group, which is read once."""


def reads_in_place(spec: Contraction, lanes: int, element_bytes: int) -> bool:
    """Whether tiles that broadcast can read the weights unpacked: one tap, columns in whole vectors
    of `lanes` elements, and little of it or little to do with it."""
    b = spec.b
    stored = b.type == spec.element and b.out_channel_stride == 1
    small = spec.in_channels * b.in_channel_stride * element_bytes <= IN_PLACE_BYTES
    small |= spec.shares_rows and spec.phases[0].pixels <= IN_PLACE_ROWS
    begins = [weight for axis in spec.phases[0].axes for weight in axis.tap_weights]
    whole = spec.out_channels % lanes == 0
    return stored and small and whole and spec.taps == 1 and not any(begins)


MIN_TILES_PER_ITEM = 4
"""An item of fewer tiles than this does not pay for its row table."""


def bounds_of(count: int, chunks: int, rows: int) -> tuple[int, ...]:
    """The `chunks + 1` output pixels between pieces of `count`, each of whole tiles."""
    tiles = -(-count // rows)
    return tuple(min(count, tiles * chunk // chunks * rows) for chunk in range(chunks + 1))
