"""The shared memory of `RowRing`: the same rule as in `row_ring.cuh`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.cuda.direct.problem import DirectProblem

ELEMENT_BYTES = 2
BANK_SKEW = 16
"""Bytes between pixels, and between rows of weights."""
BANKS = 128
"""Bytes of all banks together."""
BARRIER_BYTES = 8


def ring_bytes(
    problem: DirectProblem,
    channels: int,
    tile_cols: int,
    unroll_rows: int,
    stages: int,
    step_positions: int,
) -> int:
    """Bytes of the rows that a block holds at once.

    Args:
        problem: sizes and windows.
        channels: channels of A in a pixel of the ring.
        tile_cols: output columns of a list row.
        unroll_rows: output rows of a position.
        stages: steps whose rows are under way while one is computed.
        step_positions: output positions of a step.
    """
    rows, cols = problem.rows, problem.cols
    base_rows = -(-problem.row_count // unroll_rows)
    row_step = unroll_rows * rows.step
    window_rows = (unroll_rows - 1) * rows.step + rows.window
    pixels = (tile_cols - 1) * cols.step + cols.window
    span = ((stages + 1) * step_positions + tile_cols - 2) // tile_cols
    crossings = -(-span // base_rows)
    slots = span * row_step + window_rows + crossings * max(0, window_rows - row_step)
    return slots * _row_bytes(pixels, channels, tile_cols * cols.step, row_step)


def barrier_bytes(stages: int, loaders: int) -> int:
    """Bytes of the barriers between warps that copy and warps that compute."""
    return 2 * (stages + 1) * BARRIER_BYTES if loaders > 0 else 0


def _row_bytes(pixels: int, channels: int, tile_pixels: int, row_step: int) -> int:
    """Bytes between rows: padded so that a tile which goes on in the next row meets other banks."""
    pixel = channels * ELEMENT_BYTES + BANK_SKEW
    pads = (
        pad
        for pad in range(0, BANKS, BANK_SKEW)
        if (row_step * (pixels * pixel + pad) - tile_pixels * pixel) % BANKS == 0
    )
    return pixels * pixel + next(pads, 0)
