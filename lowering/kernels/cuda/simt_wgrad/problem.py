"""`simt_wgrad`: which contractions it takes, and what a block needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.direct.problem import Slices
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.registers import WARP, registers_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.simt_wgrad.config import SimtWgradConfig
    from convir.lowering.kernels.target import Target

VECTOR_BYTES = 16
MOST_SUMS = 96
"""Sums of a thread: taps of its channels."""
MOST_PRODUCTS = 800
"""Products of a unit, which are unrolled."""
MOST_WINDOW = 64
"""Pixels along an axis of a window: more of them nest deeper than NVRTC does."""
WINDOW_BYTES = 256
"""Of a window that a thread loads at once; otherwise a row of it at a time. As in `kernel.cuh`."""
OTHER_REGISTERS = 36
"""Registers of a thread beside sums, gradients and pixels."""


@dataclass(frozen=True)
class Shape:
    """What a config makes of a problem."""

    window_rows: int
    window_cols: int
    used: int
    """Pixels of a window that a tap reads."""
    rows_at_once: int
    """Of a window, whose loads are under way together."""
    sums: int
    """Of a block, whole vectors of four."""
    teams_at: int
    """Bytes before the sums of teams in shared memory."""
    shared_bytes: int


def read(contraction: Contraction, epilogue: Epilogue) -> tuple[DirectProblem, int] | Refusal:
    """A contraction as the family sees it, with the widest vector of channels, or why not."""
    return reading(contraction, epilogue, _widest, "B", anywhere=True)


def _widest(problem: DirectProblem) -> int | Refusal:
    spec = problem.contraction
    if spec.in_channels != 1 or spec.out_channels != 1 or spec.groups == 1:
        channels = f"{spec.in_channels} and {spec.out_channels} channels"
        return Refusal(f"{spec.groups} groups of {channels} are not depthwise")
    if not problem.is_channels_last:
        return Refusal("channels are not innermost")
    if problem.slices != Slices():
        return Refusal("its windows have slices")
    if problem.taps > MOST_SUMS:
        return Refusal(f"{problem.taps} taps")
    rows, cols = problem.rows, problem.cols
    steps = (problem.a_image, problem.c_image, rows.a_stride, rows.c_stride)
    widest = VECTOR_BYTES // STORAGE_BYTES[spec.a.type]
    return gcd(widest, spec.groups, cols.a_stride, cols.c_stride, *steps)


def shape_of(problem: DirectProblem, config: SimtWgradConfig) -> Shape:
    """What `config` makes of a problem."""
    rows, cols = problem.rows, problem.cols
    window_rows = (config.rows - 1) * rows.step + rows.window
    window_cols = (config.cols - 1) * cols.step + cols.window
    (phase,) = problem.phases
    reached = [
        len({out * axis.step + tap for out in range(count) for tap in taps.pixels})
        for axis, count, taps in (
            (rows, config.rows, phase.rows),
            (cols, config.cols, phase.cols),
        )
    ]
    size = STORAGE_BYTES[problem.contraction.a.type]
    at_once = window_rows * window_cols * config.vector * size <= WINDOW_BYTES
    sums = -(-problem.taps * config.channels // 4) * 4
    threads = config.warps * WARP
    teams = threads * config.vector * len(phase.cols.pixels) * 4
    return Shape(
        window_rows=window_rows,
        window_cols=window_cols,
        used=reached[0] * reached[1],
        rows_at_once=window_rows if at_once else 1,
        sums=sums,
        teams_at=sums * 4,
        shared_bytes=sums * 4 + max(teams, threads * VECTOR_BYTES),
    )


def refusal(
    problem: DirectProblem, widest: int, config: SimtWgradConfig, target: Target
) -> Refusal | None:
    """Why `config` is none for the problem; None if it is one."""
    shape, threads = shape_of(problem, config), config.warps * WARP
    if widest % config.vector != 0:
        return Refusal(f"vectors of {config.vector} channels, where {widest} are aligned")
    lanes = config.channels // config.vector
    if config.channels % config.vector != 0 or threads % lanes != 0:
        return Refusal(f"{threads} threads do not share {config.channels} channels")
    if max(shape.window_rows, shape.window_cols) > MOST_WINDOW:
        return Refusal(f"a window of {shape.window_rows}x{shape.window_cols} pixels")
    products = problem.taps * config.rows * config.cols * config.vector
    if products > MOST_PRODUCTS:
        return Refusal(f"{products} products are unrolled")
    words = config.vector * STORAGE_BYTES[problem.contraction.a.type] / 4
    pixels = shape.rows_at_once * shape.window_cols + config.rows * config.cols
    needed = OTHER_REGISTERS + problem.taps * config.vector + int(pixels * max(1.0, words))
    if needed > registers_of(config.warps, config.resident):
        return Refusal(f"{needed} registers of a thread")
    return target.shared_refusal(shape.shared_bytes, config.resident)
