"""Which configs of the wgmma template may compute a contraction, and their estimated times."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.cuda.contraction.wgmma_config import (
    BLOCK_COLUMNS,
    BLOCK_K,
    WgmmaConfig,
)

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.cuda.contraction.wgmma_problem import WgmmaProblem
    from convir.lowering.cuda.gpu import Gpu

_ROWS = (64, 128, 256)
_STAGES = (8, 7, 6, 5, 4, 3)

# Cycles of a multiprocessor of the H200, fitted to measurements; see the template's page.
_PRODUCTS_PER_CYCLE = 1600
"""Of the 2048 that the tensor cores multiply at most."""
_BYTES_PER_CYCLE = 48
"""That the copy engine brings from the L2 cache."""
_CHUNK_CYCLES = 160
"""A chunk takes so long at least: a barrier, its wgmmas, a barrier."""
_TILE_CYCLES = 1500
"""Between the sums of one tile and of the next."""
_STORED_PER_CYCLE = 32
"""Sums that a tile's warps turn into stores."""


def candidates(spec: Contraction, problem: WgmmaProblem, gpu: Gpu) -> list[WgmmaConfig]:
    """One config per tile, with as many stages as the GPU's shared memory holds."""
    store = "direct" if problem.fused_holes else "bulk"
    found: list[WgmmaConfig] = []
    for block_m, block_n, math in product(_ROWS, BLOCK_COLUMNS, ("cooperative",)):
        deepest = [
            WgmmaConfig(block_m, block_n, stages, math, 1, store, block_n, gpu.multiprocessors)
            for stages in _STAGES
        ]
        fits = (c.shared_bytes(spec) <= gpu.shared_bytes for c in deepest)
        config = next((c for c, fit in zip(deepest, fits, strict=True) if fit), deepest[-1])
        if config.illegal() is None and block_n - min(BLOCK_COLUMNS) < spec.columns:
            found.append(config)
    return found


def cost(spec: Contraction, problem: WgmmaProblem, config: WgmmaConfig) -> float:
    """Cycles until the last block is done: tiles go round the blocks, the longest first."""
    chunks = -(-spec.depth // BLOCK_K)
    columns = -(-spec.columns // config.block_n)
    multiplied = config.block_m * config.block_n * BLOCK_K / _PRODUCTS_PER_CYCLE
    copied = (config.block_m + config.block_n) * BLOCK_K * 2 / _BYTES_PER_CYCLE
    chunk = max(multiplied, copied, _CHUNK_CYCLES)
    busy = [0.0] * config.blocks
    position = 0
    for group in problem.groups():
        tile = len(group[0].taps) * chunks * chunk + _TILE_CYCLES
        tile += config.block_m * config.block_n / _STORED_PER_CYCLE
        tiles = -(-group[0].positions // config.block_m) * columns * len(group)
        rounds, rest = divmod(tiles, config.blocks)
        for block in range(config.blocks):
            is_late = (block - position) % config.blocks < rest
            busy[block] += tile * (rounds + is_late)
        position += rest
    return max(busy)
