"""Which configs of the wgmma kernel family may compute a contraction, and their estimated times."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from math import gcd
from typing import TYPE_CHECKING, Literal

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import (
    BLOCK_N,
    CONSUMERS,
    Sm90ImplicitGemmConfig,
    refusal,
    tile_count,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import sm90_problem
from convir.lowering.kernels.cuda.tile_schedule.schedule import MIN_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import Sm90ImplicitGemmProblem
    from convir.lowering.kernels.target import Target

_ROWS = (64, 128, 256)
_STAGES = (8, 7, 6, 5, 4, 3)
_MAX_STAGED = 128
"""Columns that are staged at a time: longer runs are no faster, and take memory from stages."""
_MATHS: tuple[Literal["cooperative", "pingpong"], ...] = ("cooperative", "pingpong")


def candidates(problem: Sm90ImplicitGemmProblem, gpu: Target) -> list[Sm90ImplicitGemmConfig]:
    """Per tile and role whole tiles, with as many stages as the GPU's shared memory holds, and
    splits of them."""
    found: list[Sm90ImplicitGemmConfig] = []
    for block_m, block_n, schedule in product(_ROWS, BLOCK_N, _MATHS):
        if block_n - min(BLOCK_N) >= problem.out_channels or block_n < _joined(problem):
            continue
        configs = [
            Sm90ImplicitGemmConfig(
                block_m,
                block_n,
                stages,
                schedule,
                staged,
                gpu.multiprocessors,
                products=3 if problem.is_split else 1,
            )
            for stages in _STAGES
            for staged in _staged(problem, block_n)
        ]
        legal = (config for config in configs if refusal(problem, config, gpu) is None)
        for config in islice(legal, 1):
            found += [config, *_split(problem, config, gpu)]
    return found


def _split(
    problem: Sm90ImplicitGemmProblem, whole: Sm90ImplicitGemmConfig, gpu: Target
) -> Iterator[Sm90ImplicitGemmConfig]:
    """Tiles that leave multiprocessors idle, in splits for all of them, and for half.

    A block has one split: where two warpgroups can multiply it, they do.
    """
    if problem.is_split or (whole.sharing < CONSUMERS and whole.block_m > _ROWS[0]):
        return
    most = min(whole.blocks // tile_count(problem, whole), problem.least_steps // MIN_STEPS)
    for splits in sorted({most, -(-most // 2)}):
        if splits > 1:
            config = replace(whole, splits=splits, store_channels=_shared_store(whole, splits))
            if refusal(problem, config, gpu) is None:
                yield config


def _shared_store(whole: Sm90ImplicitGemmConfig, splits: int) -> int:
    """Columns that are staged at a time, so that every block of a tile stores some of them."""
    rows = whole.block_m // whole.sharing // 64
    stores = [n for n in range(whole.store_channels, 0, -16) if whole.store_channels % n == 0]
    shared = (n for n in stores if rows * whole.block_n // n >= splits)
    return next(shared, stores[-1])


def _joined(problem: Sm90ImplicitGemmProblem) -> int:
    """Columns that a tile has at least: pieces in one tile read their rows once."""
    is_one_tile = len(problem.pieces) > 1 and problem.out_channels in BLOCK_N
    return problem.out_channels if is_one_tile else 0


def _staged(problem: Sm90ImplicitGemmProblem, block_n: int) -> list[int]:
    """Columns that may be staged at a time, the longest runs of C first."""
    piece = problem.out_channels // len(problem.pieces)
    divided = block_n if len(problem.pieces) == 1 else gcd(block_n, piece)
    limit = max(_MAX_STAGED, problem.out_channels if problem.fused_zero_fills else 0)
    return [n for n in range(divided, 0, -16) if divided % n == 0 and n <= limit]


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[Sm90ImplicitGemmConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, one for each tile and role."""
    problem = sm90_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    configs = candidates(problem, gpu)
    if not configs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(configs)
