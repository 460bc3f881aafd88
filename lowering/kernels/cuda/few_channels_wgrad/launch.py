"""`few_channels_wgrad`: the gradient of the weights of a first or last layer, `kernel.cuh`.

A network's first layer has 3 channels, of which no 16-byte copy brings a tile of columns; but any
pair of a tap and a channel is a column at a constant distance in the rows of the image, which fit
into shared memory with the gradient of their output pixels. See `README.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.direct.problem import VECTOR
from convir.lowering.kernels.cuda.direct.source import launch_reduction
from convir.lowering.kernels.cuda.few_channels_wgrad.config import TILE
from convir.lowering.kernels.cuda.few_channels_wgrad.problem import FewChannels, read
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.cuda.registers import WARP, registers_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.few_channels_wgrad.config import FewChannelsWgradConfig
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

ELEMENT_BYTES = 2
OTHER_REGISTERS = 44
"""Of a thread beside accumulators, fragments and columns."""
MOST_ACCUMULATORS = 128


def column_tiles(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Tiles of 8 columns of a warp."""
    return -(-few.column_tiles // config.jobs)


def accumulators(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Of a thread."""
    return config.channels // TILE * column_tiles(few, config) * 4


def owners(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Blocks that have different channels of C."""
    return -(-few.problem.contraction.out_channels // config.channels)


def strips(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Strips of all images."""
    rows = -(-few.problem.row_count // config.rows)
    return few.problem.images.value * rows * -(-few.problem.col_count // config.cols)


def splits(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Blocks that share the strips."""
    at_once = config.blocks[0] * config.blocks[1]
    return min(max(1, at_once // owners(few, config)), strips(few, config))


def line_vectors(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Copies of a line of A of a strip."""
    cols = few.problem.cols
    front = cols.origin * cols.a_stride % few.copied
    pixels = (config.cols - 1) * cols.step + cols.window
    line = front + (pixels - 1) * cols.a_stride + few.pixel
    return -(-line // few.copied)


def lines(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Lines of A of a strip."""
    rows = few.problem.rows
    return few.planes * ((config.rows - 1) * rows.step + rows.window)


def job_bytes(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Accumulators of a block, when warps that share columns have added up."""
    return config.jobs * accumulators(few, config) * WARP * STORAGE_BYTES["f32"]


def shared_bytes(few: FewChannels, config: FewChannelsWgradConfig) -> int:
    """Shared memory of a block: strips of A and C, or the accumulators on their way."""
    pitch = -(-line_vectors(few, config) * few.copied // VECTOR) * VECTOR * ELEMENT_BYTES
    inner, outer = config.channels, config.rows * config.cols
    if few.c_planar:
        inner, outer = outer, inner
    apart = (inner // VECTOR | 1) * VECTOR * ELEMENT_BYTES
    stage = lines(few, config) * pitch + outer * apart
    folded = job_bytes(few, config) if config.warps > config.jobs else 0
    added = config.warps * WARP * VECTOR * ELEMENT_BYTES
    return max(config.stages * stage, folded, added)


def refusal(few: FewChannels, config: FewChannelsWgradConfig, target: Target) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.cols % TILE or config.channels % TILE:
        return Refusal(f"{config.cols} pixels or {config.channels} channels do not fill tiles")
    if config.warps % config.jobs:
        return Refusal(f"{config.warps} warps do not share {config.jobs} jobs")
    held = accumulators(few, config)
    if held > MOST_ACCUMULATORS:
        return Refusal(f"{held} accumulators do not fit the registers of a thread")
    registers = held + config.channels // TILE * 4 + column_tiles(few, config) + OTHER_REGISTERS
    most = registers_of(config.warps, config.blocks[1])
    if registers > most:
        return Refusal(f"threads need {registers} registers of {most}")
    return target.shared_refusal(shared_bytes(few, config), config.blocks[1])


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: FewChannelsWgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, whose blocks add up their accumulators; or why it is not legal."""
    few = read(contraction, epilogue)
    if isinstance(few, Refusal):
        return few
    refused = refusal(few, config, target)
    if refused is not None:
        return refused
    spec = few.problem.contraction
    schedule = {
        "strip_rows": config.rows,
        "tile_cols": config.cols,
        "out_channels": config.channels,
        "jobs": config.jobs,
        "stages": config.stages,
        "vector": few.copied,
        "c_vector": few.c_copied,
        "a_planar": int(few.a_planar),
        "c_planar": int(few.c_planar),
        "threads": config.warps * WARP,
        "producer_warps": 0,
        "splits": splits(few, config),
        "shared_bytes": shared_bytes(few, config),
    }
    a, c = Pointer("a"), Pointer("c")
    return launch_reduction(
        "few_channels_wgrad/kernel.cuh",
        "FewChannelsWgrad",
        few.problem,
        epilogue,
        {
            "in_channels": spec.in_channels,
            "out_channels": spec.out_channels,
            "a_channel": spec.a.stride,
            "c_channel": spec.c.stride,
        },
        schedule,
        (c, a) if few.is_mirrored else (a, c),
        owners(few, config),
        config.blocks[1],
        job_bytes(few, config),
    )
