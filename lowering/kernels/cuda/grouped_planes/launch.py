"""`grouped_planes`: the launch of a config, `kernel.cuh` and `wgrad.cuh`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import launch, launch_reduction
from convir.lowering.kernels.cuda.grouped_planes.config import CHUNK
from convir.lowering.kernels.cuda.grouped_planes.problem import TileLayout, layout, read
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.registers import WARP, registers_of
from convir.lowering.kernels.cuda.tile_schedule.schedule import COUNTER_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_planes.config import GroupedPlanesConfig
    from convir.lowering.kernels.cuda.grouped_planes.problem import PlanesForm
    from convir.lowering.kernels.target import Target

OTHER_REGISTERS, OTHER_OF_WGRAD = 44, 83
"""Registers of a thread beside weights, sums and pixels; fewer, and ptxas spills."""
MOST_REGISTERS = 240
"""More in fprop and dgrad, by this count, and ptxas spills."""
CHUNKS_HELD = 3
"""Chunks whose sums a thread holds at once: a chunk's, its neighbours'."""
MOST_CODE = 3000
"""Matrix instructions in the code of a segment."""


def tiles(problem: DirectProblem, config: GroupedPlanesConfig, tile: TileLayout) -> int:
    """Tiles of output pixels."""
    return (
        -(-problem.col_count // tile.tile_cols)
        * -(-problem.row_count // config.rows)
        * -(-problem.images.value // config.images)
    )


def splits(
    problem: DirectProblem,
    form: PlanesForm,
    config: GroupedPlanesConfig,
    tile: TileLayout,
    target: Target,
) -> int:
    """Blocks that share groups."""
    at_once = target.multiprocessors * config.resident
    owners = form.groups // config.groups
    return min(tiles(problem, config, tile), max(1, at_once // owners))


def matrix_instructions(problem: DirectProblem, config: GroupedPlanesConfig) -> int:
    """Rows of sixteen of the products of a warp: column taps of its octets, in pairs."""
    units = len(problem.phases[0].cols.pixels) * config.channels // CHUNK
    return -(-units // 2)


def registers(problem: DirectProblem, form: PlanesForm, config: GroupedPlanesConfig) -> int:
    """Registers of a thread, roughly."""
    mmas = matrix_instructions(problem, config)
    octets = form.in_channels // CHUNK
    row_taps = len(problem.phases[0].rows.pixels)
    window = row_taps + (config.unroll - 1) * min(problem.rows.step, row_taps)
    pixels = -(-window * octets // 4) * 4
    if form.is_wgrad:
        gradients = config.unroll * config.segment * config.channels // CHUNK
        return mmas * row_taps * octets * 4 + 2 * pixels + gradients + OTHER_OF_WGRAD
    weights = 2 * mmas * row_taps * octets
    sums = CHUNKS_HELD * config.unroll * mmas * 4
    return weights + sums + pixels + pixels // 4 + OTHER_REGISTERS


def refusal(
    problem: DirectProblem,
    form: PlanesForm,
    config: GroupedPlanesConfig,
    tile: TileLayout,
    target: Target,
) -> Refusal | None:
    """Why `config` is none for the problem; None if it is one."""
    if config.rows % config.unroll != 0:
        return Refusal(f"{config.rows} rows are no multiple of {config.unroll}")
    if form.groups % config.groups != 0 or form.out_channels % config.channels != 0:
        return Refusal(f"{config.groups} groups, {config.channels} channels: no even parts")
    parts = config.groups * form.out_channels // config.channels
    if config.warps % parts != 0:
        return Refusal(f"{config.warps} warps do not share {parts} parts")
    if config.segment * CHUNK % problem.cols.step != 0:
        return Refusal(f"{config.segment} chunks are no whole outputs")
    depth = len(problem.phases[0].rows.pixels) * form.in_channels // CHUNK
    code = config.unroll * (config.segment + 2) * matrix_instructions(problem, config) * depth
    if code > MOST_CODE:
        return Refusal(f"{code} matrix instructions are unrolled")
    needed = registers(problem, form, config)
    held = registers_of(config.warps, config.resident)
    if needed > (held if form.is_wgrad else min(MOST_REGISTERS, held)):
        return Refusal(f"{needed} registers of a thread")
    return target.shared_refusal(tile.shared_bytes, config.resident)


def kernels(
    contraction: Contraction, epilogue: Epilogue, config: GroupedPlanesConfig, target: Target
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
        "groups": config.groups,
        "tile_images": config.images,
        "tile_rows": config.rows,
        "warp_channels": config.channels,
        "unroll": config.unroll,
        "stages": config.stages,
        **asdict(tile),
    }
    features = {
        "packed": form.packed,
        "groups": form.groups,
        "in_channels": form.in_channels,
        "out_channels": form.out_channels,
        "a_channel": form.a_channel,
        "c_channel": form.c_channel,
    }
    owners = form.groups // config.groups
    count = splits(problem, form, config, tile, target)
    if not form.is_wgrad:
        return launch(
            "grouped_planes/kernel.cuh",
            "GroupedPlanes",
            problem,
            epilogue,
            features,
            schedule,
            owners * count,
            config.resident,
        )
    schedule |= {"splits": count, "counter_words": COUNTER_BYTES // 4}
    return launch_reduction(
        "grouped_planes/wgrad.cuh",
        "GroupedPlanesWgrad",
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
