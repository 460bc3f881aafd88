"""How a contraction on tile registers is cut into items of work, blocks for the caches, and tiles.

A tile is 32 rows of C and 32 columns: four registers of sums, which two registers of rows of A and
two of weights are loaded for in each step. A step reduces 64 bytes of every row of A.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import POINTER_BYTES
from convir.lowering.kernels.host.code.tile_registers import ROW_BYTES, ROWS, WORD_BYTES
from convir.lowering.kernels.host.code.tiles import SLACK, BroadcastTile
from convir.lowering.kernels.host.implicit_gemm.blocking import (
    MAX_TABLE_BYTES,
    MIN_ITEMS,
    SCRATCH_BYTES,
    Blocking,
    bounds_of,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction

TILE_ROWS = 32
TILE_COLUMNS = 32
VECTORS = 2
"""Vectors of 16 columns in a tile."""
BLOCK_ROWS = 128
"""Rows of C in an item: each panel of weights serves them all."""

BLOCK_STEPS = 20
"""Steps of a block of the reduction at most: its weights for one panel, 2 KiB a step, stay in the
first-level cache of 48 KiB while all rows of an item are multiplied with them."""


@dataclass(frozen=True)
class RowBlocks:
    """How rows of A become rows of registers.

    Where the channels of a tap are whole rows of registers, a block of the reduction is some taps
    or a part of one. Elsewhere all taps of a row follow each other, and are one block.
    """

    whole: bool
    """Whether channels of a tap are whole rows of registers."""
    tap_bytes: int
    """Of a row's channels."""
    tap_steps: int
    """Steps of a tap; 0 unless they are whole."""
    taps: int
    """Taps of a block; 1 where a block is a part of a tap."""
    parts: int
    """Parts of a tap that are blocks of their own; 1 where a block is whole taps."""
    steps: int
    """Steps of a block, at most."""
    pitch: int
    """Bytes between two copied rows that hold all their taps; 0 where channels are whole."""

    @property
    def part_steps(self) -> int:
        """Steps of a part of a tap, the last one maybe shorter."""
        return -(-self.tap_steps // self.parts)

    @property
    def register_bytes(self) -> int:
        """Bytes of the copied rows of a register."""
        return ROWS * (self.taps * self.tap_bytes if self.whole else self.pitch)


def row_blocks(spec: Contraction) -> RowBlocks:
    """The blocks of the reduction of `spec`."""
    taps = max(1, *(phase.taps for phase in spec.phases))
    tap_bytes = spec.in_channels * STORAGE_BYTES[spec.a.type]
    if tap_bytes % ROW_BYTES:
        steps = -(-taps * tap_bytes // ROW_BYTES)
        # A line behind the last step takes what a store of whole lines writes too much, and rows
        # that are an odd number of lines apart share no sets of the first cache.
        pitch = (steps + 1 | 1) * ROW_BYTES
        return RowBlocks(False, tap_bytes, 0, taps, 1, steps, pitch)
    tap_steps = tap_bytes // ROW_BYTES
    if tap_steps > BLOCK_STEPS:
        parts = -(-tap_steps // BLOCK_STEPS)
        return RowBlocks(True, tap_bytes, tap_steps, 1, parts, -(-tap_steps // parts), 0)
    blocks = -(-taps // (BLOCK_STEPS // tap_steps))
    together = -(-taps // blocks)
    return RowBlocks(True, tap_bytes, tap_steps, together, 1, together * tap_steps, 0)


def steps_of(spec: Contraction) -> tuple[int, ...]:
    """Steps of the whole reduction in each phase."""
    blocks = row_blocks(spec)
    return tuple(-(-phase.taps * blocks.tap_bytes // ROW_BYTES) for phase in spec.phases)


def block_tiles(spec: Contraction, words: int) -> Blocking:
    """Choose the cuts of `spec`.

    Args:
        spec: the contraction.
        words: input channels of a packed panel of weights, each two bf16 or four bytes.

    Raises:
        ValueError: there are too many taps for a row table on the stack.
    """
    tile = BroadcastTile(TILE_ROWS, VECTORS)
    pixels = tuple(phase.pixels for phase in spec.phases)
    taps = max(1, *(phase.taps for phase in spec.phases))
    room = MAX_TABLE_BYTES // POINTER_BYTES // taps - SLACK
    if room < TILE_ROWS:
        raise ValueError(f"{taps} taps are too many for a row table")
    blocks = row_blocks(spec)
    rows = min(BLOCK_ROWS, room // TILE_ROWS * TILE_ROWS)
    rows = min(rows, max(1, SCRATCH_BYTES // blocks.register_bytes) * ROWS // TILE_ROWS * TILE_ROWS)
    most = max(pixels)
    chunks = -(-most // rows)
    panels = -(-spec.out_channels // TILE_COLUMNS)
    line_bytes = rows * TILE_COLUMNS * WORD_BYTES
    parts = -(-panels // max(1, SCRATCH_BYTES // line_bytes))
    if chunks * spec.groups * parts < MIN_ITEMS:
        wanted = -(-MIN_ITEMS // (spec.groups * parts))
        chunks = max(chunks, min(wanted, -(-most // (2 * TILE_ROWS))))
    if chunks * spec.groups * parts < MIN_ITEMS:
        parts = min(panels, -(-MIN_ITEMS // (chunks * spec.groups)))
    bounds = tuple(bounds_of(count, chunks, TILE_ROWS) for count in pixels)
    longest = max(b - a for line in bounds for a, b in pairwise(line))
    last_columns = spec.out_channels - (panels - 1) * TILE_COLUMNS
    last = tile.narrowed(last_columns, TILE_COLUMNS // VECTORS)
    lanes = TILE_COLUMNS // VECTORS
    return Blocking(
        tile=tile,
        chunks=chunks,
        bounds=bounds,
        column_parts=parts,
        panels=panels,
        panel_out_channels=TILE_COLUMNS,
        tap_block=taps,
        in_channel_block=words,
        table_width=-(-longest // TILE_ROWS) * TILE_ROWS + SLACK,
        items_per_group=chunks * parts,
        panels_first=False,
        chunks_together=1,
        parts_together=1,
        groups=spec.groups,
        out_channels=spec.out_channels,
        scratch_out_channels=-(-panels // parts) * TILE_COLUMNS,
        last_out_channels=last_columns,
        last_tile=last,
        panel_elements=tile.panel_elements(words, lanes),
        last_elements=last.panel_elements(words, lanes),
        in_place=False,
    )
