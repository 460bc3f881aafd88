"""Which configs of `taps-wgrad` may compute a gradient of weights, and their estimated times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.config import ROLES
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import (
    MAX_COLUMNS,
    MAX_SUMS,
    ROWS,
    TapsWgradConfig,
    refusal,
)
from convir.lowering.kernels.cuda.multi_tap_wgrad.launch import taps_problem
from convir.lowering.kernels.cuda.multi_tap_wgrad.predict import predict
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.predict import partitions

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import TapsProblem
    from convir.lowering.kernels.target import Target

_STAGES = (6, 5, 4, 3)
_FEWER_PARTS = (1.0, 0.75, 0.5, 0.25)
"""Slices of fewer parts cost less than those of as many as there is room for."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[TapsWgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    problem = taps_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    if spec.columns > MAX_COLUMNS:
        return Refusal(f"{spec.columns} columns are several tiles, which all read the other input")
    if spec.depth < ROWS // 2:
        return Refusal(f"{spec.depth} depths fill less than half of a tile")
    configs = candidates(spec, problem, gpu)
    if not configs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(sorted(configs, key=lambda config: predict(spec, epilogue, config, gpu)))


def candidates(spec: Contraction, problem: TapsProblem, gpu: Target) -> list[TapsWgradConfig]:
    """Every tile with every pipeline, with as many stages as there is room for."""
    maths: tuple[Literal["wgmma", "mma"], ...] = ("wgmma",) if gpu.is_hopper else ("mma",)
    found: list[TapsWgradConfig] = []
    for taps, columns, roles, math in product(_taps(problem), _columns(spec.columns), ROLES, maths):
        if taps * columns // 2 > MAX_SUMS or _waits_for_itself(taps, roles, math):
            continue
        configs = [
            TapsWgradConfig(taps, columns, stages, math, roles, Partition(), gpu.multiprocessors)
            for stages in _STAGES
        ]
        legal = [c for c in configs if refusal(spec, problem, c, gpu) is None]
        if legal:
            found += _partitioned(spec, problem, legal[0])
    return found


def _waits_for_itself(taps: int, roles: tuple[int, int], math: str) -> bool:
    """Whether uniform warps wait for their `wgmma` of several taps before they load: they take 3 to
    8 % longer than warps with roles on an H200, and ptxas serializes some of them."""
    return roles[0] == 0 and math == "wgmma" and taps > 1


def _taps(problem: TapsProblem) -> list[int]:
    """All taps of a plane in one tile, or a row of them, or one."""
    planes = [len(taps) for taps in problem.planes().values()]
    most = max(planes)
    return sorted({most, -(-most // 2), -(-most // 3), 1}, reverse=True)


def _columns(columns: int) -> list[int]:
    """The widths of tiles that waste the fewest columns, the widest first."""
    padded = -(-columns // 8) * 8
    if padded <= MAX_COLUMNS:
        return [padded]
    widths = range(24, MAX_COLUMNS + 1, 8)
    return sorted(widths, key=lambda width: (-(-columns // width) * width, -width))[:2]


def _partitioned(
    spec: Contraction, problem: TapsProblem, config: TapsWgradConfig
) -> list[TapsWgradConfig]:
    """`config` with every partition worth trying."""
    schedule = config.schedule(spec, problem)
    tried = list(partitions(schedule.tiles, schedule.steps, schedule.concurrent))
    room = min(schedule.concurrent // schedule.tiles, schedule.steps)
    counts = {int(room * part) for part in _FEWER_PARTS}
    tried += [Partition(SPLIT_K, parts, "slices") for parts in sorted(counts) if parts > 1]
    return [replace(config, partition=partition) for partition in tried]
