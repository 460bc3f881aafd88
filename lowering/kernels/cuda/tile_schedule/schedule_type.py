"""A schedule as the C++ type of `schedule/partition.cuh` that mirrors it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.tile_schedule.partition import DATA_PARALLEL, SPLIT_K, STREAM_K

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule

_KINDS = {DATA_PARALLEL: "kDataParallel", SPLIT_K: "kSplitK", STREAM_K: "kStreamK"}


def schedule_type(schedule: Schedule) -> str:
    """`convir::partition::Schedule<…>` for `schedule`."""
    partition = schedule.partition
    whole_are_blocks = "true" if partition.waves == "blocks" else "false"
    return (
        f"convir::partition::Schedule<convir::partition::Kind::{_KINDS[partition.kind]}, "
        f"{schedule.tiles}, {schedule.steps}, {schedule.concurrent}, {partition.splits}, "
        f"{whole_are_blocks}>"
    )
