"""The choices that make one instance of `multi_tap_wgrad`: tile, pipeline, partition and math."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from convir.analysis.refusal import Refusal
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
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import MultiTapProblem, Tap
    from convir.lowering.kernels.target import Target

ROWS = 64
"""Input channels of a tile."""
GROUP_CHUNK = 64
"""Output pixels of a step, for each consumer warpgroup."""
SLAB = 16
"""Output pixels of one multiplication."""
MAX_ACCUMULATORS = 192
"""Accumulators that a thread keeps, of its 232 registers."""
MAX_COLUMNS = 48
"""Columns of one wgmma that the kernel family has."""


@dataclass(frozen=True)
class MultiTapWgradConfig(WithRoles, family="multi_tap_wgrad", sizes=2):
    """Prints as `multi_tap_wgrad 9x40 stages=4 instruction=wgmma roles=4:8 partition=…
    blocks=132`."""

    taps: int
    """Taps of a tile."""
    out_channels: Annotated[int, Range(8, MAX_COLUMNS, multiple=8)]
    """Columns of a tile."""
    stages: Annotated[int, Range(3)]
    """Steps that are being filled, waited for and read."""
    instruction: Literal["mma", "wgmma"]
    roles: Annotated[tuple[int, int], Roles(*ROLES)]
    """Producer warps, and consumer warps."""
    partition: Partition
    blocks: int
    """Blocks that run at the same time."""

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes."""
        if self.taps * self.out_channels // 2 > MAX_ACCUMULATORS:
            return Refusal(
                f"{self.taps}x{self.out_channels} accumulators are too many for "
                f"{ROWS} input channels"
            )
        if self.instruction == "mma" and sum(self.roles) > 2 * GROUP_WARPS:
            return Refusal(f"without trade {sum(self.roles)} warps have too few registers each")
        return super().refusal()

    @property
    def trades_registers(self) -> bool:
        """Whether producer warps give registers to those that multiply."""
        return (
            self.instruction == "wgmma" and self.roles[0] > 0 and sum(self.roles) > 2 * GROUP_WARPS
        )

    @property
    def chunk(self) -> int:
        """Output pixels of a step."""
        return GROUP_CHUNK * self.consumer_warpgroups

    @property
    def kept(self) -> int:
        """Blocks of 8 columns of which a thread keeps the accumulators after warpgroups have
        added up."""
        return ceil(self.taps * self.out_channels // 8 / self.consumer_warpgroups)

    def tap_groups(self, problem: MultiTapProblem) -> tuple[tuple[Tap, ...], ...]:
        """The taps of each tile, which read one plane of X."""
        return tuple(
            taps[i : i + self.taps]
            for taps in problem.planes().values()
            for i in range(0, len(taps), self.taps)
        )

    def work(self, spec: Contraction, problem: MultiTapProblem) -> tuple[int, int]:
        """Tiles, and the steps of each."""
        out_channels = ceil(spec.out_channels / self.out_channels)
        tiles = (
            spec.groups
            * len(self.tap_groups(problem))
            * out_channels
            * ceil(spec.in_channels / ROWS)
        )
        return tiles, ceil(problem.pixels / self.chunk)

    def schedule(self, spec: Contraction, problem: MultiTapProblem) -> Schedule:
        """How blocks divide the tiles."""
        return Schedule(self.partition, *self.work(spec, problem), self.blocks)

    def shared_bytes(self, problem: MultiTapProblem) -> int:
        """Dynamic shared memory of a block: the pipeline or the exchanged accumulators, and
        barriers."""
        lead = ceil(reach(self.tap_groups(problem)) / self.chunk)
        ring = (self.stages + 2 * lead) * self.chunk
        pipeline = self.stages * self.chunk * ROWS * 2 + self.out_channels * 2 * (ring + SLAB)
        exchange = self.kept * self.consumer_warpgroups * GROUP_WARPS * 32 * 16
        return max(pipeline, exchange) + 8 * (2 * self.stages + 1)


def base_of(group: tuple[Tap, ...]) -> int:
    """The shift in the middle of a group's, from which the others are counted."""
    shifts = [tap.shift for tap in group]
    return (min(shifts) + max(shifts)) // 2


def reach(groups: tuple[tuple[Tap, ...], ...]) -> int:
    """Output pixels between a tap and the middle of its group, at most."""
    return max(abs(tap.shift - base_of(group)) for group in groups for tap in group)


def narrow_refusal(spec: Contraction) -> Refusal | None:
    """Why a kernel that has all output channels in one tile is not worth considering."""
    if spec.out_channels > MAX_COLUMNS:
        return Refusal(
            f"{spec.out_channels} output channels are several tiles, which all read the other input"
        )
    if spec.in_channels < ROWS // 2:
        return Refusal(f"{spec.in_channels} input channels fill less than half of a tile")
    return None


def refusal(
    spec: Contraction, problem: MultiTapProblem, config: MultiTapWgradConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    tiles, steps = config.work(spec, problem)
    refused = config.refusal() or schedule_refusal(config.partition, tiles, steps, config.blocks)
    return refused or target.shared_refusal(config.shared_bytes(problem))
