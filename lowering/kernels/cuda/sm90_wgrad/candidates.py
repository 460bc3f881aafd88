"""Which configs of the wgmma kernel family for gradients of weights are tried, and their times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_wgrad.config import (
    BLOCKS_M,
    BLOCKS_N,
    CHUNK,
    LINES_ROLES,
    LINES_TILES,
    Sm90WgradConfig,
    refusal,
    schedule_of,
)
from convir.lowering.kernels.cuda.sm90_wgrad.predict import predict
from convir.lowering.kernels.cuda.sm90_wgrad.problem import wgrad_problem
from convir.lowering.kernels.cuda.tile_schedule.partition import (
    DATA_PARALLEL,
    SPLIT_K,
    STREAM_K,
    Partition,
)
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps, partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule
    from convir.lowering.kernels.target import Target

_STAGES = (8, 7, 6, 5, 4, 3)
_ROLES = ((1, 4), (4, 8))
"""Pipelines that are tried: the first one whose registers hold a tile's accumulators, and, where
warpgroups take turns, the other one for accumulators that all blocks add."""
_MIN_SLICED_STEPS = 2
"""Steps of a part whose accumulators all units add together."""

_WORTH_MEASURING, _MOST = 1.35, 12
"""Configs that are estimated to take so many times what the best does are not planned, nor more."""
_LEAST_CLUSTERED_STAGES = 5
"""Fewer are waited for longer than accumulators that go through global memory."""
_HIDING_ACCUMULATORS = 128 * 128
"""Accumulators of two warpgroups whose step takes longer than one of them asks for another."""
_ALL_SUMS = 256 * 128
"""Accumulators that take half of the registers of two warpgroups."""
_UNROLLED_PARTS = (16, 32)
_MANY_SUMS = 128 * 192
"""Accumulators beside which splits of contiguous pixels are added without spills by some numbers of
blocks only."""


def ranked(
    spec: Contraction, epilogue: Epilogue, problem: WgradProblem, gpu: Target
) -> list[Sm90WgradConfig]:
    """The configs worth measuring, by falling prediction of their speed."""
    configs = (c for c in _candidates(problem, gpu) if not spills(problem, c))
    costs = {c: predict(spec, epilogue, c, gpu) for c in configs}
    limit = _WORTH_MEASURING * min(costs.values(), default=0.0)
    found = sorted((c for c in costs if costs[c] <= limit), key=lambda c: costs[c])
    if found and not problem.converts_a and _hides_asking(problem, found[0], gpu):
        found.insert(1, replace(found[0], roles=(0, found[0].roles[1])))
    return found[:_MOST]


def spills(problem: WgradProblem, config: Sm90WgradConfig) -> bool:
    """Whether a tile's accumulators leave too few registers to put its splits together, as seen of
    ptxas: those of a tree, two that one block adds, and shares of numbers of splits for which loops
    are unrolled; of contiguous pixels also more that one block adds, and a cluster of two."""
    sums, partition = config.block_m * config.block_n, config.partition
    if problem.planes is not None and partition.kind == SPLIT_K and sums >= _MANY_SUMS:
        if partition.reduction != "reduce-scatter":
            return sums >= _ALL_SUMS
        return partition.splits in _UNROLLED_PARTS or config.cluster == 2
    if config.block_m * config.block_n < _ALL_SUMS or config.partition.kind != SPLIT_K:
        return False
    reduction, splits = config.partition.reduction, config.partition.splits
    if reduction == "tree" or (reduction == "linear" and splits == 2):
        return config.block_m > config.block_n
    return reduction == "reduce-scatter" and splits in _UNROLLED_PARTS


def _hides_asking(problem: WgradProblem, config: Sm90WgradConfig, gpu: Target) -> bool:
    """Whether consumer warps may ask for copies as well as warps that do nothing else: for one
    part of a tile, all of which fits into the ring, or whose products are longer than asking, which
    takes longer where stages drain."""
    if refusal(problem, config, gpu) is not None or config.partition.kind == STREAM_K:
        return False
    schedule = schedule_of(problem, config)
    if schedule.partition.kind == DATA_PARALLEL and schedule.units > schedule.concurrent:
        return False
    if busiest_steps(schedule) <= config.stages:
        return True
    is_long = config.block_m * config.block_n >= _HIDING_ACCUMULATORS
    return config.consumer_warpgroups > 1 and is_long and not config.drained


def _candidates(problem: WgradProblem, gpu: Target) -> Iterator[Sm90WgradConfig]:
    """Every tile, with as many stages as the shared memory holds, in every partition of use."""
    # Squares first: of equal estimates they are the faster ones.
    for block_m, block_n in sorted(product(BLOCKS_M, BLOCKS_N), key=lambda tile: max(tile)):
        if block_m - BLOCKS_M[0] >= problem.out_channels:
            continue
        if block_n - BLOCKS_N[0] >= problem.chunks_n * CHUNK:
            continue
        if problem.converts_a:
            yield from _converting(problem, gpu, block_m, block_n)
            continue
        divided: list[Sm90WgradConfig] = []
        for roles in _ROLES:
            found = _deepest(problem, gpu, block_m, block_n, roles)
            if found is None:
                continue
            if not divided:
                divided = [*_divided(*found), *_sliced(*found, gpu)]
            elif problem.taps > 1:
                divided += _sliced(*found, gpu)
        yield from divided


def _converting(
    problem: WgradProblem, gpu: Target, block_m: int, block_n: int
) -> Iterator[Sm90WgradConfig]:
    """The same where warps that load convert A."""
    if (block_m, block_n) not in LINES_TILES:
        return
    found = _deepest(problem, gpu, block_m, block_n, LINES_ROLES)
    if found is not None:
        yield from _divided(*found)
        yield from (config for config in _sliced(*found, gpu) if config.cluster == 1)


def _deepest(
    problem: WgradProblem, gpu: Target, block_m: int, block_n: int, roles: tuple[int, int]
) -> tuple[Sm90WgradConfig, Schedule] | None:
    """Whole tiles with as many stages as the shared memory holds."""
    for stages in _STAGES:
        whole = Sm90WgradConfig(
            block_m,
            block_n,
            stages,
            roles,
            1,
            Partition(),
            gpu.multiprocessors,
            3 if problem.is_split else 1,
        )
        if refusal(problem, whole, gpu) is None:
            return whole, schedule_of(problem, whole)
    return None


def _divided(whole: Sm90WgradConfig, schedule: Schedule) -> Iterator[Sm90WgradConfig]:
    """Whole tiles, and those whose splits one block adds."""
    for partition in partitions(schedule.tiles, schedule.steps, schedule.concurrent):
        yield replace(whole, partition=partition)


def _sliced(whole: Sm90WgradConfig, schedule: Schedule, gpu: Target) -> Iterator[Sm90WgradConfig]:
    """Tiles whose splits all blocks add, which two warpgroups do apart."""
    most = min(schedule.concurrent // schedule.tiles, schedule.steps // _MIN_SLICED_STEPS)
    for splits in sorted({most, 7 * most // 8, 3 * most // 4, most // 2, most // 4}):
        if splits > 1:
            yield replace(whole, partition=Partition(SPLIT_K, splits, "reduce-scatter"))
    for blocks, clusters in gpu.clusters.items():
        if schedule.tiles <= clusters and blocks <= most:
            within = Partition(SPLIT_K, blocks, "reduce-scatter")
            yield from _with_room(replace(whole, partition=within, cluster=blocks))


def _with_room(clustered: Sm90WgradConfig) -> Iterator[Sm90WgradConfig]:
    """The config with as many stages as leave room for accumulators that neighbours write."""
    least = min(clustered.stages, _LEAST_CLUSTERED_STAGES)
    for stages in range(clustered.stages, least - 1, -1):
        config = replace(clustered, stages=stages)
        if config.drained is not None:
            yield config
            return


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[Sm90WgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    problem = wgrad_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    found = ranked(spec, epilogue, problem, gpu)
    if not found:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(found)
