"""`simt_wgrad`: the launch of a config, `kernel.cuh`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import launch_reduction
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.registers import WARP
from convir.lowering.kernels.cuda.simt_wgrad.problem import read, refusal, shape_of
from convir.lowering.kernels.cuda.tile_schedule.schedule import COUNTER_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.simt_wgrad.config import SimtWgradConfig
    from convir.lowering.kernels.target import Target


def owners(problem: DirectProblem, config: SimtWgradConfig) -> int:
    """Blocks that have other channels."""
    return -(-problem.contraction.groups // config.channels)


def units(problem: DirectProblem, config: SimtWgradConfig) -> int:
    """Units of output pixels."""
    tiles = -(-problem.row_count // config.rows) * -(-problem.col_count // config.cols)
    return problem.images.value * tiles


def teams(config: SimtWgradConfig) -> int:
    """Threads of a block that have the same channels."""
    return config.warps * WARP * config.vector // config.channels


def splits(problem: DirectProblem, config: SimtWgradConfig, target: Target) -> int:
    """Blocks that share channels."""
    at_once = target.multiprocessors * config.resident
    most = -(-units(problem, config) // teams(config))
    return min(most, max(1, at_once // owners(problem, config)))


def kernels(
    contraction: Contraction, epilogue: Epilogue, config: SimtWgradConfig, target: Target
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    found = read(contraction, epilogue)
    if isinstance(found, Refusal):
        return found
    problem, widest = found
    refused = refusal(problem, widest, config, target)
    if refused is not None:
        return refused
    shape = shape_of(problem, config)
    schedule = {
        "threads": config.warps * WARP,
        "channels": config.channels,
        "vector": config.vector,
        "unroll_rows": config.rows,
        "run": config.cols,
        "sums": shape.sums,
        "teams_at": shape.teams_at,
        "splits": splits(problem, config, target),
        "counter_words": COUNTER_BYTES // 4,
        "shared_bytes": shape.shared_bytes,
    }
    features = {
        "images": problem.images.value,  # Of the code, not of a launch.
        "groups": contraction.groups,
    }
    return launch_reduction(
        "simt_wgrad/kernel.cuh",
        "SimtWgrad",
        problem,
        epilogue,
        features,
        schedule,
        (Pointer("a"), Pointer("c")),
        owners(problem, config),
        config.resident,
        shape.sums * 4,
        blocks_meet=False,
    )
