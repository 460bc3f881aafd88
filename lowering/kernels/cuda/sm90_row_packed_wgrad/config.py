"""The choices that make one instance of `stacked-wgrad`: tile, step, roles and partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final, Literal

from convir.lowering.kernels.cuda.config import (
    GROUP_WARPS,
    MAX_CLUSTER,
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
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import StackedProblem

FAMILY: Final = "stacked-wgrad"

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
_SIZES = ("depths", "step", "slab", "stages", "waiting", "together", "cluster", "blocks")
_KEYS = frozenset((*_SIZES, "x", "y", "roles", "partition"))
_CHUNK_VECTORS = 16
"""Of sums, that one block of a cluster adds; the next ones are another's."""
_COPY_BYTES = 16
"""TMA brings multiples of it."""
_ATOM_BYTES = 1024
_EIGHT_BYTES = 16
_BANK_EIGHTS = 8
"""Eights of columns that all banks hold."""


@dataclass(frozen=True)
class StackedWgradConfig(WithRoles):
    """Prints as `stacked-wgrad 3x3x40 step=4x56 slab=2 stages=3 x=registers y=bulk roles=4:8 …`."""

    tap_rows: int
    """Taps of a tile along the rows, which one wgmma has."""
    tap_cols: int
    columns: int
    """Columns of a tile, a multiple of 8; or of 4, if two rows of them are packed."""
    depths: int
    """Depths of a tile: 64, or 64 for each of two consumer warpgroups."""
    step: tuple[int, int]
    """Rows and columns of positions that a stage has."""
    slab_rows: int
    """Rows of the 16 positions of a wgmma: 1 or 2."""
    stages: int
    waiting: int
    """Steps whose rows of dY wait to be taken apart."""
    together: int
    """Steps that a block takes apart in one go, in the beginning."""
    x: Literal["shared", "registers"]
    """Where wgmma finds X."""
    y: Literal["ring", "bulk", "async"]
    """How dY comes: as it lies, by TMA, and is taken apart; or piece by piece. Rows of
    a ring stay where they are if the next step of an image has them as well."""
    roles: tuple[int, int]
    """Warps that load, and warps that multiply: one of `STACKED_ROLES`."""
    cluster: int
    """Blocks of a cluster, which have the parts of a tile and add them through their shared memory;
    1 if parts meet in global memory."""
    partition: Partition
    blocks: int
    """Blocks that run at the same time."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.tap_rows}x{self.tap_cols}x{self.columns} depths={self.depths}"
            f" step={self.step[0]}x{self.step[1]} slab={self.slab_rows} stages={self.stages}"
            f" waiting={self.waiting} together={self.together} x={self.x} y={self.y}"
            f" roles={self.roles_text} cluster={self.cluster}"
            f" partition={self.partition} blocks={self.blocks}"
        )

    @staticmethod
    def parse(text: str) -> StackedWgradConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        found = ConfigText.parse(text)
        if found.family != FAMILY or len(found.words) != 1 or found.values.keys() != _KEYS:
            raise ValueError(
                f"it is written {FAMILY} ROWSxTAPSxCOLUMNS and has {', '.join(sorted(_KEYS))}"
            )
        tap_rows, tap_cols, columns = sizes(found.words[0], 3)
        step_rows, step_cols = sizes(found.values["step"], 2)
        x, y = found.values["x"], found.values["y"]
        if x not in ("shared", "registers") or y not in ("ring", "bulk", "async"):
            raise ValueError(f"x is not {x}, or y not {y}")
        return StackedWgradConfig(
            tap_rows,
            tap_cols,
            columns,
            int(found.values["depths"]),
            (step_rows, step_cols),
            int(found.values["slab"]),
            int(found.values["stages"]),
            int(found.values["waiting"]),
            int(found.values["together"]),
            x,
            y,
            parse_roles(found.values["roles"]),
            int(found.values["cluster"]),
            Partition.parse(found.values["partition"]),
            int(found.values["blocks"]),
        )

    def with_partition(self, partition: Partition) -> StackedWgradConfig:
        """The same tile, divided otherwise; parts then meet in global memory."""
        return replace(self, partition=partition, cluster=1)

    def with_roles(self, load: int, math: int) -> StackedWgradConfig:
        """The same with other roles, and operands brought as they can."""
        depths = min(self.depths, math // GROUP_WARPS * DEPTHS)
        changed = replace(self, roles=(load, math), depths=depths)
        if load == 0:
            whole = ceil(self.columns / EIGHT) * EIGHT
            return replace(changed, columns=whole, together=1, x="shared", y="async")
        return changed if changed.divides_slabs else replace(changed, x="shared")

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
        """How the tiles are divided over blocks.

        Raises:
            ValueError: the partition does not suit the tiles.
        """
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


def legality(
    spec: Contraction, problem: StackedProblem, config: StackedWgradConfig, shared_bytes: int
) -> str | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    reason = _illegal(config)
    if reason is not None:
        return reason
    if config.is_bulk and not problem.is_dense:
        return "rows of dY are no whole copies"
    if config.is_packed and problem.y_piece < EIGHT:
        return f"packed columns are no copies of {problem.y_piece} bytes"
    if config.is_bulk and config.columns < spec.columns:
        return "rows of dY have columns of several tiles"
    if config.y == "ring" and (config.step[1] < problem.cols.extent or not problem.rows_follow):
        return "a ring has whole rows of images"
    if config.y == "ring" and ceil(problem.rows.extent / config.step[0]) < config.stages:
        return "images of fewer steps than stages keep no rows"
    try:
        config.schedule(spec, problem)
    except ValueError as error:
        return str(error)
    needed = config.shared_bytes(problem, spec.columns)
    if needed > shared_bytes:
        return f"it needs {needed} bytes of shared memory of {shared_bytes}"
    return None


def _illegal(config: StackedWgradConfig) -> str | None:
    reason = config.illegal_roles(STACKED_ROLES)
    if reason is not None:
        return reason
    if config.columns % (EIGHT // 2) or not 0 < config.stacked <= MAX_STACKED:
        return f"a wgmma has 8 to {MAX_STACKED} columns, not {config.stacked}"
    if config.is_packed and (not config.is_bulk or config.step[0] % 2):
        return "packed columns are taken apart by pairs of rows"
    if config.is_shifted and (config.tap_rows % 2 == 0 or config.step[0] % (2 * config.slab_rows)):
        return "groups that take turns of packed rows have odd numbers of taps, and whole slabs"
    if not 0 < config.sums <= MAX_SUMS:
        return f"{config.sums} sums of a thread do not fit its registers"
    if config.depths not in (DEPTHS, config.consumer_warpgroups * DEPTHS):
        return f"{config.consumer_warpgroups} consumer warpgroups have no {config.depths} depths"
    if not 1 <= config.waiting <= MAX_WAITING:
        return f"{config.waiting} steps do not wait to be taken apart"
    has_room = config.y == "bulk" and not config.trades_registers
    at_once = min(config.stages, config.waiting) if has_room else 1
    if not 1 <= config.together <= at_once:
        return (
            f"{config.together} steps are not taken apart together, of {at_once} that may be there"
        )
    rows, cols = config.step
    if config.slab_rows not in (1, 2) or rows % config.slab_rows or max(config.step) > MAX_BOX:
        return f"steps of {rows}x{cols} positions are not copied and multiplied"
    if cols % (SLAB // config.slab_rows) or config.slabs < config.turns:
        return f"steps of {rows}x{cols} positions are no slabs for {config.turns} groups"
    if config.y == "ring" and not 1 < config.tap_rows <= rows + 1:
        return f"steps of {rows} rows share none, or more, where a tile has {config.tap_rows} taps"
    if config.roles[0] == 0 and (config.x, config.y) != ("shared", "async"):
        return "warps that do everything copy piece by piece, and multiply from shared memory"
    if config.x == "registers" and not config.divides_slabs:
        return f"{config.slabs} slabs are not divided over {config.turns} groups"
    if config.stages < len(("filled", "read")):
        return f"{config.stages} stages do not keep a pipeline going"
    if not 1 <= config.cluster <= MAX_CLUSTER:
        return f"clusters have {MAX_CLUSTER} blocks or fewer"
    if config.cluster > 1 and config.y == "ring":
        return "parts that keep rows meet in global memory"
    within = f"split-k:{config.cluster}:slices"
    if config.cluster > 1 and str(config.partition) != within:
        return f"a cluster that adds parts needs {within}"
    return None
