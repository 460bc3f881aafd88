"""How the gradient of the weights is cut into items, blocks and tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.tiles import BroadcastTile

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.spec import HostContraction
    from convir.lowering.llvm.target import Target

MAX_OUTER_ROWS = 14
"""Rows of a tile whose elements are neighbours, so that they share one address."""

BLOCK_BYTES = 256 * 1024
"""What the positions of a block read from A and C, which then stay in the second-level cache."""

PANEL_BYTES = 24 * 1024
"""A packed panel of the vector operand, which every tile of rows reads: first-level cache."""

MIN_ITEMS = 16
"""With fewer items than this, threads would wait for each other: positions are split."""

MIN_SPLIT_POSITIONS = 256
"""Fewer positions than this in a split do not pay for adding up the partial results."""

RESULT_BYTES = 256 * 1024
"""An item whose results are smaller than this does all taps of a block of positions."""

PACK_CYCLES = 1.0
"""Cycles to copy one vector into a panel."""

PACKED_TILES = 2
"""A panel that serves fewer tiles of rows than this is read from where it lies."""

SCATTER_CYCLES = 4.0
"""Cycles to store one result whose neighbours lie elsewhere."""


@dataclass(frozen=True)
class WeightBlocking:
    """The cuts of one gradient of weights."""

    tile: BroadcastTile
    columns_are_depth: bool
    """Whether vectors run along the depth (elements of A), and rows along the columns of C."""
    rows: int
    """Rows of the result of one tap."""
    columns: int
    """Columns of the result of one tap, in vectors."""
    block: int
    """Positions that are reduced at a time."""
    splits: int
    """Parts of the positions, each with its own partial result."""
    tap_parts: int
    """Parts of the taps, each an item."""
    panels: int
    """Panels of columns, the last one maybe narrower."""
    padded_columns: int
    """Columns of a line of a partial result: whole vectors."""
    packs: bool
    """Whether vectors are packed into a panel first."""


def block_weights(spec: HostContraction, lanes: Lanes) -> WeightBlocking:
    """Choose the cuts of `spec`, a contraction whose result is B."""
    (phase,) = spec.phases
    strides = (spec.b.depth_stride, spec.b.column_stride)
    tile, swapped = _choose(
        spec.depth, spec.columns, strides, phase.positions, lanes.count, lanes.cpu
    )
    rows, columns = spec.depth, spec.columns
    if swapped:
        rows, columns = columns, rows
    panel_columns = tile.columns(lanes.count)
    panels = -(-columns // panel_columns)
    by_cache = BLOCK_BYTES // ((spec.depth + spec.columns) * lanes.bytes)
    by_panel = PANEL_BYTES // (panel_columns * lanes.bytes)
    block = max(32, min(by_cache, by_panel, phase.positions))
    result_bytes = phase.taps * rows * panel_columns * lanes.bytes
    tap_parts = 1 if result_bytes <= RESULT_BYTES else phase.taps
    items = panels * tap_parts * spec.groups
    most_splits = max(1, phase.positions // max(MIN_SPLIT_POSITIONS, block))
    return WeightBlocking(
        tile=tile,
        columns_are_depth=swapped,
        rows=rows,
        columns=columns,
        block=block,
        splits=min(most_splits, -(-MIN_ITEMS // items)),
        tap_parts=tap_parts,
        panels=panels,
        padded_columns=-(-columns // lanes.count) * lanes.count,
        packs=rows >= PACKED_TILES * tile.rows,
    )


@cache
def _choose(
    depth: int,
    columns: int,
    strides: tuple[int, int],
    positions: int,
    lanes: int,
    cpu: Target,
) -> tuple[BroadcastTile, bool]:
    """The tile with the fewest cycles a position, and whether its vectors run along the depth.

    `strides` are those of B between depths and between columns.
    """

    def cost(tile: BroadcastTile, rows: int, columns: int, stride: int) -> float:
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
            total += rows * columns * SCATTER_CYCLES / positions
        return total

    choices = [
        (cost(tile, *extents, stride), -tile.rows, tile, swapped)
        for swapped, extents, stride in (
            (False, (depth, columns), strides[1]),
            (True, (columns, depth), strides[0]),
        )
        for rows in range(1, min(MAX_OUTER_ROWS, extents[0]) + 1)
        for vectors in range(1, -(-extents[1] // lanes) + 1)
        if (tile := BroadcastTile(rows, vectors)).registers(cpu) <= cpu.vector_registers
    ]
    _, _, tile, swapped = min(choices, key=lambda choice: choice[:2])
    return tile, swapped
