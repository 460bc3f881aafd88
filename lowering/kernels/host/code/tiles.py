"""Which registers a kernel uses: a model of ports, latencies and register files.

There are three ways to fill vectors. A *broadcast* tile holds vectors of columns and broadcasts
elements of rows; it wants at least a vector of columns. A *dot* tile holds vectors of partial sums
along the depth, which are added up at the end; it wants a depth of several vectors, and serves
products with few columns. A *group* tile holds the columns of several groups in one vector, and
spreads the elements of a row over the lanes of their groups; it serves groups with few columns,
depthwise convolutions among them. In each case a tile is `rows` rows high.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from convir.lowering.kernels.host.target import CpuTarget

KEPT_CHOICES = 256
"""How many choices of one kind stay in memory, 1 KiB each: more than a network has shapes."""

MAX_ROWS = 8
"""A row of a tile needs a general register for its address, of which there are 16."""

SLACK = 8
"""Addresses that are read or written at a time, at least as many as a tile has rows; each line of
a table has room for the excess."""

MAX_DOT_COLUMNS = 8
"""Columns of a dot tile, and no more than lanes; more would rather be a vector."""

MOST_DOT_VECTORS = 2
"""With more vectors of columns than this a dot tile saves little of the last one, and reads more
than the first-level cache holds: each column of its panel is as long as a row."""

LATENCY_CHAINS = 8
"""Independent multiply-adds that keep the arithmetic busy: latency 4, two a cycle."""

LOAD_ISSUE_COST = 0.05
"""Cycles that a load adds to a step although it runs beside the arithmetic."""

SPREAD_COST = 0.25
"""Cycles to spread a row's elements over the lanes of their groups, beside the arithmetic."""

HORIZONTAL_SUM_COST = 2.0
"""Cycles to add up the lanes of one accumulator, when many are added up together."""


