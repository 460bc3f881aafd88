"""Which registers and caches a kernel uses: a model of ports, registers and cache sizes.

One step of the innermost loop of a tile of `rows` x `vectors` loads `vectors` vectors of weights,
broadcasts `rows` elements and does `rows * vectors` multiply-adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.runtime.host.target import Target

MAX_ROWS = 8
"""A row of a tile needs a general register for its address, of which there are 16."""

LATENCY_CHAINS = 8
"""Independent multiply-adds that keep the arithmetic busy: latency 4, two a cycle."""


@dataclass(frozen=True)
class Tile:
    """Accumulators of the innermost loop: `rows` rows of `vectors` vectors."""

    rows: int
    vectors: int

    @property
    def cycles(self) -> float:
        """Cycles of one step, on a core with two loads and two multiply-adds a cycle."""
        multiply_adds = max(self.rows * self.vectors, LATENCY_CHAINS)
        loads = self.rows + self.vectors
        # Loads that are hidden behind arithmetic still cost a little: they are issued too.
        return max(multiply_adds, loads) / 2 + loads * LOAD_ISSUE_COST


LOAD_ISSUE_COST = 0.05
"""Cycles that a load adds to a step although it runs beside the arithmetic."""


def fits(tile: Tile, cpu: Target) -> bool:
    """Whether the tile's operands stay in registers."""
    # The broadcast element needs a register, and so does a product that is not fused.
    temporaries = 1 if cpu.fma else 2
    needed = tile.rows * tile.vectors + tile.vectors + temporaries
    return tile.rows <= MAX_ROWS and needed <= cpu.vector_registers


@cache
def choose(positions: tuple[int, ...], columns: int, lanes: int, cpu: Target) -> Tile:
    """The tile that needs the fewest cycles for all `positions` of the phases.

    Args:
        positions: the number of output positions of each phase.
        columns: columns of C.
        lanes: elements in a vector.
        cpu: the target.
    """
    vectors = -(-columns // lanes)

    def cost(tile: Tile) -> float:
        whole, rest = divmod(vectors, tile.vectors)
        step = whole * tile.cycles + (Tile(tile.rows, rest).cycles if rest else 0)
        return step * sum(-(-count // tile.rows) for count in positions)

    candidates = [
        tile
        for rows in range(1, MAX_ROWS + 1)
        for count in range(1, vectors + 1)
        if fits(tile := Tile(rows, count), cpu)
    ]
    return min(candidates, key=lambda tile: (cost(tile), -tile.rows))
