"""Which block computes which tiles of a wgmma contraction, and how long each takes.

Tiles go round the blocks. Where phases differ in their taps and tiles are few, that leaves some
blocks with the longest tile of every phase; there each tile goes to the block that is done first,
and a table says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import BLOCK_K

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import Sm90ImplicitGemmConfig
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import Sm90ImplicitGemmProblem

MOST_ORDERED = 8
"""Tiles of a block, on average, past which one more of the shortest is no loss."""

# Cycles of a multiprocessor, fitted to measurements; see the kernel family's page.
_PRODUCTS_PER_CYCLE = 1600
"""Of the 2048 that the tensor cores multiply at most."""
_BYTES_PER_CYCLE, _BYTES_BESIDE_PIXELS = 56, 106
"""That TMA brings from the L2 cache: rows of A, and B; and B where A is gathered by
im2col maps, which take longer to address than to copy."""
_CHUNK_CYCLES = 160
"""A chunk takes so long at least: a barrier, its wgmmas, a barrier."""
_TILE_CYCLES = 1900
"""Between the accumulators of one tile and of the next."""
_STORED_PER_CYCLE = 24
"""Accumulators that a tile's warps turn into stores."""
_SWITCH_CYCLES = 1000
"""Between the last wgmma of a warpgroup and the first one of the other."""


@dataclass(frozen=True)
class Tiles:
    """The tiles of phases that take equally long."""

    count: int
    cycles: float
    """Of a multiprocessor, for one of them behind the other."""


def store_cycles(config: Sm90ImplicitGemmConfig) -> float:
    """Between the last product of a tile and its last store."""
    return _TILE_CYCLES + config.block_m * config.block_n / _STORED_PER_CYCLE


def tiles_of(problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig) -> list[Tiles]:
    """The tiles of every group of phases, the longest first."""
    out_channels = -(-problem.out_channels // config.block_n)
    multiplied = config.block_m * config.block_n * BLOCK_K / _PRODUCTS_PER_CYCLE
    loaded = -(-config.block_n // BLOCK_K) * BLOCK_K
    of_b = _BYTES_BESIDE_PIXELS if problem.spatial else _BYTES_PER_CYCLE
    copied = BLOCK_K * 2 * (config.block_m / _BYTES_PER_CYCLE + loaded / of_b)
    chunk = max(multiplied, copied, _CHUNK_CYCLES)
    found: list[Tiles] = []
    for group in problem.groups():
        products = len(group[0].taps) * problem.chunks * chunk
        cycles = products + store_cycles(config)
        if config.schedule == "pingpong":
            cycles = max(products + _SWITCH_CYCLES, cycles / 2)
        rows = -(-group[0].pixels // config.block_m)
        found.append(Tiles(rows * out_channels * len(group), cycles))
    return found


def tile_order_of(tiles: list[Tiles], blocks: int) -> tuple[tuple[int, ...], ...] | None:
    """The tiles of each block in turn, by their number; None if they go round the blocks."""
    if len(tiles) < 2 or sum(group.count for group in tiles) > MOST_ORDERED * blocks:
        return None
    tile_order: list[list[int]] = [[] for _ in range(blocks)]
    free = [(0.0, block) for block in range(blocks)]
    heapify(free)
    number = 0
    for group in tiles:
        for _ in range(group.count):
            busy, block = free[0]
            tile_order[block].append(number)
            heapreplace(free, (busy + group.cycles, block))
            number += 1
    return tuple(map(tuple, tile_order))


def busiest_cycles(tiles: list[Tiles], blocks: int) -> float:
    """Cycles until the last block has no tiles left."""
    tile_order = tile_order_of(tiles, blocks)
    if tile_order is not None:
        cycles = [group.cycles for group in tiles for _ in range(group.count)]
        return max(sum(cycles[tile] for tile in mine) for mine in tile_order)
    busy = [0.0] * blocks
    position = 0
    for group in tiles:
        rounds, rest = divmod(group.count, blocks)
        for block in range(blocks):
            is_late = (block - position) % blocks < rest
            busy[block] += group.cycles * (rounds + is_late)
        position += rest
    return max(busy)
