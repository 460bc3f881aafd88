"""How the gradient of the weights is cut into items, blocks and tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import Channels
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.elements.pairs import takes_pairs_of_pixels
from convir.lowering.kernels.host.code.tiles import (
    KEPT_CHOICES,
    LATENCY_CHAINS,
    SPREAD_COST,
    BroadcastTile,
    GroupTile,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType
    from convir.lowering.kernels.host.target import CpuTarget

MAX_OUTER_ROWS = 14
"""Rows of a tile whose elements are contiguous, so that they share one address."""

BLOCK_BYTES = 192 * 1024
"""What the output pixels of a block read from A and C, which then stay in the second-level
cache."""

PANEL_BYTES = 24 * 1024
"""A packed panel of the vector operand, which every tile of rows reads: first-level cache."""

MIN_ITEMS = 16
"""With fewer items than this, threads would wait for each other."""

MIN_SPLIT_POSITIONS = 256
"""Fewer output pixels than this in a split do not pay for adding up the partial results."""

RESULT_BYTES = 256 * 1024
"""Results of an item, which wait in the second-level cache from block to block."""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Into so many parts output pixels may be split."""

STORED = 2
"""What is stored is read into the cache first."""

PACKED = 2.0
"""Of what an element costs that is read from the third-level cache, packing one costs so much."""

MIN_TILES = 8
"""Fewer tiles of rows than this in an item do not pay for packing their vectors."""

MIN_BLOCK = 32
"""Output pixels that a block has at least."""

PACK_CYCLES = 1.0
"""Cycles to copy one vector into a panel."""

GROUP_TEMPORARIES = 4
"""Vector registers that a group tile needs beside its accumulators."""

PACKED_TILES = 2
"""A panel that serves fewer tiles of rows than this is read from where it lies."""

SCATTER_CYCLES = 4.0
"""Cycles to store one result whose neighbours lie elsewhere."""


@dataclass(frozen=True)
class WeightBlocking:
    """The cuts of one gradient of weights."""

    tile: BroadcastTile | GroupTile
    """What the accumulators hold; a group tile has one row for each depth of a group."""
    groups: int
    """Groups that are products of their own; 1 if vectors hold several groups."""
    lanes_are_in_channels: bool
    """Whether vectors run along the depth (elements of A), and rows along the columns of C."""
    rows: int
    """Rows of the result of one tap."""
    out_channels: int
    """Columns of the result of one tap, in vectors; those of all groups in a group tile."""
    block: int
    """Output pixels that are reduced at a time."""
    splits: int
    """Parts of the output pixels, each with its own partial result."""
    tap_parts: int
    """Parts of the taps, each an item."""
    panels: int
    """Panels of columns, the last one maybe narrower."""
    panel_parts: int
    """Parts of the panels, each an item."""
    tiles: int
    """Tiles of rows, the last one maybe less high; 1 for a group tile."""
    row_parts: int
    """Parts of the tiles of rows, each an item."""
    padded_out_channels: int
    """Columns of a line of a partial result: whole vectors."""
    packs: bool
    """Whether vectors are packed into a panel first."""
    direct: bool
    """Whether items store to B itself: there are no partial results."""


