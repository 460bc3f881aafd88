"""Which configs of `sm90_row_packed_wgrad` may compute a gradient of weights, and their
estimated times."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import narrow_refusal
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import (
    EIGHT,
    MAX_ACCUMULATORS,
    MAX_BOX,
    MAX_PACKED,
    MAX_STAGING,
    SLAB,
    WGMMA_M,
    RowPackedWgradConfig,
    refusal,
)
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.cycles import (
    cycles_of,
    is_bound_by_memory,
    step_cycles,
)
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import row_packed_problem
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps, partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import RowPackedProblem
    from convir.lowering.kernels.target import Target

_STAGES = ((6, 2), (5, 2), (4, 2), (3, 2), (2, 2), (2, 1))
"""Stages, and steps that wait to be taken apart."""
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 16)
_FIRST_STEPS = 2
"""Steps taken apart in one go where a block has more than stages."""
_COL_SPLITS = (1, 2, 3, 4)
_PIPELINES = (
    ((4, 8), 2 * WGMMA_M, True),
    ((8, 8), 2 * WGMMA_M, True),
    ((4, 8), 2 * WGMMA_M, False),
    ((4, 8), WGMMA_M, True),
    ((4, 8), WGMMA_M, False),
    ((8, 4), WGMMA_M, False),
    ((4, 4), WGMMA_M, False),
    ((0, 8), WGMMA_M, False),
)
"""Roles, input channels of a tile, and whether columns are packed."""
_STEPS_TRIED = 2
"""Steps of a tile and pipeline that are tried with partitions: the fastest ones."""
_FEWER_SPLITS = (1.0, 0.75, 0.5, 0.25)
"""Slices of fewer splits cost less than those of as many as there is room for; of those with equal
shares, the fewest are taken."""
_WITH_REGISTERS = ((4, 8), (8, 8))
"""Roles whose warps have registers for X too; where a wgmma has all taps, they do not use them."""
_MOST = 24
"""Configs that are planned."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[RowPackedWgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    problem = row_packed_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    narrow = narrow_refusal(spec)
    if narrow is not None:
        return narrow
    if len(problem.rows.tap_rows) == 1:
        return Refusal("no taps are one row apart")
    costs = {config: cycles_of(spec, problem, config) for config in candidates(spec, problem, gpu)}
    if not costs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(sorted(costs, key=lambda config: (costs[config], config.slabs))[:_MOST])


