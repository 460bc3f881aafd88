"""Which configs of the wgmma template may compute a contraction, and their estimated times."""

from __future__ import annotations

from itertools import islice, product
from math import gcd
from typing import TYPE_CHECKING, Literal

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import (
    BLOCK_COLUMNS,
    WgmmaConfig,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.legality import is_legal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import wgmma_problem
from convir.lowering.kernels.cuda.sm90_implicit_gemm.tile_order import (
    busiest_cycles,
    store_cycles,
    tiles_of,
)

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import WgmmaProblem
    from convir.lowering.kernels.target import Target

FEW_DEPTHS = 16
"""Up to so many of the 64 depths that a tap brings at a time, `igemm` takes a third of the time."""
_ROWS = (64, 128, 256)
_STAGES = (8, 7, 6, 5, 4, 3)
_LINE_COLUMNS = 64
_SPLIT_LINES = 1.15
"""Cache lines that two tiles write halves of cost memory twice."""
_MAX_STAGED = 128
"""Columns that are staged at a time: longer runs are no faster, and take memory from stages."""
_MATHS: tuple[Literal["cooperative", "pingpong"], ...] = ("cooperative", "pingpong")


def candidates(problem: WgmmaProblem, gpu: Target) -> list[WgmmaConfig]:
    """One config per tile and role, with as many stages as the GPU's shared memory holds."""
    found: list[WgmmaConfig] = []
    for block_m, block_n, math in product(_ROWS, BLOCK_COLUMNS, _MATHS):
        if block_n - min(BLOCK_COLUMNS) >= problem.columns or block_n < _joined(problem):
            continue
        configs = [
            WgmmaConfig(block_m, block_n, stages, math, staged, gpu.multiprocessors)
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
    """Cycles until the last block is done."""
    tiles = tiles_of(spec, problem, config)
    busy = busiest_cycles(tiles, config.blocks)
    if config.math == "pingpong":
        busy += store_cycles(config)
    splits_lines = config.block_n < problem.columns and config.block_n % _LINE_COLUMNS
    return busy * (_SPLIT_LINES if splits_lines else 1)


def plan(spec: Contraction, epilogue: Epilogue, gpu: Target) -> tuple[WgmmaConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    if not gpu.is_hopper:
        return Refusal(f"{gpu.arch} has no wgmma")
    if spec.depth <= FEW_DEPTHS and len(spec.phases) == 1 < spec.taps:
        return Refusal(f"{spec.depth} depths of a tap leave most of what is multiplied zeros")
    problem = wgmma_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    configs = candidates(problem, gpu)
    if not configs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(sorted(configs, key=lambda config: order(spec, problem, config)))
