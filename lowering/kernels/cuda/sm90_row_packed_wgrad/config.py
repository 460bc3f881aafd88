"""The choices that make one instance of `stacked-wgrad`: tile, step, roles and partition."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from convir.dialects.refusal import Refusal
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
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import StackedProblem
    from convir.lowering.kernels.target import Target

DEPTHS = 64
"""Depths of a wgmma."""
EIGHT = 8
"""Positions, or columns, that lie together in shared memory."""
SLAB = 16
"""Positions of one wgmma."""
MAX_STACKED = 256
"""Columns of one wgmma."""
MAX_SUMS = 192
"""Sums that a thread keeps, of its 232 registers."""
MAX_BOX = 256
"""Positions along a dimension that TMA brings at once."""

MAX_WAITING = 4
"""Steps whose rows of dY wait to be taken apart."""
_FEW_MULTIPLY = (8, 4)
"""Roles for tiles of few sums, whose warps keep the registers that they begin with."""
STACKED_ROLES = (*ROLES, _FEW_MULTIPLY)
"""Warps that load, and warps that multiply."""
_CHUNK_VECTORS = 16
"""Of sums, that one block of a cluster adds; the next ones are another's."""
_COPY_BYTES = 16
"""TMA brings multiples of it."""
_ATOM_BYTES = 1024
_EIGHT_BYTES = 16
_BANK_EIGHTS = 8
"""Eights of columns that all banks hold."""


