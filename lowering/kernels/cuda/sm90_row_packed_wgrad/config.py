"""The choices that make one instance of `sm90_row_packed_wgrad`: tile, step, roles and
partition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.config import (
    GROUP_WARPS,
    MAX_CLUSTER,
    ROLES,
    Key,
    OneOf,
    Range,
    Roles,
    WithRoles,
)
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule, schedule_refusal

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import RowPackedProblem
    from convir.lowering.kernels.target import Target

WGMMA_M = 64
"""Input channels of a wgmma."""
EIGHT = 8
"""Output pixels, or columns, that lie together in shared memory."""
SLAB = 16
"""Output pixels of one wgmma."""
MAX_PACKED = 256
"""Columns of one wgmma."""
MAX_ACCUMULATORS = 192
"""Accumulators that a thread keeps, of its 232 registers."""
MAX_BOX = 256
"""Positions along a dimension that TMA brings at once."""

MAX_STAGING = 4
"""Steps whose rows of dY wait to be taken apart."""
_FEW_MULTIPLY = (8, 4)
"""Roles for tiles of few accumulators, whose warps keep the registers that they begin with."""
ROW_PACKED_ROLES = (*ROLES, _FEW_MULTIPLY)
"""Producer warps, and consumer warps."""
_CHUNK_VECTORS = 16
"""Of accumulators, that one block of a cluster adds; the next ones are another's."""
_COPY_BYTES = 16
"""TMA brings multiples of it."""
_ATOM_BYTES = 1024
_EIGHT_BYTES = 16
_BANK_EIGHTS = 8
"""Eights of columns that all banks hold."""


