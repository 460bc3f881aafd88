"""Which configs of the wgmma template may compute a contraction, and their estimated times."""

from __future__ import annotations

from itertools import islice, product
from math import gcd
from typing import TYPE_CHECKING, Literal

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import (
    BLOCK_COLUMNS,
    WgmmaConfig,
    refusal,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import wgmma_problem

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import WgmmaProblem
    from convir.lowering.kernels.target import Target

_ROWS = (64, 128, 256)
_STAGES = (8, 7, 6, 5, 4, 3)
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
        legal = (config for config in configs if refusal(problem, config, gpu) is None)
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


def plan(spec: Contraction, epilogue: Epilogue, gpu: Target) -> tuple[WgmmaConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, one for each tile and role."""
    problem = wgmma_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    configs = candidates(problem, gpu)
    if not configs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(configs)
