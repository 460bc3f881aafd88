"""Which configs of `multi_tap_wgrad` may compute a gradient of weights, and their estimated
times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.config import ROLES
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import (
    MAX_ACCUMULATORS,
    MAX_COLUMNS,
    MultiTapWgradConfig,
    narrow_refusal,
    refusal,
)
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import multi_tap_problem
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.predict import partitions

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import MultiTapProblem
    from convir.lowering.kernels.target import Target

_STAGES = (6, 5, 4, 3)
_FEWER_SPLITS = (1.0, 0.75, 0.5, 0.25)
"""Slices of fewer splits cost less than those of as many as there is room for."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[MultiTapWgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`."""
    problem = multi_tap_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    narrow = narrow_refusal(spec)
    if narrow is not None:
        return narrow
    configs = candidates(spec, problem, gpu)
    if not configs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(configs)


def candidates(
    spec: Contraction, problem: MultiTapProblem, gpu: Target
) -> list[MultiTapWgradConfig]:
    """Every tile with every pipeline, with as many stages as there is room for."""
    maths: tuple[Literal["wgmma", "mma"], ...] = ("wgmma",) if gpu.is_hopper else ("mma",)
    found: list[MultiTapWgradConfig] = []
    for taps, out_channels, roles, instruction in product(
        _taps(problem), _columns(spec.out_channels), ROLES, maths
    ):
        if taps * out_channels // 2 > MAX_ACCUMULATORS or _waits_for_itself(
            taps, roles, instruction
        ):
            continue
        configs = [
            MultiTapWgradConfig(
                taps, out_channels, stages, instruction, roles, Partition(), gpu.multiprocessors
            )
            for stages in _STAGES
        ]
        legal = [c for c in configs if refusal(spec, problem, c, gpu) is None]
        if legal:
            found += _partitioned(spec, problem, legal[0])
    return found


def _waits_for_itself(taps: int, roles: tuple[int, int], instruction: str) -> bool:
    """Whether uniform warps wait for their `wgmma` of several taps before they load: they take 3 to
    8 % longer than warps with roles, and ptxas serializes some of them."""
    return roles[0] == 0 and instruction == "wgmma" and taps > 1


def _taps(problem: MultiTapProblem) -> list[int]:
    """All taps of a plane in one tile, or a row of them, or one."""
    planes = [len(taps) for taps in problem.planes().values()]
    most = max(planes)
    return sorted({most, -(-most // 2), -(-most // 3), 1}, reverse=True)


def _columns(out_channels: int) -> list[int]:
    """The widths of tiles that waste the fewest columns, the widest first."""
    padded = -(-out_channels // 8) * 8
    if padded <= MAX_COLUMNS:
        return [padded]
    widths = range(24, MAX_COLUMNS + 1, 8)
    return sorted(widths, key=lambda width: (-(-out_channels // width) * width, -width))[:2]


def _partitioned(
    spec: Contraction, problem: MultiTapProblem, config: MultiTapWgradConfig
) -> list[MultiTapWgradConfig]:
    """`config` with every partition worth trying."""
    schedule = config.schedule(spec, problem)
    tried = list(partitions(schedule.tiles, schedule.steps, schedule.concurrent))
    room = min(schedule.concurrent // schedule.tiles, schedule.steps)
    counts = {int(room * split) for split in _FEWER_SPLITS}
    tried += [
        Partition(SPLIT_K, splits, "reduce-scatter") for splits in sorted(counts) if splits > 1
    ]
    return [replace(config, partition=partition) for partition in tried]
