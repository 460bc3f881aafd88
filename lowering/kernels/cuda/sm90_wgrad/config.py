"""The choices that make one kernel of wgmma for gradients of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.config import (
    MAX_CLUSTER,
    OneOf,
    Range,
    Roles,
    WithRoles,
)
from convir.lowering.kernels.cuda.sm90_wgrad.problem import BLOCK_K, CHUNK, WgradProblem
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule, schedule_refusal

if TYPE_CHECKING:
    from convir.lowering.kernels.target import Target

ROLES = ((0, 4), (0, 8), (1, 4), (4, 4), (4, 8))
"""Producer warps, of which one thread copies, and that multiply: one or two warpgroups. Four that
load give registers to eight that multiply; where none does, a thread that multiplies copies."""
BLOCKS_M = (64, 128, 256)
BLOCKS_N = (64, 128, 160, 192, 256)
MOST_ACCUMULATORS = {1: 64 * 192, 2: 2 * 64 * 256}
"""Accumulators of a tile at most, by warpgroups that multiply. Two get registers from those that
load."""

SPLIT_TILES = ((128, 128), (64, 256), (64, 128), (128, 64))
"""Tiles of f32 as three products of TF32: a thread has the accumulators twice."""
LINES_TILES = (*SPLIT_TILES, (128, 256))
"""Tiles of TF32 whose channels are innermost: a warpgroup has 64 rows."""
LINES_ROLES = (4, 8)
"""The roles of both."""
_LINES_STAGES, _MOST_LINES_AHEAD = 2, 3
"""Stages that are converted or multiplied, and steps that are loaded before those, at most."""

_BOX_BYTES = BLOCK_K * CHUNK * 2
_ATOM_BYTES = 1024
_STAGED_ROW_BYTES = CHUNK * 2 + 16
_BARRIER_BYTES, _PUSHED_BARRIER_BYTES = 16, 8
"""Barriers of a stage, and of a warpgroup for accumulators that neighbours write."""
_SPLIT_BARRIER_BYTES = 8
"""That of a stage whose elements of A are split."""
_PUSHED_COLUMN = 4 * 128
"""Accumulators of a warpgroup that go to one block: four of each thread."""
_LEAST_KEPT = 3
"""Stages that are in use while neighbours write accumulators over the others."""
_MOST_SHARED_BYTES = 227 << 10
"""Of a block on sm_90."""


@dataclass(frozen=True)
class Sm90WgradConfig(WithRoles, family="sm90_wgrad", sizes=2):
    """Prints as `sm90_wgrad 64x64 stages=8 roles=1:4 cluster=2
    partition=split-k:6:reduce-scatter …`."""

    block_m: Annotated[int, OneOf(*BLOCKS_M)]
    """Output channels, of a tile."""
    block_n: Annotated[int, OneOf(*BLOCKS_N)]
    """Input channels of one or several taps, of a tile."""
    stages: Annotated[int, Range(2)]
    roles: Annotated[tuple[int, int], Roles(*ROLES)]
    """Producer and consumer warps."""
    cluster: Annotated[int, Range(1, MAX_CLUSTER)]
    """Blocks of a cluster, which have the splits of a tile and add them through their shared
    memory; 1 if all splits are added in global memory."""
    partition: Partition
    blocks: int
    """Blocks that run at a time, one for each multiprocessor."""
    products: Annotated[int, OneOf(1, 3)] = 1
    """Products of tensor cores for each product: 3 of TF32 are one of f32."""

    @property
    def out_channels(self) -> int:
        """Columns that a warpgroup multiplies at a time."""
        by_rows = self.block_m >= self.consumer_warpgroups * CHUNK
        return self.block_n if by_rows else self.block_n // self.consumer_warpgroups

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        if self.products > 1:
            return self._ring_bytes + self._aside_bytes
        exchanged = self.consumer_warpgroups * CHUNK * _STAGED_ROW_BYTES
        if self.drained is not None:
            exchanged = max(0, self._pushed_bytes - self.drained * self._stage_bytes)
            exchanged += self.consumer_warpgroups * _PUSHED_BARRIER_BYTES
        return self._ring_bytes + self._aside_bytes + exchanged

    @property
    def lines_ahead(self) -> int:
        """Steps that warps load before the one that they convert."""
        return min(self.stages - _LINES_STAGES, _MOST_LINES_AHEAD)

    @property
    def drained(self) -> int | None:
        """The stages over which blocks of a cluster write accumulators to where they are added,
        which are used no more by then; 0 if all accumulators have room beside, None if there is
        none, or no cluster."""
        if self.cluster == 1:
            return None
        barriers = self.consumer_warpgroups * _PUSHED_BARRIER_BYTES
        room = _MOST_SHARED_BYTES - self._ring_bytes - self._aside_bytes - barriers
        stages = max(0, -(-(self._pushed_bytes - room) // self._stage_bytes))
        return stages if stages == 0 or self.stages - stages >= _LEAST_KEPT else None

    @property
    def _stage_bytes(self) -> int:
        boxes_n = -(-self.block_n // CHUNK) * (2 if self.products > 1 else 1)
        return (self.block_m // CHUNK + boxes_n) * _BOX_BYTES

    @property
    def _ring_bytes(self) -> int:
        return self.stages * self._stage_bytes

    @property
    def _aside_bytes(self) -> int:
        """What aligns the ring, and its barriers."""
        barriers = _BARRIER_BYTES + (_SPLIT_BARRIER_BYTES if self.products > 1 else 0)
        return _ATOM_BYTES + self.stages * barriers

    @property
    def _pushed_bytes(self) -> int:
        """Accumulators of a tile that meet in a block of a cluster."""
        out_channels = self.block_m * self.block_n // self.consumer_warpgroups // _PUSHED_COLUMN
        return (
            self.consumer_warpgroups
            * -(-out_channels // self.cluster)
            * self.cluster
            * 4
            * _PUSHED_COLUMN
        )

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes."""
        refused = super().refusal()
        if refused is not None:
            return refused
        by_rows = self.block_m >= self.consumer_warpgroups * CHUNK
        narrow = 1 if by_rows else self.consumer_warpgroups
        if narrow > 1 and self.block_n % (narrow * CHUNK):
            return Refusal(f"block_n={self.block_n}: {CHUNK} for each of {narrow} warpgroups")
        if self.block_m * self.block_n > MOST_ACCUMULATORS[self.consumer_warpgroups]:
            return Refusal("a tile's accumulators exceed the registers")
        if self.products > 1:
            return self.lines_refusal(SPLIT_TILES)
        partition = self.partition
        is_whole = partition.reduction == "reduce-scatter" and partition.splits == self.cluster
        if self.cluster > 1 and not is_whole:
            return Refusal(
                f"cluster={self.cluster} needs "
                f"partition={SPLIT_K}:{self.cluster}:reduce-scatter, not {partition}"
            )
        if self.cluster > 1 and self.drained is None:
            return Refusal(f"{self.stages} stages leave no room for the accumulators of a cluster")
        return None

    def lines_refusal(self, tiles: tuple[tuple[int, int], ...]) -> Refusal | None:
        """Why no kernel of `tiles` converts f32 to lines of pixels with this config."""
        of = f"products={self.products}"
        if (self.block_m, self.block_n) not in tiles:
            return Refusal(f"{of}: tiles of f32 are {', '.join(f'{m}x{n}' for m, n in tiles)}")
        if self.roles != LINES_ROLES:
            return Refusal(f"{of}: roles of f32 are 4:8")
        if self.lines_ahead < 1:
            return Refusal(f"{of}: {self.stages} stages are too few for f32")
        return Refusal(f"{of}: no clusters of f32") if self.cluster > 1 else None


def tiles_of(problem: WgradProblem, config: Sm90WgradConfig) -> int:
    """Tiles of B."""
    rows = -(-problem.chunks_m // (config.block_m // CHUNK))
    # Of the last chunk a tile has a part, and others the rest.
    whole, rest = divmod(config.block_n, CHUNK)
    sharing = CHUNK // rest if rest else 1
    columns = -(-problem.chunks_n * sharing // (whole * sharing + (rest > 0)))
    return problem.groups * rows * columns


def refusal(problem: WgradProblem, config: Sm90WgradConfig, target: Target) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    refused = config.refusal() or target.shared_refusal(config.shared_bytes)
    if refused is None and (config.products > 1) != problem.is_split:
        refused = Refusal("three products are those of f32 in IEEE arithmetic, and no others")
    if refused is None and problem.transposes_a:
        refused = config.lines_refusal(LINES_TILES)
    if refused is not None:
        return refused
    tiles = tiles_of(problem, config)
    return schedule_refusal(config.partition, tiles, problem.steps, config.blocks)


def schedule_of(problem: WgradProblem, config: Sm90WgradConfig) -> Schedule:
    """How blocks divide the tiles of a legal config."""
    return Schedule(config.partition, tiles_of(problem, config), problem.steps, config.blocks)
