"""Which tiles of gradients from halos are worth considering."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import HaloWgradConfig
from convir.lowering.kernels.cuda.sm90_halo_wgrad.launch import MOST_ACCUMULATORS, refusal
from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import halo_wgrad_problem
from convir.lowering.kernels.cuda.sm90_halo_wgrad.sets import columns_of, stage_bytes, tap_sets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import HaloWgradProblem
    from convir.lowering.kernels.target import Target

CHANNELS = (64, 32, 16)
LEAST_CHANNELS, MOST_CHANNELS = 16, 64
"""Of A or C: of fewer a tap's rows are half empty, of more a tap fills instructions by itself."""
LEAST_PIXELS, MOST_PIXELS = 64, 384
"""Of a tile."""
MOST_TILES = 4
"""Shapes of tiles, those first that copy and multiply the fewest pixels in vain."""
MOST_STAGES = 6
RESERVED_BYTES = 2048
"""Of a block's shared memory, beside stages."""
CONSUMERS = (2, 3, 4, 1)
_COLS = (8, 16, 24, 32, 40, 48, 56, 64)
_LINES = (1, 2, 3, 4, 6, 8, 12, 16)


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[HaloWgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, each with as many stages as fit."""
    problem = halo_wgrad_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    few, many = sorted((problem.in_channels, problem.out_channels))
    if not LEAST_CHANNELS <= few <= many <= MOST_CHANNELS:
        return Refusal(f"it has not {LEAST_CHANNELS} to {MOST_CHANNELS} channels on either side")
    found = tuple(_configs(problem, gpu))
    return found or Refusal("the accumulators of its taps fit no registers")


def _configs(problem: HaloWgradProblem, gpu: Target) -> Iterator[HaloWgradConfig]:
    of_a = _least(problem.in_channels)
    of_c = [channels for channels in CHANNELS if channels <= _least(problem.out_channels)][:2]
    for (depth, rows, cols), channels, consumers in product(_tiles(problem), of_c, CONSUMERS):
        config = HaloWgradConfig(
            depth, rows, cols, (of_a, channels), MOST_STAGES, consumers, 1, gpu.multiprocessors
        )
        config = replace(config, parts=_parts(problem, config))
        stages = range(MOST_STAGES, 1, -1)
        legal = (replace(config, stages=n) for n in stages if _has_room(problem, config, n, gpu))
        for found in islice(legal, 1):
            if refusal(problem, found, gpu) is None:
                yield found


def _parts(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """The fewest blocks that share the sets of a tile, so that a thread has their accumulators."""
    of_thread = 2 * MOST_ACCUMULATORS[config.consumers] // columns_of(problem, config)
    return max(1, -(-len(tap_sets(problem, config)) // (config.consumers * max(1, of_thread))))


def _has_room(problem: HaloWgradProblem, config: HaloWgradConfig, stages: int, gpu: Target) -> bool:
    return stages * stage_bytes(problem, config) + RESERVED_BYTES <= gpu.shared_bytes


def _least(channels: int) -> int:
    """Channels of a part, so that the fewest are empty."""
    return min(CHANNELS, key=lambda part: (-(-channels // part) * part, -part))


def _tiles(problem: HaloWgradProblem) -> list[tuple[int, int, int]]:
    """Slices, rows and columns of tiles."""
    x, y, z = problem.axes
    span_x, span_y, span_z = problem.span

    def cost(tile: tuple[int, int, int]) -> float:
        depth, rows, cols = tile
        tiles = -(-x.size // cols) * -(-y.size // rows) * -(-z.extent // depth)
        copied = (cols + span_x) * (rows + span_y) * depth + cols * rows * (depth + span_z)
        return tiles * (len(problem.taps) * depth * rows * cols + copied)

    found = [
        (depth, rows, cols)
        for depth, rows, cols in product(_LINES, _LINES, _COLS)
        if LEAST_PIXELS <= depth * rows * cols <= MOST_PIXELS
        and depth * rows * cols % 16 == 0
        and depth <= z.extent
        and rows <= y.size
        and cols < x.size + 8
    ]
    return sorted(found or [(1, 1, 64)], key=cost)[:MOST_TILES]
