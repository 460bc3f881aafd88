"""The rows that a block holds in shared memory: the same rules as in `load/row_ring.cuh`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import VECTOR
from convir.lowering.kernels.cuda.launch import TensorMap
from convir.lowering.kernels.cuda.registers import WARP, WARPGROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.launch import Pointer

Copies: TypeAlias = Literal["async", "tma"]
"""Who copies rows: threads, 16 bytes each, or TMA, a row at a time."""

ASYNC: Final = "async"
TMA: Final = "tma"

ELEMENT_BYTES = 2
BANK_SKEW = 16
"""Bytes between pixels, and between rows of weights."""
BANKS = 128
"""Bytes of all banks together."""
BARRIER_BYTES = 8

ATOM = 64
"""Channels of a pixel that TMA brings at once, at most."""
ATOMS = (16, 32, ATOM)
"""Channels whose chunks of 16 bytes it exchanges so that neighbours lie in different banks."""
ATOM_PIXELS = 8
"""Pixels after which the exchange repeats."""
TMA_ALIGNMENT = 1024
MOST_BOX = 256
"""Pixels of a copy."""
_LEAST_STRIDE = 16
"""Bytes between neighbours of a dimension of TMA's, where there is one of them too."""


@dataclass(frozen=True)
class RingShape:
    """The part of a schedule that decides what a block holds at once."""

    tile_cols: int
    """Output columns of a list row."""
    unroll_rows: int
    """Output rows of a position."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    step_pixels: int
    """Output pixels of a step."""
    copies: Copies


def ring_bytes(problem: DirectProblem, channels: int, shape: RingShape) -> int:
    """Bytes of the rows that a block holds at once.

    Args:
        problem: sizes and windows.
        channels: channels of A in a pixel of the ring.
        shape: what the schedule says of it.
    """
    rows = problem.rows
    base_rows = -(-problem.row_count // shape.unroll_rows)
    row_step = shape.unroll_rows * rows.step
    window_rows = (shape.unroll_rows - 1) * rows.step + rows.window
    span = ((shape.stages + 1) * shape.step_pixels + shape.tile_cols - 2) // shape.tile_cols
    crossings = -(-span // base_rows)
    slots = span * row_step + window_rows + crossings * max(0, window_rows - row_step)
    if shape.copies == TMA:
        held = slots * _plane_bytes(problem, channels, shape)
        return -(-held // TMA_ALIGNMENT) * TMA_ALIGNMENT
    return slots * _row_bytes(_pixels(problem, shape), channels, problem, shape)


def barrier_bytes(stages: int, producer_warps: int) -> int:
    """Bytes of the barriers between warps that copy and warps that compute."""
    return 2 * (stages + 1) * BARRIER_BYTES if producer_warps > 0 else 0


def copies_refusal(
    problem: DirectProblem, channels: int, shape: RingShape, warps: int, producer_warps: int
) -> Refusal | None:
    """Why nobody copies rows of a ring; None if somebody does.

    Args:
        problem: sizes and windows.
        channels: channels of A in a pixel of the ring.
        shape: what the schedule says of it.
        warps: warps that compute.
        loaders: warps that only copy.
    """
    if shape.copies == ASYNC:
        copying = producer_warps or warps
        vectors = channels // VECTOR
        if vectors > copying * WARP:
            return Refusal(f"{copying} warps do not copy {vectors} vectors of a pixel")
        return None
    if producer_warps == 0:
        return Refusal("a warp of its own issues TMA copies")
    if producer_warps == WARPGROUP and warps % WARPGROUP != 0:
        return Refusal(f"{warps} warps do not trade registers")
    if channels not in ATOMS and channels % ATOM != 0:
        return Refusal(f"TMA does not exchange {channels} channels")
    if _pixels(problem, shape) > MOST_BOX:
        return Refusal(f"TMA does not load {_pixels(problem, shape)} pixels at once")
    return None


def map_strides(strides: Iterable[int]) -> tuple[int, ...]:
    """The strides of a map's axes, in bytes, of those in elements."""
    return tuple(max(_LEAST_STRIDE, stride * ELEMENT_BYTES) for stride in strides)


def box_map(
    problem: DirectProblem,
    operand: Pointer,
    of_all: int,
    channels: int,
    shape: RingShape,
    promotion: Literal[128, 256] = 256,
) -> TensorMap:
    """The map by which TMA brings rows of A.

    Args:
        problem: sizes and strides of A.
        operand: where A is.
        of_all: channels of all groups.
        channels: channels of A in a pixel of the ring.
        shape: what the schedule says of it.
        promotion: bytes of memory that a miss brings to the L2 cache.
    """
    rows, cols = problem.rows, problem.cols
    strides = (cols.a_stride, rows.a_stride, problem.a_image)
    atom = min(channels, ATOM)
    return TensorMap(
        operand,
        problem.contraction.a.type,
        (of_all, cols.extent, rows.extent, problem.images.value),
        map_strides(strides),
        (atom, _pixels(problem, shape), 1, 1),
        cast("Literal[32, 64, 128]", atom * ELEMENT_BYTES),
        promotion=promotion,
    )


def _pixels(problem: DirectProblem, shape: RingShape) -> int:
    """Pixels of a row of the ring."""
    return (shape.tile_cols - 1) * problem.cols.step + problem.cols.window


def _plane_bytes(problem: DirectProblem, channels: int, shape: RingShape) -> int:
    """Bytes of a row that TMA brings, all of its atoms."""
    pixels = -(-_pixels(problem, shape) // ATOM_PIXELS) * ATOM_PIXELS
    return pixels * channels * ELEMENT_BYTES


def _row_bytes(pixels: int, channels: int, problem: DirectProblem, shape: RingShape) -> int:
    """Bytes between rows: padded so that a tile which goes on in the next row meets other banks."""
    pixel = channels * ELEMENT_BYTES + BANK_SKEW
    row_step = shape.unroll_rows * problem.rows.step
    tile_pixels = shape.tile_cols * problem.cols.step
    pads = (
        pad
        for pad in range(0, BANKS, BANK_SKEW)
        if (row_step * (pixels * pixel + pad) - tile_pixels * pixel) % BANKS == 0
    )
    return pixels * pixel + next(pads, 0)