@dataclass(frozen=True)
class StackedWgradConfig(WithRoles, family="stacked-wgrad", sizes=3):
    """Prints as `stacked-wgrad 3x3x40 step=4x56 slab=2 stages=3 x=registers y=bulk roles=4:8 …`."""

    tap_rows: int
    """Taps of a tile along the rows, which one wgmma has."""
    tap_cols: int
    columns: Annotated[int, Range(EIGHT // 2, multiple=EIGHT // 2)]
    """Columns of a tile, a multiple of 8; or of 4, if two rows of them are packed."""
    depths: int
    """Depths of a tile: 64, or 64 for each of two consumer warpgroups."""
    step: Annotated[tuple[int, int], Range(1, MAX_BOX)]
    """Rows and columns of positions that a stage has."""
    slab_rows: Annotated[int, Key("slab"), OneOf(1, 2)]
    """Rows of the 16 positions of a wgmma."""
    stages: Annotated[int, Range(2)]
    waiting: Annotated[int, Range(1, MAX_WAITING)]
    """Steps whose rows of dY wait to be taken apart."""
    together: Annotated[int, Range(1, MAX_WAITING)]
    """Steps that a block takes apart in one go, in the beginning."""
    x: Literal["shared", "registers"]
    """Where wgmma finds X."""
    y: Literal["ring", "bulk", "async"]
    """How dY comes: as it lies, by TMA, and is taken apart; or piece by piece. Rows of
    a ring stay where they are if the next step of an image has them as well."""
    roles: Annotated[tuple[int, int], Roles(*STACKED_ROLES)]
    """Warps that load, and warps that multiply."""
    cluster: Annotated[int, Range(1, MAX_CLUSTER)]
    """Blocks of a cluster, which have the parts of a tile and add them through their shared memory;
    1 if parts meet in global memory."""
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
        if self.stacked > MAX_STACKED:
            return f"a wgmma has 8 to {MAX_STACKED} columns, not {self.stacked}"
        if self.is_packed and (not self.is_bulk or self.step[0] % 2):
            return "packed columns are taken apart by pairs of rows"
        if self.is_shifted and (self.tap_rows % 2 == 0 or self.step[0] % (2 * self.slab_rows)):
            return "groups that take turns of packed rows have odd numbers of taps, and whole slabs"
        if self.sums > MAX_SUMS:
            return f"{self.sums} sums of a thread do not fit its registers"
        if self.depths not in (DEPTHS, self.consumer_warpgroups * DEPTHS):
            load, math = self.roles
            most = self.consumer_warpgroups * DEPTHS
            return f"roles={load}:{math} needs depths={DEPTHS} or depths={most}, not {self.depths}"
        has_room = self.y == "bulk" and not self.trades_registers
        at_once = min(self.stages, self.waiting) if has_room else 1
        if self.together > at_once:
            return f"together={self.together}: of {at_once} steps that may be there"
        rows, cols = self.step
        if rows % self.slab_rows:
            return f"step={rows}x{cols} has no whole slabs of {self.slab_rows} rows"
        if cols % (SLAB // self.slab_rows) or self.slabs < self.turns:
            return f"step={rows}x{cols} has no slabs for {self.turns} groups"
        if self.y == "ring" and not 1 < self.tap_rows <= rows + 1:
            return (
                f"steps of {rows} rows share none, or more, where a tile has {self.tap_rows} taps"
            )
        if self.roles[0] == 0 and (self.x, self.y) != ("shared", "async"):
            math = self.roles[1]
            return f"roles=0:{math} needs x=shared y=async, not x={self.x} y={self.y}"
        if self.x == "registers" and not self.divides_slabs:
            return f"x=registers needs {self.turns} groups to divide {self.slabs} slabs"
        if self.cluster > 1 and self.y == "ring":
            return f"cluster={self.cluster} needs y=bulk or y=async: rings meet in global memory"
        within = f"split-k:{self.cluster}:slices"
        if self.cluster > 1 and str(self.partition) != within:
            return f"cluster={self.cluster} needs partition={within}, not {self.partition}"
        return None

    @property
    def turns(self) -> int:
        """Consumer warpgroups that take turns of slabs; the others have depths of their own."""
        return max(1, self.consumer_warpgroups * DEPTHS // self.depths)

    @property
    def finishes_apart(self) -> bool:
        """Whether each consumer warpgroup meets those of other parts by itself."""
        return self.turns < self.consumer_warpgroups and self.partition.reduction == "slices"

    @property
    def trades_registers(self) -> bool:
        """Whether warps that load give registers to those that multiply."""
        return sum(self.roles) > 2 * GROUP_WARPS and self.roles != _FEW_MULTIPLY

    @property
    def is_bulk(self) -> bool:
        """Whether rows of dY come as they lie."""
        return self.y != "async"

    @property
    def stacked(self) -> int:
        """Columns of one wgmma."""
        return ceil(self.tap_rows * self.columns / EIGHT) * EIGHT

    @property
    def is_packed(self) -> bool:
        """Whether a row of dY ends in the middle of eight columns."""
        return self.columns % EIGHT != 0

    @property
    def is_shifted(self) -> bool:
        """Whether one consumer warpgroup has the rows that begin in the middle of eight columns."""
        return self.is_packed and self.turns == 2

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.tap_cols * self.stacked // 2

    @property
    def slabs(self) -> int:
        """Multiplications of a step, by all consumer warpgroups."""
        return self.step[0] * self.step[1] // SLAB

    @property
    def divides_slabs(self) -> bool:
        """Whether consumer warpgroups have equal numbers of slabs of a step."""
        return self.slabs % self.turns == 0

    @property
    def kept(self) -> int:
        """Blocks of 8 columns of which a thread keeps the sums after warpgroups have added up."""
        return ceil(self.tap_cols * self.stacked // EIGHT / self.turns)

    def last_tap_cols(self, problem: StackedProblem) -> list[int]:
        """Of each tile's taps of a row, what the one furthest to the right reads of X."""
        return [max(taps) for taps in self._tap_cols(problem)]

    def reach(self, problem: StackedProblem) -> int:
        """Columns of dY that a row's positions read beside their own, in a tile."""
        return max(max(taps) - min(taps) for taps in self._tap_cols(problem))

    def _tap_cols(self, problem: StackedProblem) -> list[tuple[int, ...]]:
        taps = problem.cols.tap_rows
        return [taps[at : at + self.tap_cols] for at in range(0, len(taps), self.tap_cols)]

    def pitch(self, problem: StackedProblem) -> int:
        """Positions of dY between two planes: neighbours of which lie in different banks."""
        least = self.step[1] + self.reach(problem)
        if self.is_packed or least % _BANK_EIGHTS == 0:
            return least
        return least + (_BANK_EIGHTS // 2 - least) % _BANK_EIGHTS

    def tiles(self, spec: Contraction, problem: StackedProblem) -> int:
        """Tiles of B."""
        return (
            spec.groups
            * ceil(len(problem.rows.tap_rows) / self.tap_rows)
            * ceil(len(problem.cols.tap_rows) / self.tap_cols)
            * ceil(spec.columns / self.columns)
            * ceil(spec.depth / self.depths)
        )

    def steps(self, problem: StackedProblem) -> int:
        """Steps of a tile's reduction."""
        return (
            problem.images.size
            * ceil(problem.rows.extent / self.step[0])
            * ceil(problem.cols.extent / self.step[1])
        )

    def schedule(self, spec: Contraction, problem: StackedProblem) -> Schedule:
        """How blocks divide the tiles."""
        tiles, steps = self.tiles(spec, problem), self.steps(problem)
        return Schedule(self.partition, tiles, steps, self.blocks)

    def shared_bytes(self, problem: StackedProblem, columns: int) -> int:
        """Dynamic shared memory of a block: the pipeline or the exchanged sums, and barriers.

        Args:
            problem: what is computed.
            columns: all of them.
        """
        rows, cols = self.step
        of_x = rows * cols * self.depths * 2
        of_y = self._planes * self.pitch(problem) * _EIGHT_BYTES
        last = of_x if self.y == "ring" else of_x + of_y
        stages = (self.stages - 1) * ceil(last / _ATOM_BYTES) * _ATOM_BYTES + last
        stages += of_y if self.y == "ring" else 0
        sums = self.kept * self.consumer_warpgroups * GROUP_WARPS * 32 * 16
        exchange = 0 if self.turns == 1 and self.partition.reduction == "slices" else sums
        waiting = self.waiting * self._waiting_bytes(problem, columns) if self.is_bulk else 0
        held = max(stages + waiting, exchange)
        if self.cluster > 1:
            chunk = _CHUNK_VECTORS * 16
            held += ceil(sums / chunk / self.cluster) * self.cluster * chunk
        barriers = 2 * self.stages + 1 + self.waiting + (1 if self.cluster > 1 else 0)
        return _ATOM_BYTES + held + 8 * barriers

    @property
    def _planes(self) -> int:
        """Planes of eight columns of dY, of a step's window or of the ring."""
        window = self.step[0] + self.tap_rows - 1
        copies = 1
        if self.is_packed and not self.is_shifted:
            window, copies = window - 1, 2
        rows = window + (self.stages * self.step[0] if self.y == "ring" else 0)
        return copies * ceil(rows * self.columns / EIGHT)

    def _waiting_bytes(self, problem: StackedProblem, columns: int) -> int:
        """Bytes of the rows of dY that a step reads, as they lie."""
        position, both_ends = columns * 2, 2 * (_COPY_BYTES - 1)
        rows = self.step[0] + self.tap_rows - 1
        if problem.rows_follow and self.step[1] >= problem.cols.extent:
            row = problem.cols.size * position
            rows = min(rows, problem.rows.size)
        else:
            row = (self.step[1] + self.reach(problem)) * position + both_ends
            row = row // _COPY_BYTES * _COPY_BYTES
        rows = self.step[0] if self.y == "ring" else rows
        return (rows * row + both_ends) // _COPY_BYTES * _COPY_BYTES


def refusal(
    spec: Contraction, problem: StackedProblem, config: StackedWgradConfig, target: Target
) -> Refusal | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    refused = config.refusal()
    if refused is not None:
        return refused
    if config.is_bulk and not problem.is_dense:
        return Refusal("rows of dY are no whole copies")
    if config.is_packed and problem.y_piece < EIGHT:
        return Refusal(f"packed columns are no copies of {problem.y_piece} bytes")
    if config.is_bulk and config.columns < spec.columns:
        return Refusal("rows of dY have columns of several tiles")
    if config.y == "ring" and (config.step[1] < problem.cols.extent or not problem.rows_follow):
        return Refusal("a ring has whole rows of images")
    if config.y == "ring" and ceil(problem.rows.extent / config.step[0]) < config.stages:
        return Refusal("images of fewer steps than stages keep no rows")
    tiles, steps = config.tiles(spec, problem), config.steps(problem)
    refused = schedule_refusal(config.partition, tiles, steps, config.blocks)
    return refused or target.shared_refusal(config.shared_bytes(problem, spec.columns))