@dataclass(frozen=True)
class RowPackedWgradConfig(WithRoles, family="sm90_row_packed_wgrad", sizes=3):
    """Prints as `sm90_row_packed_wgrad 3x3x40 step=4x56 slab=2 stages=3 x=registers y=tma
    roles=4:8 …`."""

    tap_rows: int
    """Taps of a tile along the rows, which one wgmma has."""
    tap_cols: int
    out_channels: Annotated[int, Range(EIGHT // 2, multiple=EIGHT // 2)]
    """Columns of a tile, a multiple of 8; or of 4, if two rows of them are packed."""
    tile_m: int
    """Input channels of a tile: 64, or 64 for each of two consumer warpgroups."""
    step: Annotated[tuple[int, int], Range(1, MAX_BOX)]
    """Rows and columns of output pixels that a stage has."""
    slab_rows: Annotated[int, Key("slab"), OneOf(1, 2)]
    """Rows of the 16 output pixels of a wgmma."""
    stages: Annotated[int, Range(2)]
    staging: Annotated[int, Range(1, MAX_STAGING)]
    """Steps whose rows of dY wait to be taken apart."""
    prologue: Annotated[int, Range(1, MAX_STAGING)]
    """Steps that a block takes apart in one go, in the beginning."""
    x: Literal["shared", "registers"]
    """Where wgmma finds X."""
    y: Literal["ring", "tma", "async"]
    """How dY comes: as it lies, by TMA, and is taken apart; or piece by piece. Rows of
    a ring stay where they are if the next step of an image has them as well."""
    roles: Annotated[tuple[int, int], Roles(*ROW_PACKED_ROLES)]
    """Producer warps, and consumer warps."""
    cluster: Annotated[int, Range(1, MAX_CLUSTER)]
    """Blocks of a cluster, which have the splits of a tile and add them through their shared
    memory; 1 if splits are added in global memory."""
    partition: Partition
    blocks: int
    """Blocks that run at the same time."""

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes."""
        refused = super().refusal()
        reason = None if refused is not None else self._contradiction()
        return refused if reason is None else Refusal(reason)

    def _contradiction(self) -> str | None:
        """What fields forbid together."""
        if self.packed > MAX_PACKED:
            return f"a wgmma has 8 to {MAX_PACKED} output channels, not {self.packed}"
        if self.is_packed and (not self.is_bulk or self.step[0] % 2):
            return "packed output channels are relaid by pairs of rows"
        if self.is_shifted and (self.tap_rows % 2 == 0 or self.step[0] % (2 * self.slab_rows)):
            return (
                "warpgroups that alternate on packed rows need odd numbers of taps, and whole slabs"
            )
        if self.accumulators > MAX_ACCUMULATORS:
            return f"{self.accumulators} accumulators of a thread do not fit its registers"
        if self.tile_m not in (WGMMA_M, self.consumer_warpgroups * WGMMA_M):
            load, math = self.roles
            most = self.consumer_warpgroups * WGMMA_M
            return f"roles={load}:{math} needs tile_m={WGMMA_M} or tile_m={most}, not {self.tile_m}"
        has_room = self.y == "tma" and not self.trades_registers
        at_once = min(self.stages, self.staging) if has_room else 1
        if self.prologue > at_once:
            return f"prologue={self.prologue}: of {at_once} steps that may be there"
        rows, cols = self.step
        if rows % self.slab_rows:
            return f"step={rows}x{cols} has no whole slabs of {self.slab_rows} rows"
        if cols % (SLAB // self.slab_rows) or self.slabs < self.slab_groups:
            return f"step={rows}x{cols} has no slabs for {self.slab_groups} groups"
        if self.y == "ring" and not 1 < self.tap_rows <= rows + 1:
            return (
                f"steps of {rows} rows share none, or more, where a tile has {self.tap_rows} taps"
            )
        if self.roles[0] == 0 and (self.x, self.y) != ("shared", "async"):
            math = self.roles[1]
            return f"roles=0:{math} needs x=shared y=async, not x={self.x} y={self.y}"
        if self.x == "registers" and not self.divides_slabs:
            return f"x=registers needs {self.slab_groups} groups to divide {self.slabs} slabs"
        if self.cluster > 1 and self.y == "ring":
            return (
                f"cluster={self.cluster} needs y=tma or y=async: rings are added in global memory"
            )
        within = f"split-k:{self.cluster}:reduce-scatter"
        if self.cluster > 1 and str(self.partition) != within:
            return f"cluster={self.cluster} needs partition={within}, not {self.partition}"
        return None

    @property
    def slab_groups(self) -> int:
        """Consumer warpgroups that take turns of slabs; the others have input channels of their
        own."""
        return max(1, self.consumer_warpgroups * WGMMA_M // self.tile_m)

    @property
    def finishes_apart(self) -> bool:
        """Whether each consumer warpgroup meets those of other splits by itself."""
        return (
            self.slab_groups < self.consumer_warpgroups
            and self.partition.reduction == "reduce-scatter"
        )

    @property
    def trades_registers(self) -> bool:
        """Whether producer warps give registers to those that multiply."""
        return sum(self.roles) > 2 * GROUP_WARPS and self.roles != _FEW_MULTIPLY

    @property
    def is_bulk(self) -> bool:
        """Whether rows of dY come as they lie."""
        return self.y != "async"

    @property
    def packed(self) -> int:
        """Columns of one wgmma."""
        return ceil(self.tap_rows * self.out_channels / EIGHT) * EIGHT

    @property
    def is_packed(self) -> bool:
        """Whether a row of dY ends in the middle of eight columns."""
        return self.out_channels % EIGHT != 0

    @property
    def is_shifted(self) -> bool:
        """Whether one consumer warpgroup has the rows that begin in the middle of eight columns."""
        return self.is_packed and self.slab_groups == 2

    @property
    def accumulators(self) -> int:
        """Accumulators of a thread."""
        return self.tap_cols * self.packed // 2

    @property
    def slabs(self) -> int:
        """Multiplications of a step, by all consumer warpgroups."""
        return self.step[0] * self.step[1] // SLAB

    @property
    def divides_slabs(self) -> bool:
        """Whether consumer warpgroups have equal numbers of slabs of a step."""
        return self.slabs % self.slab_groups == 0

    @property
    def kept(self) -> int:
        """Blocks of 8 columns of which a thread keeps the accumulators after warpgroups have
        added up."""
        return ceil(self.tap_cols * self.packed // EIGHT / self.slab_groups)

    def last_tap_cols(self, problem: RowPackedProblem) -> list[int]:
        """Of each tile's taps of a row, what the one furthest to the right reads of X."""
        return [max(taps) for taps in _tiled(problem.cols.tap_rows, self.tap_cols)]

    def reach(self, problem: RowPackedProblem) -> int:
        """Columns of dY that a row's output pixels read beside their own, in a tile."""
        return _reach(problem.cols.tap_rows, self.tap_cols)

    def pitch(self, problem: RowPackedProblem) -> int:
        """Output pixels of dY between two planes: neighbours of which lie in different banks."""
        least = self.step[1] + self.reach(problem)
        if self.is_packed or least % _BANK_EIGHTS == 0:
            return least
        return least + (_BANK_EIGHTS // 2 - least) % _BANK_EIGHTS

    def tiles(self, spec: Contraction, problem: RowPackedProblem) -> int:
        """Tiles of B."""
        return (
            spec.groups
            * ceil(len(problem.rows.tap_rows) / self.tap_rows)
            * ceil(len(problem.cols.tap_rows) / self.tap_cols)
            * ceil(spec.out_channels / self.out_channels)
            * ceil(spec.in_channels / self.tile_m)
        )

    def steps(self, problem: RowPackedProblem) -> int:
        """Steps of a tile's reduction."""
        return (
            problem.images.size
            * ceil(problem.rows.extent / self.step[0])
            * ceil(problem.cols.extent / self.step[1])
        )

    def schedule(self, spec: Contraction, problem: RowPackedProblem) -> Schedule:
        """How blocks divide the tiles."""
        tiles, steps = self.tiles(spec, problem), self.steps(problem)
        return Schedule(self.partition, tiles, steps, self.blocks)

    def shared_bytes(self, problem: RowPackedProblem, out_channels: int) -> int:
        """Dynamic shared memory of a block: the pipeline or the exchanged accumulators, and
        barriers.

        Args:
            problem: what is computed.
            columns: all of them.
        """
        rows, cols = self.step
        of_x = rows * cols * self.tile_m * 2
        of_y = self._planes * self.pitch(problem) * _EIGHT_BYTES
        last = of_x if self.y == "ring" else of_x + of_y
        stages = (self.stages - 1) * ceil(last / _ATOM_BYTES) * _ATOM_BYTES + last
        stages += of_y if self.y == "ring" else 0
        accumulators = self.kept * self.consumer_warpgroups * GROUP_WARPS * 32 * 16
        exchange = (
            0
            if self.slab_groups == 1 and self.partition.reduction == "reduce-scatter"
            else accumulators
        )
        staging = self.staging * self._waiting_bytes(problem, out_channels) if self.is_bulk else 0
        held = max(stages + staging, exchange)
        if self.cluster > 1:
            chunk = _CHUNK_VECTORS * 16
            held += ceil(accumulators / chunk / self.cluster) * self.cluster * chunk
        barriers = 2 * self.stages + 1 + self.staging + (1 if self.cluster > 1 else 0)
        return _ATOM_BYTES + held + 8 * barriers

    @property
    def _planes(self) -> int:
        """Planes of eight columns of dY, of a step's window or of the ring."""
        window = self.step[0] + self.tap_rows - 1
        copies = 1
        if self.is_packed and not self.is_shifted:
            window, copies = window - 1, 2
        rows = window + (self.stages * self.step[0] if self.y == "ring" else 0)
        return copies * ceil(rows * self.out_channels / EIGHT)

    def _waiting_bytes(self, problem: RowPackedProblem, out_channels: int) -> int:
        """Bytes of the rows of dY that a step reads, as they lie."""
        position, both_ends = out_channels * 2, 2 * (_COPY_BYTES - 1)
        rows = self.step[0] + self.tap_rows - 1
        if problem.rows_follow and self.step[1] >= problem.cols.extent:
            row = problem.cols.size * position
            rows = min(rows, problem.rows.size)
        else:
            row = (self.step[1] + self.reach(problem)) * position + both_ends
            row = row // _COPY_BYTES * _COPY_BYTES
        rows = self.step[0] if self.y == "ring" else rows
        return (rows * row + both_ends) // _COPY_BYTES * _COPY_BYTES


def _tiled(taps: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    return [taps[at : at + most] for at in range(0, len(taps), most)]


@lru_cache(maxsize=256)
def _reach(taps: tuple[int, ...], most: int) -> int:
    return max(max(tile) - min(tile) for tile in _tiled(taps, most))


def refusal(
    spec: Contraction, problem: RowPackedProblem, config: RowPackedWgradConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    refused = config.refusal()
    if refused is not None:
        return refused
    if config.is_bulk and not problem.is_dense:
        return Refusal("rows of dY are no whole copies")
    if config.is_packed and problem.y_piece < EIGHT:
        return Refusal(f"packed output channels are no copies of {problem.y_piece} bytes")
    if config.is_bulk and config.out_channels < spec.out_channels:
        return Refusal("rows of dY have output channels of several tiles")
    if config.y == "ring" and (config.step[1] < problem.cols.extent or not problem.rows_follow):
        return Refusal("a ring has whole rows of images")
    if config.y == "ring" and ceil(problem.rows.extent / config.step[0]) < config.stages:
        return Refusal("images of fewer steps than stages keep no rows")
    tiles, steps = config.tiles(spec, problem), config.steps(problem)
    refused = schedule_refusal(config.partition, tiles, steps, config.blocks)
    return refused or target.shared_refusal(config.shared_bytes(problem, spec.out_channels))
