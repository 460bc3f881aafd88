"""How a gradient of weights on tile registers is cut into items and blocks.

Rows of the result are channels of C, its columns channels of A. Tiles are 32 by 32, and each step
reduces 32 output pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import POINTER_BYTES
from convir.lowering.kernels.host.code.tile_registers import COLUMNS, WORD_BYTES
from convir.lowering.kernels.host.code.tiles import KEPT_CHOICES, SLACK, BroadcastTile
from convir.lowering.kernels.host.implicit_gemm.blocking import MAX_TABLE_BYTES, MIN_ITEMS
from convir.lowering.kernels.host.wgrad.blocking import MIN_SPLIT_POSITIONS, SPLITS, WeightBlocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction

TILE = 32
"""Rows and columns of a tile."""
STEP = 32
"""Output pixels of a step."""
BLOCK = 512
"""Output pixels that are reduced between two turns of the sums through memory."""
OPERAND_BYTES = 192 * 1024
"""Of either operand in a block, for the registers: in the second-level cache."""
SUMS_BYTES = 512 * 1024
"""Results of an item, which wait in the second-level cache from block to block."""

STEP_CYCLES = 90.0
"""Of a step of a tile of two by two registers."""
TURN_CYCLES = 400.0
"""Of the sums of a tile that are read, and stored again, in each block."""
LEFT_CYCLES = 8.0
"""Of 64 bytes of C that are transposed."""
RIGHT_CYCLES = 3.0
"""Of 64 bytes of A that are joined to pairs of pixels."""
PART_CYCLES = 0.5
"""Of a partial sum: stored, and read again."""
ADDRESS_CYCLES = 1.0
"""Of a position and tap in a table."""


@dataclass(frozen=True)
class Cuts:
    """Parts of the work that are items of their own, and what an item holds."""

    splits: int
    """Parts of the output pixels."""
    taps: int
    """Taps of an item, at most."""
    rows: int
    """Tiles of rows of an item, at most."""
    columns: int
    """Panels of columns of an item, at most."""
    block: int
    """Output pixels of a block."""
    tap_parts: int
    row_parts: int
    column_parts: int
    cycles: float
    """Of all items of a group, about."""

    @property
    def items(self) -> int:
        """Of a group."""
        return self.splits * self.tap_parts * self.row_parts * self.column_parts

    @property
    def sums_pitch(self) -> int:
        """Bytes between two rows of sums: an odd number of lines."""
        return self.columns * TILE * WORD_BYTES + 64

    @property
    def matrix_bytes(self) -> int:
        """Of the sums of one tap of an item."""
        return self.rows * TILE * self.sums_pitch


def cut_weights(spec: Contraction) -> Cuts:
    """Choose the cuts of `spec`, a contraction whose result is B.

    Raises:
        ValueError: there are too many taps for a row table on the stack.
    """
    (phase,) = spec.phases
    room = MAX_TABLE_BYTES // POINTER_BYTES // phase.taps - SLACK
    if room < STEP:
        raise ValueError(f"{phase.taps} taps are too many for a row table")
    rows, columns = -(-spec.out_channels // TILE), -(-spec.in_channels // TILE)
    return _cut(phase.pixels, phase.taps, rows, columns, spec.groups, room)


@lru_cache(KEPT_CHOICES)
def _cut(pixels: int, taps: int, rows: int, columns: int, groups: int, room: int) -> Cuts:
    """The cuts that take the fewest cycles: at least `MIN_ITEMS` items, or as many as there can
    be."""
    choices = _choices(pixels, taps, rows, columns, room)
    return min(choices, key=lambda cuts: (-min(cuts.items * groups, MIN_ITEMS), cuts.cycles))


def _choices(pixels: int, taps: int, rows: int, columns: int, room: int) -> Iterator[Cuts]:
    most_splits = max(1, pixels // MIN_SPLIT_POSITIONS)
    for splits in sorted({min(most_splits, count) for count in SPLITS}):
        for of_taps in _even(taps):
            for of_rows in _even(rows):
                for of_columns in _even(columns):
                    matrix = of_rows * TILE * (of_columns * TILE * WORD_BYTES + 64)
                    least = of_taps == of_rows == of_columns == 1
                    if of_taps * matrix <= SUMS_BYTES or least:
                        yield _cuts(
                            (pixels, taps, rows, columns, room),
                            (splits, of_taps, of_rows, of_columns),
                        )


def _even(count: int) -> list[int]:
    """The sizes of parts into which `count` things are worth cut."""
    return sorted({-(-count // parts) for parts in range(1, count + 1)})


def _cuts(sizes: tuple[int, int, int, int, int], of: tuple[int, int, int, int]) -> Cuts:
    pixels, taps, rows, columns, room = sizes
    splits, of_taps, of_rows, of_columns = of
    widest = max(of_rows, of_columns) * TILE * 2
    block = min(BLOCK, OPERAND_BYTES // widest, room) // STEP * STEP
    longest = -(-pixels // splits)
    block = max(STEP, min(block, -(-longest // STEP) * STEP))
    tap_parts, row_parts = -(-taps // of_taps), -(-rows // of_rows)
    column_parts = -(-columns // of_columns)
    blocks = splits * -(-longest // block)
    steps = -(-pixels // STEP)
    tiles = taps * rows * columns
    cycles = tiles * (steps * STEP_CYCLES + blocks * TURN_CYCLES)
    cycles += tap_parts * column_parts * steps * rows * TILE * LEFT_CYCLES
    cycles += row_parts * taps * steps * columns * TILE * RIGHT_CYCLES
    cycles += tap_parts * row_parts * column_parts * taps * pixels * ADDRESS_CYCLES
    cycles += splits * tiles * TILE * TILE * PART_CYCLES
    return Cuts(
        splits=splits,
        taps=of_taps,
        rows=of_rows,
        columns=of_columns,
        block=block,
        tap_parts=tap_parts,
        row_parts=row_parts,
        column_parts=column_parts,
        cycles=cycles,
    )


def partial_blocking(spec: Contraction, cuts: Cuts) -> WeightBlocking:
    """The cuts of what adds up the partial results `[group][tap][row][column]`."""
    columns = -(-spec.in_channels // COLUMNS) * COLUMNS
    return WeightBlocking(
        tile=BroadcastTile(TILE, TILE // COLUMNS),
        groups=spec.groups,
        lanes_are_in_channels=True,
        rows=spec.out_channels,
        out_channels=spec.in_channels,
        block=cuts.block,
        splits=cuts.splits,
        tap_parts=cuts.tap_parts,
        panels=-(-spec.in_channels // TILE),
        panel_parts=cuts.column_parts,
        tiles=-(-spec.out_channels // TILE),
        row_parts=cuts.row_parts,
        padded_out_channels=columns,
        packs=True,
        direct=False,
    )
