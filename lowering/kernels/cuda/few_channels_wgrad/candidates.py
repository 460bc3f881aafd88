"""`few_channels_wgrad`: the strips, jobs and stages that are worth considering."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.few_channels_wgrad.config import TILE, FewChannelsWgradConfig
from convir.lowering.kernels.cuda.few_channels_wgrad.launch import refusal
from convir.lowering.kernels.cuda.few_channels_wgrad.problem import FewChannels, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

MOST_CHANNELS = 64
"""Of a block: more of them hold too many accumulators."""
ROWS = (1, 2, 4, 8)
MOST_COLS = (64, 128, 256)
JOBS = (1, 2, 4, 8)
STAGES = (4, 3, 2)
WARPS = ((8, 2), (8, 1), (4, 4), (16, 1))
"""Warps of a block, and blocks of a multiprocessor."""


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[FewChannelsWgradConfig, ...] | Refusal:
    """The configs for a contraction, or why the kernel family does not take it."""
    few = read(contraction, epilogue)
    if isinstance(few, Refusal):
        return few
    configs = tuple(_configs(few, gpu))
    return configs or Refusal("no strip of its rows fits into shared memory")


def _configs(few: FewChannels, gpu: Target) -> Iterator[FewChannelsWgradConfig]:
    """The most stages that fit of every strip, and no more rows than there are."""
    problem = few.problem
    channels = _shares(problem.contraction.out_channels, MOST_CHANNELS)
    cols = sorted({_shares(problem.col_count, most) for most in MOST_COLS})
    rows = [row for row in ROWS if row < 2 * problem.row_count]
    for row, col, jobs, (warps, resident) in product(rows, cols, JOBS, WARPS):
        blocks = (gpu.multiprocessors, resident)
        for stages in STAGES:
            config = FewChannelsWgradConfig(row, col, channels, jobs, stages, warps, blocks)
            if refusal(few, config, gpu) is None:
                yield config
                break


def _shares(count: int, most: int) -> int:
    """The size of equal parts, up to `most` and whole tiles, of so many pixels or channels."""
    return -(-count // -(-count // most) // TILE) * TILE
