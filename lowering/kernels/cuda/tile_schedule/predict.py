"""When dividing reductions may pay: what a cost model or a search chooses from.

The thresholds are those of CUTLASS's stream-K scheduler: it keeps whole tiles if waves are exact,
if a reduction has few steps, or if the last wave is at least half full.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, STREAM_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import MIN_STEPS, Schedule

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.tile_schedule.partition import Reduction

MAX_SPLITS = 64
"""Parts of a tile: beyond, adding them takes longer than the steps that they save."""


def stream_k_refusal(tiles: int, steps: int, concurrent: int) -> Refusal | None:
    """Why streaming `tiles` tiles of `steps` steps over `concurrent` units cannot pay."""
    rest = tiles % concurrent
    if rest == 0:
        return Refusal(f"{tiles} tiles are whole waves of {concurrent}")
    if steps <= MIN_STEPS:
        return Refusal(f"reductions of {steps} steps are too short to divide")
    if tiles > concurrent and 2 * rest >= concurrent:
        return Refusal(f"the last wave has {rest} of {concurrent} tiles")
    return None


def split_k_counts(tiles: int, steps: int, concurrent: int) -> tuple[int, ...]:
    """Numbers of splits worth trying: as many as fill whole waves, one or two of them."""
    most = min(steps // MIN_STEPS, MAX_SPLITS)
    found = {waves * concurrent // tiles for waves in (1, 2)}
    return tuple(sorted(splits for splits in found if 1 < splits <= most))


def partitions(
    tiles: int, steps: int, concurrent: int, reductions: tuple[Reduction, ...] = ("linear", "tree")
) -> tuple[Partition, ...]:
    """The partitions worth trying, whole tiles first."""
    found = [Partition()]
    found += [
        Partition(SPLIT_K, splits, reduction)
        for splits in split_k_counts(tiles, steps, concurrent)
        for reduction in reductions
    ]
    if stream_k_refusal(tiles, steps, concurrent) is None:
        found += [Partition(STREAM_K, 1, reduction) for reduction in reductions]
    return tuple(found)


def busiest_steps(schedule: Schedule) -> int:
    """Steps that pass until the last unit is done, if `concurrent` units run at a time."""
    partition, steps = schedule.partition, schedule.steps
    if partition.kind != STREAM_K:
        per_unit = ceil(steps / partition.splits)
        return ceil(schedule.units / schedule.concurrent) * per_unit
    share = ceil(schedule.streamed * steps / schedule.shares) if schedule.shares else 0
    whole = schedule.tiles - schedule.streamed
    return share + ceil(whole / schedule.concurrent) * steps
