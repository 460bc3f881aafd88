"""Which configs of the wgmma template for gradients of weights are tried, and their times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil, inf
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_wgrad.config import (
    BLOCKS_M,
    BLOCKS_N,
    CHUNK,
    WgmmaWgradConfig,
)
from convir.lowering.kernels.cuda.sm90_wgrad.legality import schedule_of
from convir.lowering.kernels.cuda.sm90_wgrad.problem import wgrad_problem
from convir.lowering.kernels.cuda.tile_schedule.partition import (
    DATA_PARALLEL,
    SPLIT_K,
    STREAM_K,
    Partition,
)
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps, partitions
from convir.lowering.kernels.cuda.tile_schedule.schedule import SUM_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule
    from convir.lowering.kernels.target import Target

_STAGES = (8, 7, 6, 5, 4, 3)
_ROLES = ((1, 4), (4, 8))
"""Pipelines that are tried: the first one whose registers hold a tile's sums, and, where warpgroups
take turns, the other one for sums that all blocks add."""
_MIN_SLICED_STEPS = 2
"""Steps of a part whose sums all units add together."""

_WORTH_MEASURING, _MOST = 1.35, 12
"""Configs that are estimated to take so many times what the best does are not planned, nor more."""
_LEAST_PUSHED_STAGES = 5
"""Fewer are waited for longer than sums that are read."""
_HIDING_SUMS = 128 * 128
"""Sums of two warpgroups whose step takes longer than one of them asks for another."""
_SHARED_CLUSTER = 2
"""Blocks of a cluster where several clusters have the parts of a tile."""

# µs, fitted to measurements; see the template's page.
_MULTIPLY = 0.63 / (256 * 128)
"""A step, for each sum of a tile."""
_NARROW = 1.3
"""How much longer that is where a multiplication has 64 columns: it waits for shared memory, and
those of one tap for copies."""
_COLD_BOX, _TILED_BOX = 0.115, 0.052
"""A copy of 64 channels at 64 rows of a matrix, which few or several blocks read at a time."""
_STRADDLING = 3
"""How much longer it takes where rows straddle cache lines."""
_PIXELS_BOX, _PIXELS_LINE = 0.085, 0.56
"""A copy at 64 pixels that slide, and what each line of them adds, by the pixels of a line."""
_LINE_ELEMENTS = 64
_START, _TILE, _STORED_MB = 2.0, 0.1, 9.5
"""Until the first step of a block, between two tiles, and for each megabyte of a tile's sums."""
_SLICES, _SLICED_MB = 2.0, 0.35
"""Parts meet, and each megabyte of them is written and read."""
_CLUSTER, _CLUSTERED_MB, _PUSHED = 1.2, 18.0, 0.6
"""Parts meet in a cluster, and each megabyte of a block's sums is read from its neighbours; how
much of that it takes if they write it."""
_STORED_IN_TURN, _SLICED_IN_TURN = 0.65, 0.7
"""What remains of storing, and how much shorter parts are waited for, where one warpgroup finishes
after the other."""
_MEET, _PART_MB = 5.0, 12.0
"""A block waits for another, and reads or writes a megabyte of sums."""
_MEMORY_MB, _L2_MB = 1 / 4.1, 40.0
"""A megabyte from memory, and how many the L2 cache keeps for blocks that come later."""
_SCATTERED = 1.3
"""How much longer steps take where blocks of a tile read places that are far apart."""


def ranked(problem: WgradProblem, gpu: Target) -> list[WgmmaWgradConfig]:
    """The configs worth measuring, by falling estimate of their speed."""
    costs = {config: cost(problem, config, gpu) for config in _candidates(problem, gpu)}
    limit = _WORTH_MEASURING * min(costs.values(), default=0.0)
    found = sorted((c for c in costs if costs[c] <= limit), key=lambda c: costs[c])
    if found and _hides_asking(problem, found[0], gpu):
        found.insert(1, found[0].with_roles(0, found[0].roles[1]))
    return found[:_MOST]


def _hides_asking(problem: WgradProblem, config: WgmmaWgradConfig, gpu: Target) -> bool:
    """Whether warps that multiply may ask for copies as well as warps that do nothing else: for one
    part of a tile, all of which fits into the ring, or whose products are longer than asking, which
    takes longer where stages drain."""
    schedule = schedule_of(problem, config, gpu.shared_bytes)
    if isinstance(schedule, Refusal) or schedule.partition.kind == STREAM_K:
        return False
    if schedule.partition.kind == DATA_PARALLEL and schedule.units > schedule.concurrent:
        return False
    if busiest_steps(schedule) <= config.stages:
        return True
    is_long = config.block_m * config.block_n >= _HIDING_SUMS
    return config.consumer_warpgroups > 1 and is_long and not config.drained


def _candidates(problem: WgradProblem, gpu: Target) -> Iterator[WgmmaWgradConfig]:
    """Every tile, with as many stages as the shared memory holds, in every partition of use."""
    # Squares first: of equal estimates they are the faster ones.
    for block_m, block_n in sorted(product(BLOCKS_M, BLOCKS_N), key=lambda tile: max(tile)):
        if block_m - BLOCKS_M[0] >= problem.columns:
            continue
        if block_n - BLOCKS_N[0] >= problem.chunks_n * CHUNK:
            continue
        divided: list[WgmmaWgradConfig] = []
        for roles in _ROLES:
            found = _deepest(problem, gpu, block_m, block_n, roles)
            if found is None:
                continue
            if not divided:
                divided = [*_divided(*found), *_sliced(*found, gpu)]
            elif problem.taps > 1:
                divided += _sliced(*found, gpu)
        yield from divided


