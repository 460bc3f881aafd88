"""`grouped_direct`: steps of output pixels, whose pixels warps multiply by weights that they
hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.grouped_direct import launch as grouped
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_direct.config import GroupedDirectConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    fragment: float = 3.925
    """For 16 x 16 elements from shared memory."""
    multiply: float = 1.7
    """For 16 x 8 x 16 products of `mma.sync`."""
    wgmma: float = 0.7305
    """How many of them a product of `wgmma` takes."""
    store: float = 1.017
    """For 16 x 8 results."""
    copied: float = 3.116
    """For 128 bytes that threads copy."""
    brought: float = 1.401
    """For 128 bytes that the TMA brings."""
    tile: float = 10.06
    """Of a warp, for each tile of 16 output pixels, beside its instructions."""
    issue: float = 2.639
    """Cycles between two instructions of a warp on its own: fragments and products."""
    step: float = 841.4
    """Of a step that waits: all warps copy."""
    loaded: float = 582.7
    """The same where warps of their own do."""
    start: float = 5.39
    """µs beside an empty launch."""
    weight: float = 100.4
    """Cycles of a block for 16 bytes of weights, by thread."""
    dram: float = 0.9098
    """A factor of the time of DRAM."""
    power: float = 2.335
    dram_power: float = 2.51


FIXED = ("multiply",)
FITTED = Constants()
BOUNDS = {"store": (1.0, 60.0), "tile": (10.0, 900.0)}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    steps: int
    """Of the busiest block."""
    blocks: int
    """Of a multiprocessor."""
    fragments: float
    """Of a step and block."""
    products: float
    stores: float
    bytes: float
    tiles: int
    warps: int
    is_tma: bool
    is_wgmma: bool
    has_producers: bool
    weights: float
    """16 bytes of a block, by thread."""
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: GroupedDirectConfig, target: Target
) -> Work:
    """Count."""
    read = reading(spec, epilogue, grouped.packed_groups)
    assert not isinstance(read, Refusal)
    problem, packed = read
    channel_blocks = -(-packed.groups * packed.out_channels // config.channels)
    at_once = config.blocks[0] * config.blocks[1]
    parts = max(1, at_once // channel_blocks)
    waves = ceil(channel_blocks * parts / at_once)
    out_channel_tiles = -(-problem.col_count // config.cols)
    rows = -(-problem.row_count // config.rows)
    pixels = problem.images.value * rows * out_channel_tiles * config.cols
    steps = ceil(ceil(pixels / config.step_pixels) / parts) * waves
    warp_in_channels = max(1, config.warp_channels // packed.out_channels) * packed.in_channels
    of_product = max(1.0, packed.in_channels / 16)
    window = ((config.rows - 1) * problem.rows.step + problem.rows.window) * problem.cols.window
    outputs = config.rows * len(problem.phases)
    passes = outputs // config.outputs
    taps = problem.taps * config.rows
    groups = config.warps * config.tiles
    used = min(1.0, taps / window)
    in_channels = config.channels // packed.out_channels * packed.in_channels
    halo = ((config.cols - 1) * problem.cols.step + problem.cols.window) / config.cols
    line = config.step_pixels * halo * config.rows * problem.rows.step
    return Work(
        steps=steps,
        blocks=config.blocks[1],
        fragments=window * used * warp_in_channels / 16 * groups * min(passes, taps),
        products=taps * config.warp_channels / 8 * of_product * groups,
        stores=outputs * config.warp_channels / 8 * groups,
        bytes=line * in_channels * 2,
        tiles=config.tiles,
        warps=config.warps,
        is_tma=config.copies == "tma",
        is_wgmma=config.instruction == "wgmma",
        has_producers=config.producer_warps > 0,
        weights=problem.taps * config.channels * packed.in_channels / 8 / config.warps / 32,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    tensor = k.multiply * work.products * (k.wgmma if work.is_wgmma else 1.0)
    shared = k.fragment * work.fragments * (0.5 if work.is_wgmma else 1.0)
    shared += (k.brought if work.is_tma else k.copied) * work.bytes / 128
    step = overlap(k.power, tensor, shared, k.store * work.stores)
    of_warp = k.tile * work.tiles + (k.loaded if work.has_producers else k.step)
    of_warp += k.issue * (work.fragments + work.products) / work.warps
    busy = work.steps * overlap(k.power, step * work.blocks, of_warp) + k.weight * work.weights
    time = overlap(k.dram_power, busy / target.clock_mhz, k.dram * work.traffic.time(target))
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: GroupedDirectConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
