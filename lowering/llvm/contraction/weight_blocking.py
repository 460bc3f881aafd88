"""How the gradient of the weights is cut into items, blocks and tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.tiles import (
    LATENCY_CHAINS,
    SPREAD_COST,
    BroadcastTile,
    GroupTile,
)

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.target import Target

MAX_OUTER_ROWS = 14
"""Rows of a tile whose elements are neighbours, so that they share one address."""

BLOCK_BYTES = 192 * 1024
"""What the positions of a block read from A and C, which then stay in the second-level cache."""

PANEL_BYTES = 24 * 1024
"""A packed panel of the vector operand, which every tile of rows reads: first-level cache."""

MIN_ITEMS = 16
"""With fewer items than this, threads would wait for each other: positions are split."""

FEW_ITEMS = 8
"""With fewer items than this even after splits, operands are rather read more often: of three items
one of two threads does two."""

MIN_SPLIT_POSITIONS = 256
"""Fewer positions than this in a split do not pay for adding up the partial results."""

RESULT_BYTES = 384 * 1024
"""Results of an item, which stay in the second-level cache from block to block."""

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
    columns_are_depth: bool
    """Whether vectors run along the depth (elements of A), and rows along the columns of C."""
    rows: int
    """Rows of the result of one tap."""
    columns: int
    """Columns of the result of one tap, in vectors; those of all groups in a group tile."""
    block: int
    """Positions that are reduced at a time."""
    splits: int
    """Parts of the positions, each with its own partial result."""
    tap_parts: int
    """Parts of the taps, each an item."""
    panels: int
    """Panels of columns, the last one maybe narrower."""
    panel_parts: int
    """Parts of the panels, each an item."""
    padded_columns: int
    """Columns of a line of a partial result: whole vectors."""
    packs: bool
    """Whether vectors are packed into a panel first."""


def block_weights(spec: Contraction, lanes: Lanes) -> WeightBlocking:
    """Choose the cuts of `spec`, a contraction whose result is B."""
    (phase,) = spec.phases
    choice = _choose(
        _WeightShape(
            depth=spec.depth,
            columns=spec.columns,
            groups=spec.groups,
            fuses=spec.a.group_stride == spec.depth and spec.c.group_stride == spec.columns,
            strides=(spec.b.depth_stride, spec.b.column_stride),
            positions=phase.positions,
        ),
        lanes.count,
        lanes.cpu,
    )
    tile, groups = choice.tile, spec.groups
    rows, columns = spec.depth, spec.columns
    if choice.columns_are_depth:
        rows, columns = columns, rows
    together = 1
    if isinstance(tile, GroupTile):
        together, groups = groups, 1
        columns *= together
    panel_columns = tile.columns(lanes.count)
    panels = -(-columns // panel_columns)
    panel_lanes = tile.vectors * lanes.count
    by_cache = BLOCK_BYTES // ((spec.depth + spec.columns) * together * lanes.bytes)
    by_panel = PANEL_BYTES // (panel_lanes * lanes.bytes)
    block = max(32, min(by_cache, by_panel, phase.positions))
    cuts = _PartChoices(phase.taps, panels, rows, panel_lanes, lanes.bytes)
    tap_parts, panel_parts = cuts.best()
    most_splits = max(1, phase.positions // max(MIN_SPLIT_POSITIONS, block))
    splits = min(most_splits, -(-MIN_ITEMS // (panel_parts * tap_parts * groups)))
    if panel_parts * tap_parts * groups * splits < FEW_ITEMS:
        tap_parts, panel_parts = cuts.best(-(-MIN_ITEMS // (groups * splits)))
    last = tile.narrowed(columns - (panels - 1) * panel_columns, lanes.count)
    return WeightBlocking(
        tile=tile,
        groups=groups,
        columns_are_depth=choice.columns_are_depth,
        rows=rows,
        columns=columns,
        block=block,
        splits=splits,
        tap_parts=tap_parts,
        panels=panels,
        panel_parts=panel_parts,
        padded_columns=((panels - 1) * tile.vectors + last.vectors) * lanes.count,
        packs=isinstance(tile, BroadcastTile) and rows >= PACKED_TILES * tile.rows,
    )


@dataclass(frozen=True)
class _PartChoices:
    """Parts of the taps and of the panels: items of one group and one split."""

    taps: int
    panels: int
    rows: int
    columns: int
    """Of a panel."""
    size: int
    """Bytes of an element."""

    def best(self, least: int = 1) -> tuple[int, int]:
        """The parts with which operands are read as seldom as possible while an item's results stay
        in the cache: at least `least` items, or as many as there can be."""
        choices = [
            (tap_parts, panel_parts)
            for tap_parts in _even_parts(self.taps)
            for panel_parts in _even_parts(self.panels)
            if self._result_bytes(tap_parts, panel_parts) <= RESULT_BYTES
        ]
        enough = [parts for parts in choices if parts[0] * parts[1] >= least]
        return min(enough, key=self._reads, default=(self.taps, self.panels))

    def _result_bytes(self, tap_parts: int, panel_parts: int) -> int:
        matrices = -(-self.taps // tap_parts) * -(-self.panels // panel_parts)
        return matrices * self.rows * self.columns * self.size

    def _reads(self, parts: tuple[int, int]) -> int:
        return parts[0] * parts[1] * (self.rows + -(-self.panels // parts[1]) * self.columns)


def _even_parts(count: int) -> list[int]:
    """The numbers of parts that `count` things are worth cut into: fewer parts would be larger."""
    return sorted({-(-count // size) for size in range(1, count + 1)})


@dataclass(frozen=True)
class _WeightShape:
    """What the choice of a tile depends on."""

    depth: int
    columns: int
    groups: int
    fuses: bool
    """Whether the groups of A and those of C are neighbours."""
    strides: tuple[int, int]
    """Elements of B between depths and between columns."""
    positions: int


@dataclass(frozen=True)
class _Choice:
    cost: float
    """Cycles for one position of all groups."""
    tile: BroadcastTile | GroupTile
    columns_are_depth: bool = False


@cache
def _choose(shape: _WeightShape, lanes: int, cpu: Target) -> _Choice:
    """The tile with the fewest cycles, and whether its vectors run along the depth."""
    choices = [
        _outer(shape, BroadcastTile(rows, vectors), lanes, swapped)
        for swapped, extents in (
            (False, (shape.depth, shape.columns)),
            (True, (shape.columns, shape.depth)),
        )
        for rows in range(1, min(MAX_OUTER_ROWS, extents[0]) + 1)
        for vectors in range(1, -(-extents[1] // lanes) + 1)
        if BroadcastTile(rows, vectors).registers(cpu) <= cpu.vector_registers
    ]
    if shape.fuses and shape.groups > 1 and shape.columns <= lanes:
        most = -(-shape.groups // (lanes // shape.columns))
        choices += [
            _grouped(shape, GroupTile(1, vectors, shape.depth, shape.columns), lanes)
            for vectors in range(1, most + 1)
            if vectors * shape.depth + GROUP_TEMPORARIES <= cpu.vector_registers
        ]
    return min(choices, key=lambda choice: (choice.cost, -choice.tile.rows))


def _outer(shape: _WeightShape, tile: BroadcastTile, lanes: int, swapped: bool) -> _Choice:
    rows, columns, stride = shape.depth, shape.columns, shape.strides[1]
    if swapped:
        rows, columns, stride = columns, rows, shape.strides[0]
    whole, rest = divmod(columns, tile.columns(lanes))
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
        total += rows * columns * SCATTER_CYCLES / shape.positions
    return _Choice(total * shape.groups, tile, swapped)


def _grouped(shape: _WeightShape, tile: GroupTile, lanes: int) -> _Choice:
    panels = -(-shape.groups * shape.columns // tile.columns(lanes))
    spread = 0.0 if shape.depth == shape.columns == 1 else SPREAD_COST
    # Two addresses a position, two loads a vector, and what is done with them.
    products = tile.vectors * shape.depth * (1 / 2 + spread)
    cycles = 1 + tile.vectors + max(products, LATENCY_CHAINS / 2)
    scatter = shape.groups * shape.depth * shape.columns * SCATTER_CYCLES / shape.positions
    return _Choice(panels * cycles + scatter, tile)
