"""`depthwise`: the launch of a config, `kernel.cuh` and `wgrad.cuh`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.depthwise.config import CHUNK
from convir.lowering.kernels.cuda.depthwise.problem import (
    MOST_PRODUCTS,
    DepthwiseForm,
    TileLayout,
    layout,
    read,
    tap_counts,
    unrolled,
)
from convir.lowering.kernels.cuda.direct.source import launch, launch_reduction, slice_features
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.registers import WARP, registers_of
from convir.lowering.kernels.cuda.tile_schedule.schedule import COUNTER_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.depthwise.config import DepthwiseConfig
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

MOST_BLOCKS = 2**31 - 1
PLANAR_LOADS, VECTOR_LOADS = 70, 60
"""Registers of a thread for vectors that are under way, and where they go."""
OTHER_REGISTERS, WGRAD_REGISTERS, SIMT_REGISTERS = 50, 38, 58
"""Registers of a thread beside sums, rows and bands."""

JOB_REGISTERS = 12
"""Registers of a thread for the places of each further channel whose sums it holds."""


def channel_blocks(problem: DirectProblem, config: DepthwiseConfig) -> int:
    """Blocks that have other channels."""
    spec = problem.contraction
    return -(-spec.groups * spec.out_channels // config.channels)


def tiles(problem: DirectProblem, config: DepthwiseConfig) -> int:
    """Tiles of output pixels."""
    return (
        -(-problem.col_count // config.cols)
        * -(-problem.row_count // config.rows)
        * -(-problem.images.value // config.images)
        * problem.slices.size
    )


def splits(problem: DirectProblem, config: DepthwiseConfig, target: Target) -> int:
    """Blocks of wgrad that share channels."""
    at_once = target.multiprocessors * config.resident
    return min(tiles(problem, config), max(1, at_once // channel_blocks(problem, config)))


def registers(
    problem: DirectProblem, form: DepthwiseForm, config: DepthwiseConfig, tile: TileLayout
) -> int:
    """Registers of a thread, roughly."""
    phases, chunks, unroll = len(problem.phases), form.chunks, config.unroll
    is_tensor = STORAGE_BYTES[problem.contraction.a.type] == 2
    loads = PLANAR_LOADS if form.a_planar else VECTOR_LOADS
    if form.is_wgrad:
        columns = -(-chunks // 2) * 4 if is_tensor else tap_counts(problem)[1]
        steps = config.channels * form.steps(problem)
        jobs = steps // config.warps if tile.holds_sums else 1
        held = tile.part_rows * columns * jobs + JOB_REGISTERS * max(0, jobs - 2)
        rows = columns + unroll * 4 if is_tensor else (chunks + unroll) * CHUNK
        return max(loads + (held if tile.holds_sums else 0), WGRAD_REGISTERS + rows + held)
    if not is_tensor:
        return max(loads, SIMT_REGISTERS + (chunks + unroll * phases) * CHUNK)
    bands = phases * chunks * min(problem.rows.window, unroll * problem.rows.step)
    return max(loads, OTHER_REGISTERS + bands + phases * unroll * 4 + chunks * 4)


def refusal(
    problem: DirectProblem,
    form: DepthwiseForm,
    config: DepthwiseConfig,
    tile: TileLayout,
    target: Target,
) -> Refusal | None:
    """Why `config` is none for the problem; None if it is one."""
    if config.rows % config.unroll != 0:
        return Refusal(f"{config.rows} rows are no multiple of {config.unroll}")
    unit = form.unit(problem.contraction)
    if config.channels % unit != 0:
        return Refusal(f"{config.channels} channels are no multiple of {unit}")
    products = unrolled(problem, form, config)
    if products > MOST_PRODUCTS:
        return Refusal(f"{products} products are unrolled")
    needed = registers(problem, form, config, tile)
    if needed > registers_of(config.warps, config.resident):
        return Refusal(f"{needed} registers of a thread")
    blocks = channel_blocks(problem, config) * tiles(problem, config)
    if blocks > MOST_BLOCKS:
        return Refusal(f"{blocks} blocks")
    return target.shared_refusal(tile.shared_bytes, config.resident)


def kernels(
    contraction: Contraction, epilogue: Epilogue, config: DepthwiseConfig, target: Target
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    found = read(contraction, epilogue)
    if isinstance(found, Refusal):
        return found
    problem, form = found
    tile = layout(problem, form, config)
    refused = refusal(problem, form, config, tile, target)
    if refused is not None:
        return refused
    schedule = {
        "threads": config.warps * WARP,
        "channels": config.channels,
        "tile_images": config.images,
        "tile_rows": config.rows,
        "tile_cols": config.cols,
        "unroll": config.unroll,
        **asdict(tile),
    }
    features = {
        "images": problem.images.value,  # Of the code, not of a launch.
        "groups": contraction.groups,
        "in_channels": contraction.in_channels,
        "out_channels": contraction.out_channels,
        "a_channel": form.a_channel,
        "c_channel": form.c_channel,
        "a_planar": int(form.a_planar),
        "c_planar": int(form.c_planar),
        **slice_features(problem.slices),
    }
    owners = channel_blocks(problem, config)
    if not form.is_wgrad:
        grid = owners * tiles(problem, config)
        header, template = "depthwise/kernel.cuh", "Depthwise"
        return launch(
            header, template, problem, epilogue, features, schedule, grid, config.resident
        )
    schedule["splits"] = splits(problem, config, target)
    schedule["counter_words"] = COUNTER_BYTES // 4
    return launch_reduction(
        "depthwise/wgrad.cuh",
        "DepthwiseWgrad",
        problem,
        epilogue,
        features,
        schedule,
        (Pointer("a"), Pointer("c")),
        owners,
        config.resident,
        tile.sums * 4,
        blocks_meet=False,
    )
