"""`sm90_halo_wgrad`: products from shared memory, beside copies of halos; parts that meet."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.prediction.overlap import heated, launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import (
    ELEMENT_BYTES,
    INSTRUCTION_ROWS,
)
from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import halo_wgrad_problem
from convir.lowering.kernels.cuda.sm90_halo_wgrad.sets import (
    box_pixels,
    columns_of,
    owners_of,
    part_bytes,
    sets_of_block,
    splits_of,
    stage_bytes,
    tile_count,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import HaloWgradConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Cycles of a multiprocessor."""

    multiply: float = 1.08
    """A factor of the cycles of `wgmma` at its full rate."""
    operands: float = 1.187
    """A factor of the cycles in which shared memory gives both operands of it."""
    moved: float = 0.5018
    """The same of boxes that arrive."""
    copy_rate: float = 44.74
    """Bytes of boxes per cycle from L2."""
    pixel: float = 0.3992
    """Cycles of a pixel of a box, however few its channels."""
    latency: float = 2560.0
    """Of a copy, which the stages hide that are not multiplied."""
    tile: float = 10.01
    """Between two tiles of a warpgroup."""
    start: float = 5.554
    """µs beside an empty launch: the first tile, and parts that meet."""
    split: float = 1.078
    """A factor of the time for parts, written and read in L2."""
    power: float = 11.96
    """How products, shared memory and copies add up; see `overlap`."""
    dram: float = 0.901
    """A factor of the time of DRAM."""
    dram_power: float = 7.999


FITTED = Constants()
BOUNDS = {
    "multiply": (1.0, 1.3),
    "operands": (0.7, 1.5),
    "moved": (0.5, 2.0),
    "copy_rate": (15.0, 90.0),
    "pixel": (0.2, 4.0),
    "latency": (600.0, 3000.0),
    "tile": (10.0, 1000.0),
    "start": (1.0, 8.0),
    "split": (0.3, 3.0),
    "power": (1.5, 12.0),
    "dram": (0.9, 1.6),
    "dram_power": (1.5, 8.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    tiles: int
    """Of a block."""
    products: float
    """Of a tile."""
    operand_bytes: float
    """That its instructions read of shared memory."""
    pixels: float
    """Of both boxes."""
    bytes: float
    stages: int
    part_bytes: float
    rate: str
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: HaloWgradConfig, target: Target) -> Work:
    """Count."""
    del target
    problem = halo_wgrad_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    splits, owners = splits_of(problem, config), owners_of(problem, config)
    columns = columns_of(problem, config)
    instructions = sets_of_block(problem, config) * config.pixels / 16
    return Work(
        tiles=ceil(tile_count(problem, config) / splits),
        products=instructions * 16 * INSTRUCTION_ROWS * columns,
        operand_bytes=instructions * 16 * ELEMENT_BYTES * (INSTRUCTION_ROWS + columns),
        pixels=sum(box_pixels(problem, config)),
        bytes=stage_bytes(problem, config),
        stages=config.stages,
        part_bytes=float(part_bytes(problem, config) * owners * splits) if splits > 1 else 0.0,
        rate=spec.a.type,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    multiplied = k.multiply * work.products / target.wgmma_rate[work.rate]
    shared = (k.operands * work.operand_bytes + k.moved * work.bytes) / target.shared_rate
    copied = work.bytes / k.copy_rate + k.pixel * work.pixels
    product = overlap(k.power, multiplied, shared, copied) + k.tile
    tile = max(product, (k.latency + copied) / (work.stages - 1))
    busy = heated(work.tiles * tile / target.clock_mhz)
    l2 = target.l2_rate * target.multiprocessors * target.clock_mhz
    return launched(busy, work.traffic, target, k) + k.split * 2 * work.part_bytes / l2


def predict(
    spec: Contraction, epilogue: Epilogue, config: HaloWgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
