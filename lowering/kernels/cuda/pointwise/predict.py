"""`pointwise`: what warps load, multiply and store, one tile after the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.pointwise import launch as pointwise
from convir.lowering.kernels.cuda.pointwise.config import TILE
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.pointwise.config import PointwiseConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 9.652
    """For 16 x 8 x 16 products."""
    weight: float = 1.001
    """For what is read of the filter in shared memory, of 16 input and 8 output channels."""
    store: float = 2.003
    """For 16 output pixels of 8 columns."""
    function: float = 24.0
    """The same for a transcendental function of the epilogue."""
    load: float = 59.97
    """For 16 pixels of 16 input channels."""
    tile: float = 0.008287
    """Of a warp, for each tile."""
    alone: float = 1975.0
    """Of a warp that waits, for each tile."""
    serial: float = 40.78
    """Of a warp that waits, for 16 output pixels of 8 columns besides."""
    serial_function: float = 60.0
    """The same for a transcendental function of the epilogue."""
    serial_operand: float = 100.0
    """The same for its operands that are like the result."""
    stage: float = 1.956
    """For a word of the filter that a block copies to shared memory."""
    start: float = 0.3018
    """µs beside an empty launch."""
    dram: float = 0.9771
    """A factor of the time of DRAM."""
    power: float = 1.208
    dram_power: float = 3.901


FITTED = Constants()
FIXED = ("function", "serial_function", "serial_operand")
"""What is not fitted: no record has an epilogue; by the times of `benchmarks/epilogues.py`."""
BOUNDS = {
    "multiply": (2.0, 32.0),
    "weight": (1.0, 16.0),
    "store": (2.0, 60.0),
    "load": (1.0, 60.0),
    "alone": (100.0, 6000.0),
    "start": (0.3, 4.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    tiles: float
    """Of a multiprocessor."""
    turns: int
    """Tiles of the busiest warp."""
    tile_rows: float
    """Sixteens of pixels of a tile."""
    steps: float
    """Sixteens of input channels."""
    columns: float
    """Eights of output channels."""
    functions: float
    """Those to which the epilogue applies a transcendental function."""
    operands: float
    """Those for which it reads operands that are like the result."""
    words: float
    """Of the filter, for all blocks of a multiprocessor."""
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: PointwiseConfig, target: Target) -> Work:
    """Count."""
    del target
    read = reading(spec, epilogue, pointwise.is_linear)
    assert not isinstance(read, Refusal)
    problem, _ = read
    blocks = min(config.blocks[0] * config.blocks[1], pointwise.blocks_of(problem, config))
    tiles = ceil(problem.pixels / config.rows)
    resident = ceil(blocks / config.blocks[0])
    return Work(
        tiles=tiles / min(blocks, config.blocks[0]),
        turns=ceil(tiles / (blocks * config.warps)),
        tile_rows=config.rows / TILE,
        steps=spec.in_channels / 16,
        columns=spec.out_channels / 8,
        functions=spec.out_channels / 8 * epilogue.has_functions,
        operands=spec.out_channels / 8 * any(each.follows_result for each in epilogue.operands),
        words=resident * spec.in_channels * spec.out_channels / 2,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    products = k.multiply * work.tile_rows * work.columns * work.steps / 4
    shared = k.weight * work.columns * work.steps
    stored = k.store * work.columns + k.function * work.functions
    issued = work.tile_rows * (stored + k.load * work.steps) / 4 + k.tile
    busy = work.tiles * overlap(k.power, products, shared, issued)
    serial = k.serial * work.columns
    serial += k.serial_function * work.functions + k.serial_operand * work.operands
    waiting = work.turns * (k.alone + work.tile_rows * serial)
    cycles = overlap(k.power, busy, waiting) + k.stage * work.words / 4
    dram = k.dram * work.traffic.time(target)
    return target.launch + k.start + overlap(k.dram_power, cycles / target.clock_mhz, dram)


def predict(
    spec: Contraction, epilogue: Epilogue, config: PointwiseConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