def _deepest(
    problem: WgradProblem, gpu: Target, block_m: int, block_n: int, roles: tuple[int, int]
) -> tuple[WgmmaWgradConfig, Schedule] | None:
    """Whole tiles with as many stages as the shared memory holds."""
    for stages in _STAGES:
        whole = WgmmaWgradConfig(
            block_m, block_n, stages, roles, 1, Partition(), gpu.multiprocessors
        )
        schedule = schedule_of(problem, whole, gpu.shared_bytes)
        if not isinstance(schedule, Refusal):
            return whole, schedule
    return None


def _divided(whole: WgmmaWgradConfig, schedule: Schedule) -> Iterator[WgmmaWgradConfig]:
    """Whole tiles, and those whose parts one block adds."""
    for partition in partitions(schedule.tiles, schedule.steps, schedule.concurrent):
        yield replace(whole, partition=partition)


def _sliced(whole: WgmmaWgradConfig, schedule: Schedule, gpu: Target) -> Iterator[WgmmaWgradConfig]:
    """Tiles whose parts all blocks add, which two warpgroups do apart."""
    most = min(schedule.concurrent // schedule.tiles, schedule.steps // _MIN_SLICED_STEPS)
    for parts in sorted({most, 7 * most // 8, 3 * most // 4, most // 2, most // 4}):
        if parts > 1:
            yield replace(whole, partition=Partition(SPLIT_K, parts, "slices"))
    for blocks, clusters in gpu.clusters.items():
        of_tile = min(clusters // schedule.tiles, most // blocks)
        for count in sorted({1, of_tile}) if blocks == _SHARED_CLUSTER else (1,):
            if 0 < count <= of_tile:
                within = Partition(SPLIT_K, blocks * count, "slices")
                pulled = replace(whole, partition=within, cluster=blocks)
                yield pulled
                yield from _pushed(pulled)


def _pushed(pulled: WgmmaWgradConfig) -> Iterator[WgmmaWgradConfig]:
    """The same with fewer stages, if that makes room for sums that neighbours write."""
    if pulled.is_pushed:
        return
    for stages in range(pulled.stages - 1, _LEAST_PUSHED_STAGES - 1, -1):
        config = replace(pulled, stages=stages)
        if config.is_pushed:
            yield config
            return


def cost(problem: WgradProblem, config: WgmmaWgradConfig, gpu: Target) -> float:
    """Estimated µs of a legal config's launch, without what every launch takes."""
    schedule = schedule_of(problem, config, gpu.shared_bytes)
    if isinstance(schedule, Refusal):
        return inf
    megabytes = problem.positions * (problem.columns + problem.depth) * 2 / 1e6
    step = _step(problem, config)
    if schedule.partition.kind == STREAM_K and megabytes > _L2_MB:
        step *= _SCATTERED if schedule.tiles < schedule.concurrent else 1.0
    multiplied = busiest_steps(schedule) * step
    waves = ceil(schedule.units / schedule.concurrent)
    stored = _STORED_MB * config.block_m * config.block_n * SUM_BYTES / 1e6
    in_turn = config.consumer_warpgroups > 1 and problem.taps > 1
    if in_turn and waves == 1 and schedule.partition.kind == DATA_PARALLEL:
        stored *= _STORED_IN_TURN
    return (
        _START
        + max(multiplied, megabytes * _MEMORY_MB)
        + waves * (_TILE + stored)
        + _fix_up(schedule, config, in_turn=in_turn)
    )


def _step(problem: WgradProblem, config: WgmmaWgradConfig) -> float:
    """µs between two stages of a block."""
    slides = problem.rows.slides
    row = _TILED_BOX if problem.taps > 1 else _COLD_BOX
    of_c = row * (_STRADDLING if problem.row_stride % _LINE_ELEMENTS else 1)
    of_a = max(row, _PIXELS_BOX + _PIXELS_LINE / slides[0].size) if slides else row
    copies = config.block_m // CHUNK * of_c + ceil(config.block_n / CHUNK) * of_a
    narrow = _NARROW if config.columns == CHUNK and problem.taps > 1 else 1.0
    multiply = config.block_m * config.block_n * _MULTIPLY * narrow
    return (multiply**4 + copies**4) ** 0.25


def _fix_up(schedule: Schedule, config: WgmmaWgradConfig, *, in_turn: bool) -> float:
    """µs until the last tile is put together; `in_turn`: by one warpgroup after the other."""
    tile = config.block_m * config.block_n * SUM_BYTES / 1e6
    partition = schedule.partition
    if partition.kind == DATA_PARALLEL:
        return 0.0
    clustered = _CLUSTER + _CLUSTERED_MB * tile if config.cluster > 1 else 0.0
    clustered *= _PUSHED if config.is_pushed else 1.0
    if config.cluster > 1 and config.clusters == 1:
        return clustered
    if schedule.has_slices:
        wait = _SLICES - (_SLICED_IN_TURN if in_turn and config.cluster == 1 else 0.0)
        return clustered + wait + _SLICED_MB * schedule.units * tile / config.cluster
    parts = partition.parts
    if partition.kind == STREAM_K:
        parts = ceil(schedule.shares / max(1, schedule.streamed)) + 1
    if partition.reduction == "linear":
        return _MEET + _PART_MB * tile * parts
    return (_MEET + 2 * _PART_MB * tile) * (parts - 1).bit_length()


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[WgmmaWgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    if not gpu.is_hopper:
        return Refusal(f"{gpu.arch} has no wgmma")
    problem = wgrad_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    found = ranked(problem, gpu)
    if not found:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(found)
