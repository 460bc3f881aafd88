"""Which steps of which tiles a unit does: closed forms, which `schedule/partition.cuh` mirrors.

With T tiles of I steps and U units that run at the same time:

* data-parallel: unit t does tile t.
* split-K in P splits: unit p·T + t does split p of tile t, steps ⌊I·p/P⌋ to ⌊I·(p+1)/P⌋, so units
  that run together read the same part of the operands.
* stream-K (Osama et al., "Stream-K", PPoPP 2023; arXiv 2301.03598), as a two-tile hybrid: if T is
  no multiple of U, the first T mod U + U tiles (all of them if there are fewer) are *streamed*:
  their steps, in order, are cut into equal shares, one for each unit. The tiles behind them are
  whole. A unit goes through its share from the end to the beginning, then does its whole tiles.

Split 0 of a tile has its first steps. The unit of the last split stores the tile. In all three the
splits of a tile belong to ascending units, and a unit only ever waits for lower ones; going
backwards, it has published its own split, of the tile that it begins, before it waits. So units may
start in ascending order, as few at a time as there is room for, and every wait ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.tile_schedule.partition import DATA_PARALLEL, SPLIT_K

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.kernels.cuda.tile_schedule.partition import Partition

MIN_STEPS = 8
"""Steps of a unit's share at least (CUTLASS: `min_iters_per_sk_unit_`)."""

ACCUMULATOR_BYTES = 4
"""Splits are kept in f32."""

FLAG_BYTES = 4
"""One flag for each unit that publishes."""
COUNTER_BYTES = 256
"""One counter for each tile of a reduce-scatter: lines of their own, as all who wait keep asking
for them."""


@dataclass(frozen=True)
class Work:
    """Steps of one tile, done by one unit."""

    tile: int
    begin: int
    end: int
    """Steps `begin` to `end`, the latter excluded."""
    split: int = 0
    """Which part of the tile this is, in the order of the steps."""
    splits: int = 1
    """Into how many splits the tile is divided."""
    first_unit: int = 0
    """The unit of split 0; the unit of split p is `first_unit + p * unit_step`."""
    unit_step: int = 1

    @property
    def is_owner(self) -> bool:
        """Whether its unit adds the splits, and stores the tile."""
        return self.split == self.splits - 1


def schedule_refusal(
    partition: Partition, tiles: int, steps: int, concurrent: int
) -> Refusal | None:
    """Why `tiles` tiles of `steps` steps are not divided so; None if they are."""
    if min(tiles, steps, concurrent) < 1:
        return Refusal("a schedule has tiles, steps and units")
    if partition.kind == SPLIT_K and partition.splits > steps:
        return Refusal(f"{steps} steps are not divided into {partition.splits}")
    if partition.reduction == "reduce-scatter" and tiles * partition.splits > concurrent:
        return Refusal(f"{tiles * partition.splits} units do not run at the same time")
    return None


@dataclass(frozen=True)
class Schedule:
    """A partition of `tiles` tiles of `steps` steps, for `concurrent` units at a time.

    Raises:
        ValueError: `schedule_refusal` says why.
    """

    partition: Partition
    tiles: int
    steps: int
    concurrent: int

    def __post_init__(self) -> None:
        refused = schedule_refusal(self.partition, self.tiles, self.steps, self.concurrent)
        if refused is not None:
            raise ValueError(refused.reason)

    @property
    def streamed(self) -> int:
        """The tiles that are streamed: those before the whole ones."""
        if self.partition.kind in (DATA_PARALLEL, SPLIT_K):
            return 0
        if self.tiles < self.concurrent:
            return self.tiles
        rest = self.tiles % self.concurrent
        return rest + self.concurrent if rest else 0

    @property
    def shares(self) -> int:
        """The units that stream."""
        steps = self.streamed * self.steps
        return min(self.concurrent, max(1, steps // MIN_STEPS)) if steps else 0

    @property
    def units(self) -> int:
        """All units: the blocks of a launch."""
        if self.partition.kind == DATA_PARALLEL:
            return self.tiles
        if self.partition.kind == SPLIT_K:
            return self.tiles * self.partition.splits
        whole = self.tiles - self.streamed
        if self.partition.waves == "blocks":
            return self.shares + whole
        return max(self.shares, min(whole, self.concurrent))

    @property
    def has_shares(self) -> bool:
        """Whether every unit publishes, and adds a share: then all of them run at the same time."""
        return self.partition.reduction == "reduce-scatter"

    @property
    def slots(self) -> int:
        """Units that may publish a part: each has one slot of the workspace and one flag."""
        if self.partition.kind == SPLIT_K:
            published = self.partition.splits - (not self.has_shares)
            return self.tiles * published
        return max(0, self.shares - 1)

    def workspace_bytes(self, accumulators: int) -> int:
        """Bytes of the workspace for tiles of `accumulators` results."""
        return self.slots * accumulators * ACCUMULATOR_BYTES

    @property
    def flag_bytes(self) -> int:
        """Bytes of flags or counters: zero before the first launch, and left zero by every one."""
        return self.tiles * COUNTER_BYTES if self.has_shares else self.slots * FLAG_BYTES

    def share_begin(self, unit: int) -> int:
        """The first streamed step of a unit, counted over all streamed tiles."""
        base, longer = divmod(self.streamed * self.steps, self.shares)
        return unit * base + min(unit, longer)

    def unit_of(self, step: int) -> int:
        """The unit that does a streamed step."""
        base, longer = divmod(self.streamed * self.steps, self.shares)
        if step < longer * (base + 1):
            return step // (base + 1)
        return longer + (step - longer * (base + 1)) // base

    def works(self, unit: int) -> Iterator[Work]:
        """What a unit does, in order."""
        if self.partition.kind == DATA_PARALLEL:
            yield Work(unit, 0, self.steps)
            return
        if self.partition.kind == SPLIT_K:
            yield self._split(unit)
            return
        if unit < self.shares:
            yield from self._share(unit)
        yield from (Work(tile, 0, self.steps) for tile in self._whole(unit))

    def _split(self, unit: int) -> Work:
        split, tile = divmod(unit, self.tiles)
        splits = self.partition.splits
        begin, end = self.steps * split // splits, self.steps * (split + 1) // splits
        return Work(tile, begin, end, split, splits, tile, self.tiles)

    def _share(self, unit: int) -> Iterator[Work]:
        begin, at = self.share_begin(unit), self.share_begin(unit + 1)
        while at > begin:
            tile = (at - 1) // self.steps
            origin = tile * self.steps
            start = max(begin, origin)
            first, last = self.unit_of(origin), self.unit_of(origin + self.steps - 1)
            yield Work(tile, start - origin, at - origin, unit - first, last - first + 1, first)
            at = start

    def _whole(self, unit: int) -> range:
        if self.partition.waves == "blocks":
            tile = self.streamed + unit - self.shares
            return range(tile, tile + 1 if unit >= self.shares else tile)
        return range(self.streamed + unit, self.tiles, self.units)


def senders(work: Work, reduction: str) -> tuple[int, ...]:
    """The splits whose accumulators a part's unit adds to its own, in order.

    Linear: the owner adds all of them, the last split first. Tree: counted from the owner down,
    split q receives q + 1, q + 2, q + 4, …, as long as q is a multiple of twice the distance.
    """
    down = work.splits - 1 - work.split
    if reduction == "linear":
        return tuple(range(work.split - 1, -1, -1)) if down == 0 else ()
    found: list[int] = []
    distance = 1
    while down % (2 * distance) == 0 and down + distance < work.splits:
        found.append(work.split - distance)
        distance *= 2
    return tuple(found)
