"""Cycles of a launch of row-packed gradients of weights: its steps, and how splits are added."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import WGMMA_M
from convir.lowering.kernels.cuda.tile_schedule.partition import STREAM_K
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps
from convir.lowering.kernels.cuda.tile_schedule.schedule import ACCUMULATOR_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import RowPackedWgradConfig
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import RowPackedProblem
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule

# Cycles, fitted to measurements; see the kernel family's page.
_ALONE = 1.15
"""How much longer products take where one consumer warpgroup has nobody to fill its gaps."""
_FROM_SHARED = 1.15
"""The same where both operands come from shared memory, beside copies."""
_PIECES_CYCLES = {0: 44, 4: 50, 8: 42}
"""A copy of 32 pieces of dY, by producer warps."""
_APART_CYCLES, _ASK_CYCLES, _COPY_CYCLES = 400, 600, 90
"""In which a warp takes 32 output pixels of dY apart, after it was asked for, with each copy."""
_ARRIVAL_CYCLES = 1200
"""More where rows are asked for when the ones before have been taken apart."""
_SHORT_OF_STAGES = 1.15
"""The same where there is one stage beside the one that is read."""
_BYTES_PER_CYCLE = 37
"""That one multiprocessor reads of L2."""
_SUM_BYTES_PER_CYCLE = 20
"""Of accumulators, which displace what others wrote."""
_STEP_CYCLES = 120
"""A barrier, and the first multiplication behind it."""
_UNIFORM_CYCLES = 300
"""More for a step whose warps wait for their own copies."""
START_CYCLES = 9000
"""Until the first multiplication, and from the last one to the end."""
_MEET_CYCLES = 2500
"""Until splits know of each other."""
_CLUSTER_CYCLES = 1500
"""The same in a cluster."""
_EXCHANGE_CYCLES = 700
"""Two consumer warpgroups add up."""
_BESIDE_CYCLES = 0.5
"""That products take longer for each position of dY that is taken apart meanwhile."""
_AGAIN_CYCLES = 1500
"""More for an image whose rows are not brought before a ring's last ones are given up."""


def cycles_of(spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig) -> float:
    """Cycles until the last block is done."""
    schedule = config.schedule(spec, problem)
    step = step_cycles(problem, spec, config)
    steps: float = busiest_steps(schedule)
    if is_bound_by_memory(config):
        steps = (steps + schedule.tiles * schedule.steps / schedule.units) / 2
    reduced = START_CYCLES + (steps + 1) * step
    if config.prologue > 1:
        there = step_cycles(problem, spec, config, rows_are_there=True)
        reduced -= (config.prologue - 1) * (step - there)
    if config.y == "ring":
        reduced += _AGAIN_CYCLES * _images_within(schedule, problem.images.size)
    if config.slab_groups > 1:
        reduced += _EXCHANGE_CYCLES
    if not schedule.slots:
        return reduced
    accumulators = (
        config.tap_cols * config.packed * config.tile_m * ACCUMULATOR_BYTES / _SUM_BYTES_PER_CYCLE
    )
    if config.cluster > 1:
        return reduced + _CLUSTER_CYCLES + accumulators
    splits = schedule.partition.splits
    if schedule.partition.kind == STREAM_K:
        splits = ceil(schedule.shares / schedule.streamed) + 1
    times = {"linear": splits, "tree": 2 * (splits - 1).bit_length(), "reduce-scatter": 2}
    of_reduction = times[schedule.partition.reduction]
    return reduced + of_reduction * accumulators + _MEET_CYCLES * max(1, of_reduction // 2)


def is_bound_by_memory(config: RowPackedWgradConfig) -> bool:
    """Whether shared memory bounds steps, from which wgmma reads both operands: so a block with
    fewer steps than the busiest one leaves more of the caches' bandwidth to that one."""
    return config.x == "shared"


def _images_within(schedule: Schedule, images: int) -> int:
    """The most images that begin in the middle of a part."""
    of_image = schedule.steps // images
    if schedule.partition.kind == STREAM_K:
        return ceil(busiest_steps(schedule) / of_image)
    splits = schedule.partition.splits
    ends = (schedule.steps * split // splits for split in range(splits + 1))
    return max((end - 1) // of_image - begin // of_image for begin, end in pairwise(ends))


def step_cycles(
    problem: RowPackedProblem,
    spec: Contraction,
    config: RowPackedWgradConfig,
    rows_are_there: bool = False,
) -> float:
    """Cycles of a step: its products, or the copies of the next one, but rows that are there."""
    rows, cols = config.step
    multiplied = config.slabs * config.tap_cols * config.packed / 2 * config.tile_m / WGMMA_M
    multiplied *= _FROM_SHARED if config.x == "shared" else 1.0
    multiplied *= _ALONE if config.consumer_warpgroups == 1 else 1.0
    brought = rows if config.y == "ring" else rows + config.tap_rows - 1
    pixels = brought * (cols + config.reach(problem))
    copied = (rows * cols * config.tile_m + pixels * spec.out_channels) * 2 / _BYTES_PER_CYCLE
    if config.is_bulk:
        multiplied += pixels * _BESIDE_CYCLES
        is_whole = problem.rows_follow and cols >= problem.cols.extent
        copies = 1 if is_whole else brought
        loaded = ceil(pixels / 32 / config.roles[0]) * _APART_CYCLES
        loaded += _ASK_CYCLES + copies * _COPY_CYCLES
        loaded += _ARRIVAL_CYCLES if config.staging == 1 else 0
    else:
        pieces = pixels * ceil(spec.out_channels * 2 / problem.y_piece)
        loaded = pieces / 32 * _PIECES_CYCLES[config.roles[0]]
    if config.roles[0] == 0:
        return max(multiplied + loaded, copied) + _UNIFORM_CYCLES
    if config.stages == len(("filled", "read")):
        multiplied *= _SHORT_OF_STAGES if config.tile_m == WGMMA_M else 1.0
    return max(multiplied, copied, 0.0 if rows_are_there else loaded) + _STEP_CYCLES
