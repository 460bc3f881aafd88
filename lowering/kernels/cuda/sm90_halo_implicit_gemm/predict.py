"""`sm90_halo_implicit_gemm`: products from shared memory, beside copies of halos and stores."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.prediction.overlap import heated, launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import SECTOR, Traffic, traffic_of
from convir.lowering.kernels.cuda.result_planes import BOX_ROWS
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import (
    ELEMENT_BYTES,
    INSTRUCTION_ROWS,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.layout import (
    chunks_of,
    column_tiles,
    groups_of,
    layout_of,
    planes_of,
    products_of,
    tiles_of,
    weight_bytes,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import (
    PAIR,
    STEP_CHANNELS,
    halo_problem,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 1.003
    """A factor of the cycles of `wgmma` at its full rate."""
    operands: float = 0.8527
    """A factor of the cycles in which shared memory gives both operands of it."""
    moved: float = 0.5092
    """The same of halos that arrive, and of results that are staged."""
    copy_rate: float = 89.98
    """Bytes of halos and of B per cycle from L2."""
    pixel: float = 1.173
    """Cycles of a pixel of a halo, however few its channels."""
    apart: float = 0.459
    """The same beside it, of one whose neighbours in the box are none in memory."""
    latency: float = 2500.0
    """Of a copy, which as many stages hide."""
    stored: float = 1.428
    """For 32 results of a warp."""
    tile: float = 200.1
    """Between two tiles of a warpgroup."""
    run: float = 3.445
    """For a run of results that a row of lanes stores."""
    segment: float = 1.0
    """For a run of pixels of planes that lanes store."""
    parts: float = 1.6
    """µs for a megabyte of planes whose sectors lanes write in parts, if it is as much as the L2
    cache holds."""
    start: float = 1.546
    """µs beside an empty launch."""
    power: float = 7.692
    """How products, shared memory and copies add up; see `overlap`."""
    dram: float = 0.9
    """A factor of the time of DRAM."""
    dram_power: float = 5.979


FITTED = Constants()
FIXED = ("segment", "parts")
"""What is not fitted: five problems took so much longer on planes that lanes store."""
BOUNDS = {
    "multiply": (1.0, 1.5),
    "operands": (0.7, 1.5),
    "pixel": (1.1, 4.0),
    "apart": (0.1, 8.0),
    "moved": (0.5, 4.0),
    "copy_rate": (30.0, 90.0),
    "tile": (200.0, 3000.0),
    "run": (0.1, 20.0),
    "latency": (600.0, 2500.0),
    "stored": (0.5, 9.0),
    "start": (0.3, 3.0),
    "power": (1.5, 8.0),
    "dram": (0.9, 1.6),
    "dram_power": (1.5, 8.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    tiles: int
    """Of the busiest multiprocessor."""
    consumers: int
    products: float
    """Of a tile."""
    operand_bytes: float
    """That its instructions read of shared memory."""
    halo_pixels: float
    """Of all chunks."""
    apart_pixels: float
    """Those of planes."""
    halo_bytes: float
    weight_bytes: float
    stages: float
    """Tiles in flight, of a consumer."""
    accumulators: float
    runs: float
    """Of results that are stored."""
    segments: float
    """Runs of pixels of planes that lanes store."""
    parts: float
    """Megabytes of planes whose sectors lanes write in parts."""
    rate: str
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: HaloConfig, target: Target) -> Work:
    """Count."""
    del target
    problem = halo_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    layout = layout_of(problem, config)
    columns = groups_of(problem, config) * config.columns
    tiles = problem.images.value * prod(tiles_of(problem, config))
    rows = layout.tiles * INSTRUCTION_ROWS
    chunks = chunks_of(problem, config)
    row_bytes = STEP_CHANNELS * ELEMENT_BYTES
    pixels = chunks * layout.halo
    planes = planes_of(problem, config)
    lines = config.rows if config.is_patch else layout.tiles * INSTRUCTION_ROWS // BOX_ROWS
    lines += 0 if config.is_patch else config.rows - 1
    by_lanes = planes.exist and planes.lines == 0
    traffic = traffic_of(spec, epilogue)
    step = PAIR if planes.pairs else 1
    sectors = (step * config.cols, planes.channel_stride, *problem.strides[1:])
    has_parts = by_lanes and any(n * ELEMENT_BYTES % SECTOR for n in sectors)
    instructions = products_of(problem, config) * layout.tiles
    return Work(
        tiles=ceil(tiles / (config.blocks // column_tiles(problem, config))),
        consumers=config.consumers,
        products=products_of(problem, config) * STEP_CHANNELS * rows * config.columns,
        operand_bytes=instructions * row_bytes * (INSTRUCTION_ROWS + config.columns),
        halo_pixels=pixels,
        apart_pixels=pixels if problem.pitch[0] > 1 else 0,
        halo_bytes=pixels * config.row_bytes,
        weight_bytes=weight_bytes(problem, config),
        stages=config.stages / (chunks * len(layout.slices)),
        accumulators=rows * columns,
        runs=rows * columns / config.store_channels,
        segments=lines * columns / step if by_lanes else 0,
        parts=1e-6 * traffic.c if has_parts else 0.0,
        rate=spec.a.type,
        traffic=traffic,
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    multiplied = k.multiply * work.products / target.wgmma_rate[work.rate]
    staged = 2 * ELEMENT_BYTES * work.accumulators
    shared = k.operands * work.operand_bytes + k.moved * (work.halo_bytes + staged)
    copied = work.halo_bytes / k.copy_rate + k.pixel * work.halo_pixels
    copied += k.apart * work.apart_pixels
    stored = k.stored * work.accumulators / 32 + k.segment * work.segments
    product = overlap(k.power, multiplied, shared / target.shared_rate, copied)
    alone = max(product, (k.latency + copied) / work.stages) + k.tile + stored
    together = work.tiles * (product + k.run * work.runs)
    busy = overlap(k.power, together, ceil(work.tiles / work.consumers) * alone)
    busy += work.weight_bytes / k.copy_rate
    time = launched(heated(busy / target.clock_mhz), work.traffic, target, k)
    return time + k.parts * work.parts * min(1.0, 1e6 * work.parts / target.l2_bytes)


def predict(spec: Contraction, epilogue: Epilogue, config: HaloConfig, target: Target) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