@dataclass(frozen=True)
class BroadcastTile:
    """Accumulators of `rows` rows times `vectors` vectors of columns."""

    rows: int
    vectors: int

    def out_channels(self, lanes: int) -> int:
        """Columns of a panel of weights."""
        return self.vectors * lanes

    def narrowed(self, out_channels: int, lanes: int) -> BroadcastTile:
        """The same tile for the `out_channels` columns that are left for the last panel."""
        return BroadcastTile(self.rows, -(-out_channels // lanes))

    def panel_elements(self, in_channels: int, lanes: int) -> int:
        """Elements of one tap of a packed panel, `[in_channels][column]`."""
        return in_channels * self.vectors * lanes

    def cycles(self, taps: float, in_channels: int, lanes: int) -> float:
        """Cycles of a tile, on a core with two loads and two multiply-adds a cycle."""
        return taps * in_channels * _step_cycles(self.rows, self.vectors)

    def registers(self, cpu: CpuTarget) -> int:
        """Vector registers that it needs."""
        # The broadcast element needs a register, and so does a product that is not fused.
        return self.rows * self.vectors + self.vectors + (1 if cpu.fma else 2)


@dataclass(frozen=True)
class DotTile:
    """Accumulators of `rows` rows times `width` columns, each a vector of partial sums."""

    rows: int
    width: int

    def out_channels(self, lanes: int) -> int:
        """Columns of a panel of weights."""
        return self.width

    def narrowed(self, out_channels: int, lanes: int) -> DotTile:
        """The same tile for the `out_channels` columns that are left for the last panel."""
        return DotTile(self.rows, out_channels)

    def panel_elements(self, in_channels: int, lanes: int) -> int:
        """Elements of one tap of a packed panel, `[in_channels vector][column][lane]`."""
        return -(-in_channels // lanes) * lanes * self.width

    def cycles(self, taps: float, in_channels: int, lanes: int) -> float:
        """Cycles of a tile, on a core with two loads and two multiply-adds a cycle."""
        steps = taps * -(-in_channels // lanes) * _step_cycles(self.rows, self.width)
        return steps + HORIZONTAL_SUM_COST * self.rows * self.width

    def registers(self, cpu: CpuTarget) -> int:
        """Vector registers that it needs."""
        return self.rows * self.width + self.width + (1 if cpu.fma else 2)


@dataclass(frozen=True)
class GroupTile:
    """Accumulators of `rows` rows times `vectors` vectors of the columns of several groups."""

    rows: int
    vectors: int
    in_channels: int
    """Elements of a row that belong to one group."""
    width: int
    """Columns of one group, at most as many as lanes."""

    def groups_per_vector(self, lanes: int) -> int:
        """Groups whose columns share a vector."""
        return lanes // self.width

    def out_channels(self, lanes: int) -> int:
        """Columns of a panel of weights."""
        return self.vectors * self.groups_per_vector(lanes) * self.width

    def narrowed(self, out_channels: int, lanes: int) -> GroupTile:
        """The same tile for the `out_channels` columns that are left for the last panel."""
        vectors = -(-out_channels // (self.groups_per_vector(lanes) * self.width))
        return GroupTile(self.rows, vectors, self.in_channels, self.width)

    def panel_elements(self, in_channels: int, lanes: int) -> int:
        """Elements of one tap of a packed panel, `[in_channels][vector][lane]`."""
        return in_channels * self.vectors * lanes

    def cycles(self, taps: float, in_channels: int, lanes: int) -> float:
        """Cycles of a tile, on a core with two loads and two multiply-adds a cycle."""
        spread = 0.0 if in_channels == self.width == 1 else SPREAD_COST
        loads = -(-self.groups_per_vector(lanes) * in_channels // lanes)
        row = loads / 2 + in_channels * (1 / 2 + spread)
        return taps * (self.rows / 2 + self.vectors * (self.rows * row + in_channels / 2))

    def registers(self, cpu: CpuTarget) -> int:
        """Vector registers that it needs."""
        return self.rows * (self.vectors + 1) + (2 if cpu.fma else 3)


Tile: TypeAlias = BroadcastTile | DotTile | GroupTile


def _step_cycles(left: int, right: int) -> float:
    """Cycles to load `left + right` operands and do all their products."""
    multiply_adds = max(left * right, LATENCY_CHAINS)
    loads = left + right
    # Loads that are hidden behind arithmetic still cost a little: they are issued too.
    return max(multiply_adds, loads) / 2 + loads * LOAD_ISSUE_COST


@dataclass(frozen=True)
class Shape:
    """What the choice of a tile depends on."""

    phases: tuple[tuple[int, tuple[float, ...]], ...]
    """The output pixels of each phase that has taps, at least one, and how many taps tiles of 1 to
    `MAX_ROWS` rows meet."""
    in_channels: int
    out_channels: int
    """Columns of one group."""
    groups: int
    fuses: bool
    """Whether the groups of a row, and those of its result, are contiguous."""


@lru_cache(KEPT_CHOICES)
def choose(shape: Shape, lanes: int, cpu: CpuTarget, most_rows: int = MAX_ROWS) -> Tile:
    """The tile that needs the fewest cycles, for vectors of `lanes` elements on `cpu`, and is at
    most `most_rows` high.
    """

    heights = range(1, min(most_rows, MAX_ROWS) + 1)
    vectors = range(1, min(-(-shape.out_channels // lanes), cpu.vector_registers) + 1)
    candidates: list[Tile] = [BroadcastTile(rows, count) for rows in heights for count in vectors]
    few = min(shape.out_channels, lanes, MAX_DOT_COLUMNS)
    widths = range(1, few + 1 if shape.out_channels <= MOST_DOT_VECTORS * lanes else 1)
    candidates += [DotTile(rows, width) for rows in heights for width in widths]
    if shape.fuses and shape.groups > 1 and shape.out_channels <= lanes:
        most = -(-shape.groups // (lanes // shape.out_channels))
        candidates += [
            GroupTile(rows, count, shape.in_channels, shape.out_channels)
            for rows in heights
            for count in range(1, min(most, MAX_ROWS) + 1)
        ]
    legal = [tile for tile in candidates if tile.registers(cpu) <= cpu.vector_registers]
    return min(legal, key=lambda tile: (cycles_of(shape, tile, lanes), -tile.rows))


def cycles_of(shape: Shape, tile: Tile, lanes: int) -> float:
    """Cycles of all tiles of a contraction, for vectors of `lanes` elements."""
    out_channels, times = shape.out_channels, shape.groups
    if isinstance(tile, GroupTile):
        out_channels, times = out_channels * times, 1
    whole, rest = divmod(out_channels, tile.out_channels(lanes))
    total = 0.0
    for pixels, live in shape.phases:
        taps = live[tile.rows - 1]
        panels = whole * tile.cycles(taps, shape.in_channels, lanes)
        if rest:
            panels += tile.narrowed(rest, lanes).cycles(taps, shape.in_channels, lanes)
        total += panels * -(-pixels // tile.rows)
    return total * times
