"""Which configs of the wgmma template may compute a contraction, and their estimated times."""

from __future__ import annotations

from itertools import islice, product
from math import gcd
from typing import TYPE_CHECKING, Literal

from convir.lowering.cuda.contraction.wgmma_config import (
    BLOCK_COLUMNS,
    BLOCK_K,
    WgmmaConfig,
)
from convir.lowering.cuda.contraction.wgmma_legality import is_legal

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.cuda.contraction.wgmma_problem import WgmmaProblem
    from convir.lowering.cuda.gpu import Gpu

_ROWS = (64, 128, 256)
_STAGES = (8, 7, 6, 5, 4, 3)
_LINE_COLUMNS = 64
_SPLIT_LINES = 1.15
"""Cache lines that two tiles write halves of cost memory twice."""
_MAX_STAGED = 128
"""Columns that are staged at a time: longer runs are no faster, and take memory from stages."""
_MATHS: tuple[Literal["cooperative", "pingpong"], ...] = ("cooperative", "pingpong")

# Cycles of a multiprocessor of the H200, fitted to measurements; see the template's page.
_PRODUCTS_PER_CYCLE = 1600
"""Of the 2048 that the tensor cores multiply at most."""
_BYTES_PER_CYCLE, _BYTES_BESIDE_PIXELS = 56, 106
"""That the copy engine brings from the L2 cache: rows of A, and B; and B where A is gathered by
im2col maps, which take longer to address than to copy."""
_CHUNK_CYCLES = 160
"""A chunk takes so long at least: a barrier, its wgmmas, a barrier."""
_TILE_CYCLES = 1900
"""Between the sums of one tile and of the next."""
_STORED_PER_CYCLE = 24
"""Sums that a tile's warps turn into stores."""
_TURN_CYCLES = 1000
"""Between the last wgmma of a warpgroup and the first one of the other."""


def candidates(problem: WgmmaProblem, gpu: Gpu) -> list[WgmmaConfig]:
    """One config per tile and role, with as many stages as the GPU's shared memory holds."""
    found: list[WgmmaConfig] = []
    for block_m, block_n, math in product(_ROWS, BLOCK_COLUMNS, _MATHS):
        if block_n - min(BLOCK_COLUMNS) >= problem.columns or block_n < _joined(problem):
            continue
        configs = [
            WgmmaConfig(block_m, block_n, stages, math, 1, "direct", staged, gpu.multiprocessors)
            for stages in _STAGES
            for staged in _staged(problem, block_n)
        ]
        legal = (config for config in configs if is_legal(problem, config, gpu.shared_bytes))
        found.extend(islice(legal, 1))
    return found


def _joined(problem: WgmmaProblem) -> int:
    """Columns that a tile has at least: pieces in one tile read their rows once."""
    is_one_tile = len(problem.pieces) > 1 and problem.columns in BLOCK_COLUMNS
    return problem.columns if is_one_tile else 0


def _staged(problem: WgmmaProblem, block_n: int) -> list[int]:
    """Columns that may be staged at a time, the longest runs of C first."""
    piece = problem.columns // len(problem.pieces)
    divided = block_n if len(problem.pieces) == 1 else gcd(block_n, piece)
    limit = max(_MAX_STAGED, problem.columns if problem.fused_holes else 0)
    return [n for n in range(divided, 0, -16) if divided % n == 0 and n <= limit]


def order(spec: Contraction, problem: WgmmaProblem, config: WgmmaConfig) -> tuple[float, int]:
    """What configs are sorted by: the estimate of their time, and what they load."""
    return cost(spec, problem, config), config.block_m + config.block_n


def cost(spec: Contraction, problem: WgmmaProblem, config: WgmmaConfig) -> float:
    """Cycles until the last block is done: tiles go round the blocks, the longest first."""
    chunks = -(-spec.depth // BLOCK_K)
    columns = -(-problem.columns // config.block_n)
    multiplied = config.block_m * config.block_n * BLOCK_K / _PRODUCTS_PER_CYCLE
    loaded = -(-config.block_n // BLOCK_K) * BLOCK_K
    of_b = _BYTES_BESIDE_PIXELS if problem.spatial else _BYTES_PER_CYCLE
    copied = BLOCK_K * 2 * (config.block_m / _BYTES_PER_CYCLE + loaded / of_b)
    chunk = max(multiplied, copied, _CHUNK_CYCLES)
    store = _TILE_CYCLES + config.block_m * config.block_n / _STORED_PER_CYCLE
    busy = [store if config.math == "pingpong" else 0.0] * config.blocks
    position = 0
    for group in problem.groups():
        product_cycles = len(group[0].taps) * chunks * chunk
        tile = product_cycles + store
        if config.math == "pingpong":
            tile = max(product_cycles + _TURN_CYCLES, tile / 2)
        tiles = -(-group[0].positions // config.block_m) * columns * len(group)
        rounds, rest = divmod(tiles, config.blocks)
        for block in range(config.blocks):
            is_late = (block - position) % config.blocks < rest
            busy[block] += tile * (rounds + is_late)
        position += rest
    splits_lines = config.block_n < problem.columns and config.block_n % _LINE_COLUMNS
    return max(busy) * (_SPLIT_LINES if splits_lines else 1)