def block_weights(spec: Contraction, lanes: Lanes) -> WeightBlocking:
    """Choose the cuts of `spec`, a contraction whose result is B."""
    (phase,) = spec.phases
    choice = _chosen(spec, lanes)
    tile, groups = choice.tile, spec.groups
    rows, out_channels = spec.in_channels, spec.out_channels
    if choice.lanes_are_in_channels:
        rows, out_channels = out_channels, rows
    together = 1
    if isinstance(tile, GroupTile):
        together, groups = groups, 1
        out_channels *= together
    panel_out_channels = tile.out_channels(lanes.count)
    panels = -(-out_channels // panel_out_channels)
    panel_lanes = tile.vectors * lanes.count
    tiles = 1 if isinstance(tile, GroupTile) else -(-rows // tile.rows)
    operand_bytes = lanes.bytes // 2 if lanes.pairs else lanes.bytes
    by_panel = PANEL_BYTES // (panel_lanes * operand_bytes)
    last = tile.narrowed(out_channels - (panels - 1) * panel_out_channels, lanes.count)
    stores = isinstance(tile, BroadcastTile) and _stores_directly(spec, lanes, out_channels, choice)
    cuts = _PartChoices(
        pixels=phase.pixels,
        taps=phase.taps,
        groups=groups,
        tiles=tiles,
        panels=panels,
        height=-(-rows // tiles) if tiles == 1 else tile.rows,
        width=panel_lanes,
        size=lanes.bytes,
        direct=stores,
    )
    parts = cuts.best(max(1, phase.pixels // max(MIN_SPLIT_POSITIONS, by_panel)))
    item_rows = min(rows, -(-tiles // parts.rows) * cuts.height)
    item_columns = min(out_channels, -(-panels // parts.panels) * panel_out_channels)
    if together > 1:  # rows and columns of all groups
        item_rows = spec.in_channels * together
    by_cache = BLOCK_BYTES // ((item_rows + item_columns) * operand_bytes)
    longest = -(-phase.pixels // parts.splits)
    block = max(MIN_BLOCK, min(by_cache, by_panel, longest))
    return WeightBlocking(
        tile=tile,
        groups=groups,
        lanes_are_in_channels=choice.lanes_are_in_channels,
        rows=rows,
        out_channels=out_channels,
        block=-(-longest // -(-longest // block)),
        splits=parts.splits,
        tap_parts=parts.taps,
        panels=panels,
        panel_parts=parts.panels,
        tiles=tiles,
        row_parts=parts.rows,
        padded_out_channels=((panels - 1) * tile.vectors + last.vectors) * lanes.count,
        packs=isinstance(tile, BroadcastTile)
        and (lanes.pairs or item_rows >= PACKED_TILES * tile.rows),
        direct=stores and parts.splits == 1,
    )


def tile_cycles(spec: Contraction, lanes: Lanes) -> float:
    """Cycles of the tiles of one position and tap, of all groups."""
    return _chosen(spec, lanes).cost / (2 if lanes.pairs else 1)


def lanes_of(spec: Contraction, cpu: CpuTarget) -> Lanes:
    """What `cpu` multiplies for `spec`: pairs of output pixels, unless vectors hold several groups
    of operands or of their copies, or there are too few rows to pay for joining pairs. Where they
    hold several groups, 16-bit floats are widened as they are read."""
    lanes = Lanes(spec.element, cpu)
    types = {spec.a.type, spec.c.type}
    if spec.element != "f32" or types not in ({"bf16"}, {"f16"}):
        return lanes
    a, c = (Channels(spec.a.type, 1, n) for n in (spec.in_channels, spec.out_channels))
    choice = _chosen(replace(spec, a=a, c=c), lanes)
    if isinstance(choice.tile, GroupTile):
        widens = spec.a.type == "bf16" or cpu.f16_in_hardware
        return replace(lanes, halves=spec.a.type if widens else None)
    if not takes_pairs_of_pixels(spec, cpu):
        return lanes
    rows = spec.out_channels if choice.lanes_are_in_channels else spec.in_channels
    return replace(lanes, pairs=rows >= PACKED_TILES * choice.tile.rows)


def copied_type(spec: Contraction, lanes: Lanes) -> StorageType:
    """The type in which operands are read, and copied if need be."""
    return spec.a.type if lanes.pairs or lanes.halves is not None else spec.element


def _chosen(spec: Contraction, lanes: Lanes) -> _Choice:
    (phase,) = spec.phases
    shape = _WeightShape(
        in_channels=spec.in_channels,
        out_channels=spec.out_channels,
        groups=spec.groups,
        fuses=spec.a.group_stride == spec.in_channels and spec.c.group_stride == spec.out_channels,
        strides=(spec.b.in_channel_stride, spec.b.out_channel_stride),
        pixels=phase.pixels,
    )
    return _choose(shape, lanes.count, lanes.cpu)


def _stores_directly(spec: Contraction, lanes: Lanes, out_channels: int, choice: _Choice) -> bool:
    """Whether a tile's vectors can be stored where B has them."""
    stride = spec.b.in_channel_stride if choice.lanes_are_in_channels else spec.b.out_channel_stride
    whole = out_channels % lanes.count == 0
    return whole and stride == 1 and spec.b.type == spec.element and not spec.accumulate


@dataclass(frozen=True)
class _Parts:
    """How many parts there are of the output pixels, the taps, the tiles of rows, and the
    panels."""

    splits: int
    taps: int
    rows: int
    panels: int


@dataclass(frozen=True)
class _PartChoices:
    """The parts that items can be."""

    pixels: int
    taps: int
    groups: int
    tiles: int
    panels: int
    height: int
    """Rows of a tile."""
    width: int
    """Columns of a panel."""
    size: int
    """Bytes of an element."""
    direct: bool
    """Whether items can store to B if the output pixels are one part."""

    def best(self, most_splits: int) -> _Parts:
        """The parts that move the fewest bytes past the second-level cache, where an item's
        results wait in it: at least `MIN_ITEMS` items, or as many as there can be."""
        choices = [
            parts
            for splits in sorted({min(most_splits, splits) for splits in SPLITS})
            for parts in self._parts_of_split(splits)
        ]
        return min(
            choices, key=lambda parts: (-min(self._items(parts), MIN_ITEMS), self._moved(parts))
        )

    def _parts_of_split(self, splits: int) -> list[_Parts]:
        """For each way to part taps and panels, as few parts of the rows as will do."""
        found: list[_Parts] = []
        for taps in _even_parts(self.taps):
            for panels in _even_parts(self.panels):
                matrices = -(-self.taps // taps) * -(-self.panels // panels)
                room = RESULT_BYTES // (matrices * self.height * self.width * self.size)
                wanted = -(-MIN_ITEMS // (self.groups * splits * taps * panels))
                least = -(-self.tiles // max(1, room))
                rows = max(least, min(wanted, self.tiles // MIN_TILES))
                if room or (taps, panels) == (self.taps, self.panels):
                    found.append(_Parts(splits, taps, rows, panels))
        return found

    def _items(self, parts: _Parts) -> int:
        return self.groups * parts.splits * parts.taps * parts.rows * parts.panels

    def _moved(self, parts: _Parts) -> float:
        """Elements of one group that items read and write, and pack."""
        rows, out_channels = self.tiles * self.height, self.panels * self.width
        read = self.pixels * parts.taps * (parts.panels * rows + parts.rows * out_channels)
        read += PACKED * self.pixels * self.taps * parts.rows * out_channels
        stored = self.taps * rows * out_channels * STORED
        if self.direct and parts.splits == 1:
            return read + stored
        # Each part is stored, read again, and B stored.
        return read + stored * (parts.splits + 1) + stored * parts.splits / STORED


def _even_parts(count: int) -> list[int]:
    """The numbers of parts that `count` things are worth cut into: fewer parts would be larger."""
    return sorted({-(-count // size) for size in range(1, count + 1)})


@dataclass(frozen=True)
class _WeightShape:
    """What the choice of a tile depends on."""

    in_channels: int
    out_channels: int
    groups: int
    fuses: bool
    """Whether the groups of A and those of C are contiguous."""
    strides: tuple[int, int]
    """Elements of B between input channels and between columns."""
    pixels: int


@dataclass(frozen=True)
class _Choice:
    cost: float
    """Cycles for one position of all groups."""
    tile: BroadcastTile | GroupTile
    lanes_are_in_channels: bool = False


@lru_cache(KEPT_CHOICES)
def _choose(shape: _WeightShape, lanes: int, cpu: CpuTarget) -> _Choice:
    """The tile with the fewest cycles, and whether its vectors run along the depth."""
    choices = [
        _outer(shape, BroadcastTile(rows, vectors), lanes, swapped)
        for swapped, extents in (
            (False, (shape.in_channels, shape.out_channels)),
            (True, (shape.out_channels, shape.in_channels)),
        )
        for rows in range(1, min(MAX_OUTER_ROWS, extents[0]) + 1)
        for vectors in range(1, -(-extents[1] // lanes) + 1)
        if BroadcastTile(rows, vectors).registers(cpu) <= cpu.vector_registers
    ]
    if shape.fuses and shape.groups > 1 and shape.out_channels <= lanes:
        most = -(-shape.groups // (lanes // shape.out_channels))
        choices += [
            _grouped(shape, GroupTile(1, vectors, shape.in_channels, shape.out_channels), lanes)
            for vectors in range(1, most + 1)
            if vectors * shape.in_channels + GROUP_TEMPORARIES <= cpu.vector_registers
        ]
    return min(choices, key=lambda choice: (choice.cost, -choice.tile.rows))


def _outer(shape: _WeightShape, tile: BroadcastTile, lanes: int, swapped: bool) -> _Choice:
    rows, out_channels, stride = shape.in_channels, shape.out_channels, shape.strides[1]
    if swapped:
        rows, out_channels, stride = out_channels, rows, shape.strides[0]
    whole, rest = divmod(out_channels, tile.out_channels(lanes))
    widths = [tile.vectors] * whole
    if rest:
        widths.append(tile.narrowed(rest, lanes).vectors)
    high, low = divmod(rows, tile.rows)
    total = 0.0
    for vectors in widths:
        total += high * BroadcastTile(tile.rows, vectors).cycles(1, 1, lanes)
        total += BroadcastTile(low, vectors).cycles(1, 1, lanes) if low else 0
        total += PACK_CYCLES * vectors
    if stride != 1:
        total += rows * out_channels * SCATTER_CYCLES / shape.pixels
    return _Choice(total * shape.groups, tile, swapped)


def _grouped(shape: _WeightShape, tile: GroupTile, lanes: int) -> _Choice:
    panels = -(-shape.groups * shape.out_channels // tile.out_channels(lanes))
    spread = 0.0 if shape.in_channels == shape.out_channels == 1 else SPREAD_COST
    # Two addresses a position, two loads a vector, and what is done with them.
    products = tile.vectors * shape.in_channels * (1 / 2 + spread)
    cycles = 1 + tile.vectors + max(products, LATENCY_CHAINS / 2)
    scatter = shape.groups * shape.in_channels * shape.out_channels * SCATTER_CYCLES / shape.pixels
    return _Choice(panels * cycles + scatter, tile)
