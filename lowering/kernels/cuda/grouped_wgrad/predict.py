"""`grouped_wgrad`: steps of output pixels, both operands from shared memory, accumulators in
registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.grouped_wgrad import launch as grouped_wgrad
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_wgrad.config import GroupedWgradConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    fragment: float = 4.691
    """For 16 x 16 elements from shared memory."""
    multiply: float = 1.7
    """For 16 x 8 x 16 products of `mma.sync`."""
    copied: float = 6.415
    """For 128 bytes that threads copy."""
    brought: float = 3.857
    """For 128 bytes that the TMA brings."""
    issue: float = 8.679
    """Cycles between two instructions of a warp on its own: fragments and products."""
    step: float = 739.6
    """Of a step that waits: all warps copy."""
    loaded: float = 126.4
    """The same where warps of their own do."""
    start: float = 9.203
    """µs beside an empty launch: the first rows, and parts that meet."""
    split: float = 0.002133
    """A factor of the time for parts, written and read in L2."""
    dram: float = 0.9002
    """A factor of the time of DRAM."""
    power: float = 6.16
    dram_power: float = 11.68


FIXED = ("multiply",)
FITTED = Constants()


@dataclass(frozen=True)
class Work:
    """Counts."""

    steps: int
    blocks: int
    fragments: float
    products: float
    bytes: float
    warps: int
    is_tma: bool
    has_producers: bool
    part_bytes: float
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: GroupedWgradConfig, target: Target) -> Work:
    """Count."""
    read = reading(spec, epilogue, grouped_wgrad.packed_groups, "B")
    assert not isinstance(read, Refusal)
    problem, packed = read
    channel_blocks = -(-packed.groups * packed.in_channels // config.channels)
    at_once = config.blocks[0] * config.blocks[1]
    splits = min(max(1, at_once // channel_blocks), grouped_wgrad.list_rows(problem, config))
    waves = ceil(channel_blocks * splits / at_once)
    out_channel_tiles = -(-problem.col_count // config.cols)
    rows = -(-problem.row_count // config.rows)
    pixels = problem.images.value * rows * out_channel_tiles * config.cols
    of_step = grouped_wgrad.step_pixels(packed, config)
    steps = ceil(ceil(pixels / of_step) / splits) * waves
    window = ((config.rows - 1) * problem.rows.step + problem.rows.window) * problem.cols.window
    tiles = config.warps * config.tiles
    taps = problem.taps * config.rows
    halo = ((config.cols - 1) * problem.cols.step + problem.cols.window) / config.cols
    of_c = grouped_wgrad.gradient_channels(packed, config)
    line = of_step * config.rows * 2
    nbytes = line * (halo * problem.rows.step * config.channels + of_c)
    accumulators = grouped_wgrad.job_bytes(problem, packed, config)
    return Work(
        steps=steps,
        blocks=config.blocks[1],
        fragments=(min(window, taps) + config.rows * config.warp_channels / 16) * tiles,
        products=taps * config.warp_channels / 8 * tiles,
        bytes=nbytes,
        warps=config.warps,
        is_tma=config.copies == "tma",
        has_producers=config.producer_warps > 0,
        part_bytes=float(accumulators * channel_blocks * splits) if splits > 1 else 0.0,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    shared = k.fragment * work.fragments
    shared += (k.brought if work.is_tma else k.copied) * work.bytes / 128
    step = overlap(k.power, k.multiply * work.products, shared)
    of_warp = k.loaded if work.has_producers else k.step
    of_warp += k.issue * (work.fragments + work.products) / work.warps
    busy = work.steps * overlap(k.power, step * work.blocks, of_warp)
    time = overlap(k.dram_power, busy / target.clock_mhz, k.dram * work.traffic.time(target))
    l2 = target.l2_rate * target.multiprocessors * target.clock_mhz
    return target.launch + k.start + time + k.split * 2 * work.part_bytes / l2


def predict(
    spec: Contraction, epilogue: Epilogue, config: GroupedWgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