def candidates(
    spec: Contraction, problem: RowPackedProblem, gpu: Target
) -> Iterator[RowPackedWgradConfig]:
    """Every tile and pipeline with its fastest steps, in every partition of use."""
    out_channels = ceil(spec.out_channels / EIGHT) * EIGHT
    rows = _divided(len(problem.rows.tap_rows), MAX_PACKED // out_channels)[0]
    y = "tma" if problem.is_dense else "async"
    for cols in _divided(len(problem.cols.tap_rows), 2 * MAX_ACCUMULATORS // (rows * out_channels)):
        for roles, tile_m, is_packed in _PIPELINES:
            tile = RowPackedWgradConfig(
                rows, cols, spec.out_channels if is_packed else out_channels, tile_m, (1, SLAB), 1,
                *_STAGES[-1], 1, "shared", y if roles[0] else "async", roles, 1, Partition(),
                gpu.multiprocessors,
            )  # fmt: skip
            if tile_m >= spec.in_channels + WGMMA_M or tile.is_packed != is_packed:
                continue
            for kept in (tile, replace(tile, y="ring")) if tile.y == "tma" else (tile,):
                for config in _fastest(spec, problem, kept, gpu):
                    for divided in _partitioned(spec, problem, config, gpu):
                        yield from _asked_at_once(spec, problem, divided, gpu)
                        yield divided


def _divided(taps: int, most: int) -> list[int]:
    """Numbers of taps of a tile that are equal splits of all, the largest first."""
    sizes = {ceil(taps / splits) for splits in range(1, taps + 1)}
    return sorted((size for size in sizes if size <= most), reverse=True)


def _fastest(
    spec: Contraction, problem: RowPackedProblem, tile: RowPackedWgradConfig, gpu: Target
) -> list[RowPackedWgradConfig]:
    """A tile with its fastest steps, each with as many stages as there is room for."""

    def cycles(config: RowPackedWgradConfig) -> float:
        return step_cycles(problem, spec, config) * config.steps(problem)

    # With fewer stages a step takes no fewer cycles: most shapes need not be fitted.
    shapes = (_staged(shaped, *_STAGES[0]) for shaped in _steps(spec, problem, tile, gpu))
    at_least = sorted((cycles(shaped), order, shaped) for order, shaped in enumerate(shapes))
    found: list[tuple[float, int, RowPackedWgradConfig]] = []
    for least, order, shaped in at_least:
        if len(found) == _STEPS_TRIED and least > found[-1][0]:
            break
        fitted = [(cycles(each), order, each) for each in _fitted(spec, problem, shaped, gpu)]
        found = sorted(found + fitted)[:_STEPS_TRIED]
    return [config for _, _, config in found]


def _steps(
    spec: Contraction, problem: RowPackedProblem, tile: RowPackedWgradConfig, gpu: Target
) -> Iterator[RowPackedWgradConfig]:
    """A tile with every shape of a step that there is room for; in a ring, of whole rows."""
    splits = (1,) if tile.y == "ring" else _COL_SPLITS
    has_registers = tile.roles in _WITH_REGISTERS and tile.tap_cols > 1
    for slab_rows in (1, 2):
        unit = SLAB // slab_rows
        widths = {ceil(problem.cols.extent / n / unit) * unit for n in splits}
        for width in (width for width in widths if width <= MAX_BOX):
            for rows in _ROWS:
                if rows >= problem.rows.extent + slab_rows:
                    break
                if rows % slab_rows:
                    continue
                divides = rows * width // SLAB % tile.slab_groups == 0
                x = "registers" if has_registers and divides else "shared"
                shaped = replace(tile, step=(rows, width), slab_rows=slab_rows, x=x)
                if not _has_room(spec, problem, shaped, gpu):
                    break
                yield shaped


def _fitted(
    spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig, gpu: Target
) -> Iterator[RowPackedWgradConfig]:
    """`config` with as many stages as there is room for, if it is legal with any."""
    if refusal(spec, problem, _staged(config, *_STAGES[-1]), gpu) is not None:
        return  # What refuses the fewest refuses more.
    first = bisect_left(
        _STAGES, True, key=lambda each: _has_room(spec, problem, _staged(config, *each), gpu)
    )
    fitted = (_staged(config, *each) for each in _STAGES[first:])
    yield from islice((c for c in fitted if refusal(spec, problem, c, gpu) is None), 1)


def _staged(config: RowPackedWgradConfig, stages: int, staging: int) -> RowPackedWgradConfig:
    return replace(config, stages=stages, staging=staging)


def _has_room(
    spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig, gpu: Target
) -> bool:
    """What most shapes lack: it is asked before all else that a config needs."""
    return gpu.shared_refusal(config.shared_bytes(problem, spec.out_channels)) is None


def _partitioned(
    spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig, gpu: Target
) -> Iterator[RowPackedWgradConfig]:
    """`config` with every partition worth trying."""
    schedule = config.schedule(spec, problem)
    for partition in partitions(schedule.tiles, schedule.steps, schedule.concurrent):
        yield replace(config, partition=partition)
    room = min(schedule.concurrent // schedule.tiles, schedule.steps)
    most = {ceil(schedule.steps / max(1, int(room * split))) for split in _FEWER_SPLITS}
    equal = {ceil(schedule.steps / steps) for steps in most}
    if is_bound_by_memory(config):
        equal.add(room)
    if config.y == "ring":
        equal.add(room // problem.images.size * problem.images.size)  # splits of single images
    for splits in sorted(equal):
        if splits > 1:
            yield replace(config, partition=Partition(SPLIT_K, splits, "reduce-scatter"))
    for splits, clusters in gpu.clusters.items() if config.y != "ring" else ():
        if splits <= room and schedule.tiles <= clusters:
            within = Partition(SPLIT_K, splits, "reduce-scatter")
            clustered = replace(config, partition=within, cluster=splits)
            yield from _fitted(spec, problem, clustered, gpu)


def _asked_at_once(
    spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig, gpu: Target
) -> Iterator[RowPackedWgradConfig]:
    """`config` with rows of more steps asked for, and taken apart, at once: of all steps of a
    block, if they are few, or of the first ones."""
    steps = busiest_steps(config.schedule(spec, problem))
    if config.y != "tma" or not 1 < steps <= MAX_STAGING:
        return
    of_all = steps, steps, steps
    of_first = config.stages, config.staging + 1, _FIRST_STEPS
    for stages, staging, prologue in (of_all, of_first):
        at_once = 1 if config.trades_registers else prologue
        asked = replace(config, stages=stages, staging=staging, prologue=at_once)
        if refusal(spec, problem, asked, gpu) is None:
            yield asked
            return
