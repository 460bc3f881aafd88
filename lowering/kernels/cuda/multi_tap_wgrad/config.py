"""The choices that make one instance of `taps-wgrad`: tile, pipeline, partition and math."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final, Literal

from convir.lowering.kernels.cuda.config import (
    GROUP_WARPS,
    ROLES,
    ConfigText,
    WithRoles,
    parse_roles,
    sizes,
)
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import Tap, TapsProblem

FAMILY: Final = "taps-wgrad"

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
class TapsWgradConfig(WithRoles):
    """Prints as `taps-wgrad 9x40 stages=4 math=wgmma roles=4:8 partition=… blocks=132`."""

    taps: int
    """Taps of a tile."""
    columns: int
    """Columns of a tile, a multiple of 8."""
    stages: int
    math: Literal["mma", "wgmma"]
    roles: tuple[int, int]
    """Warps that load, and warps that multiply: one of `ROLES`."""
    partition: Partition
    blocks: int
    """Blocks that run at the same time."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.taps}x{self.columns} stages={self.stages} math={self.math}"
            f" roles={self.roles_text} partition={self.partition}"
            f" blocks={self.blocks}"
        )

    def with_partition(self, partition: Partition) -> TapsWgradConfig:
        """The same with another partition."""
        return replace(self, partition=partition)

    def with_roles(self, load: int, math: int) -> TapsWgradConfig:
        """The same with other roles."""
        return replace(self, roles=(load, math))

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

    def schedule(self, spec: Contraction, problem: TapsProblem) -> Schedule:
        """How the tiles are divided over blocks.

        Raises:
            ValueError: the partition does not suit the tiles.
        """
        columns = ceil(spec.columns / self.columns)
        tiles = spec.groups * len(self.tap_groups(problem)) * columns * ceil(spec.depth / ROWS)
        return Schedule(self.partition, tiles, ceil(problem.positions / self.chunk), self.blocks)

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


def parse(text: str) -> TapsWgradConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    found = ConfigText.parse(text)
    keys = {"stages", "math", "roles", "partition", "blocks"}
    if found.family != FAMILY or len(found.words) != 1 or found.values.keys() != keys:
        raise ValueError(f"it is written {FAMILY} TAPSxCOLUMNS and has {', '.join(sorted(keys))}")
    taps, columns = sizes(found.words[0], 2)
    math = found.values["math"]
    if math not in ("mma", "wgmma"):
        raise ValueError(f"there is no math '{math}'")
    return TapsWgradConfig(
        taps,
        columns,
        int(found.values["stages"]),
        math,
        parse_roles(found.values["roles"]),
        Partition.parse(found.values["partition"]),
        int(found.values["blocks"]),
    )


def legality(
    spec: Contraction, problem: TapsProblem, config: TapsWgradConfig, shared_bytes: int
) -> str | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    reason = config.illegal_roles(ROLES)
    if reason is not None:
        return reason
    if config.columns % 8 or not 0 < config.columns <= MAX_COLUMNS:
        return f"tiles have 8 to {MAX_COLUMNS} columns, not {config.columns}"
    if config.taps < 1 or config.taps * config.columns // 2 > MAX_SUMS:
        return f"{config.taps}x{config.columns} sums are too many for {ROWS} depths"
    if config.stages < len(("filled", "waited for", "read")):
        return f"{config.stages} stages do not keep a pipeline going"
    if config.math == "mma" and sum(config.roles) > 2 * GROUP_WARPS:
        return f"without trade {sum(config.roles)} warps have too few registers each"
    try:
        config.schedule(spec, problem)
    except ValueError as error:
        return str(error)
    needed = config.shared_bytes(problem)
    if needed > shared_bytes:
        return f"it needs {needed} bytes of shared memory of {shared_bytes}"
    return None
