"""The choices that make one instance of `taps-wgrad`: tile, pipeline, partition and math."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.config import (
    GROUP_WARPS,
    ROLES,
    Range,
    Roles,
    WithRoles,
)
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule, schedule_refusal

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import Tap, TapsProblem
    from convir.lowering.kernels.target import Target

ROWS = 64
"""Depths of a tile."""
GROUP_CHUNK = 64
"""Positions of a step, for each consumer warpgroup."""
SLAB = 16
"""Positions of one multiplication."""
MAX_SUMS = 192
"""Sums that a thread keeps, of its 232 registers."""
MAX_COLUMNS = 48
"""Columns of one wgmma that the template has."""


@dataclass(frozen=True)
class TapsWgradConfig(WithRoles, family="taps-wgrad", sizes=2):
    """Prints as `taps-wgrad 9x40 stages=4 math=wgmma roles=4:8 partition=… blocks=132`."""

    taps: int
    """Taps of a tile."""
    columns: Annotated[int, Range(8, MAX_COLUMNS, multiple=8)]
    """Columns of a tile."""
    stages: Annotated[int, Range(3)]
    """Steps that are being filled, waited for and read."""
    math: Literal["mma", "wgmma"]
    roles: Annotated[tuple[int, int], Roles(*ROLES)]
    """Warps that load, and warps that multiply."""
    partition: Partition
    blocks: int
    """Blocks that run at the same time."""

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes."""
        if self.taps * self.columns // 2 > MAX_SUMS:
            return Refusal(f"{self.taps}x{self.columns} sums are too many for {ROWS} depths")
        if self.math == "mma" and sum(self.roles) > 2 * GROUP_WARPS:
            return Refusal(f"without trade {sum(self.roles)} warps have too few registers each")
        return super().refusal()

    @property
    def trades_registers(self) -> bool:
        """Whether warps that load give registers to those that multiply."""
        return self.math == "wgmma" and self.roles[0] > 0 and sum(self.roles) > 2 * GROUP_WARPS

    @property
    def chunk(self) -> int:
        """Positions of a step."""
        return GROUP_CHUNK * self.consumer_warpgroups

    @property
    def kept(self) -> int:
        """Blocks of 8 columns of which a thread keeps the sums after warpgroups have added up."""
        return ceil(self.taps * self.columns // 8 / self.consumer_warpgroups)

    def tap_groups(self, problem: TapsProblem) -> tuple[tuple[Tap, ...], ...]:
        """The taps of each tile, which read one plane of X."""
        return tuple(
            taps[i : i + self.taps]
            for taps in problem.planes().values()
            for i in range(0, len(taps), self.taps)
        )

    def work(self, spec: Contraction, problem: TapsProblem) -> tuple[int, int]:
        """Tiles, and the steps of each."""
        columns = ceil(spec.columns / self.columns)
        tiles = spec.groups * len(self.tap_groups(problem)) * columns * ceil(spec.depth / ROWS)
        return tiles, ceil(problem.positions / self.chunk)

    def schedule(self, spec: Contraction, problem: TapsProblem) -> Schedule:
        """How blocks divide the tiles."""
        return Schedule(self.partition, *self.work(spec, problem), self.blocks)

    def shared_bytes(self, problem: TapsProblem) -> int:
        """Dynamic shared memory of a block: the pipeline or the exchanged sums, and barriers."""
        lead = ceil(reach(self.tap_groups(problem)) / self.chunk)
        ring = (self.stages + 2 * lead) * self.chunk
        pipeline = self.stages * self.chunk * ROWS * 2 + self.columns * 2 * (ring + SLAB)
        exchange = self.kept * self.consumer_warpgroups * GROUP_WARPS * 32 * 16
        return max(pipeline, exchange) + 8 * (2 * self.stages + 1)


def base_of(group: tuple[Tap, ...]) -> int:
    """The shift in the middle of a group's, from which the others are counted."""
    shifts = [tap.shift for tap in group]
    return (min(shifts) + max(shifts)) // 2


def reach(groups: tuple[tuple[Tap, ...], ...]) -> int:
    """Positions between a tap and the middle of its group, at most."""
    return max(abs(tap.shift - base_of(group)) for group in groups for tap in group)


def refusal(
    spec: Contraction, problem: TapsProblem, config: TapsWgradConfig, target: Target
) -> Refusal | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    tiles, steps = config.work(spec, problem)
    refused = config.refusal() or schedule_refusal(config.partition, tiles, steps, config.blocks)
    return refused or target.shared_refusal(config.shared_bytes(problem))
