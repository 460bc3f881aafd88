"""`halo_implicit_gemm`: a tile of A that is copied once, then products of one tap after another."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.halo_implicit_gemm import launch
from convir.lowering.kernels.cuda.prediction.overlap import heated, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.registers import WARP

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.halo_implicit_gemm.config import HaloImplicitGemmConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 1.7
    """For 16 x 8 x 16 products of `mma.sync`."""
    fragment: float = 3.005
    """For 16 x 16 elements from shared memory."""
    copy: float = 24.2
    """For a warp's copy of 32 pieces of a tap of the filter."""
    halo: float = 36.35
    """The same of what a block reads of A."""
    issue: float = 2.062
    """Cycles between two instructions of a warp on its own."""
    tap: float = 117.5
    """Of a block, between the products of two taps."""
    tile: float = 509.2
    """Of a block: its part of A arrives, and results leave."""
    start: float = 4.705
    """µs beside an empty launch."""
    dram: float = 1.597
    """A factor of the time of DRAM."""
    power: float = 11.87
    dram_power: float = 2.003


FIXED = ("multiply",)
FITTED = Constants()
BOUNDS = {
    "fragment": (3.0, 8.0),
    "copy": (2.0, 60.0),
    "halo": (5.0, 90.0),
    "issue": (2.0, 20.0),
    "tap": (10.0, 800.0),
    "tile": (500.0, 8000.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    rounds: int
    """Tiles of the busiest multiprocessor, in groups of as many as it holds."""
    resident: int
    warps: int
    taps: int
    products: int
    fragments: float
    """Of a block, for a tap."""
    filter_copies: float
    halo_copies: float
    """Of a block, for a tap and for all, by warp."""
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: HaloImplicitGemmConfig, target: Target
) -> Work:
    """Count."""
    problem = launch.read(spec, epilogue)
    assert not isinstance(problem, Refusal)
    tiles = launch.blocks(problem, config)
    resident = min(config.resident, ceil(tiles / target.multiprocessors))
    rows, depth = launch.pixels(config) // 16, spec.in_channels // 16
    pieces = spec.in_channels // 8
    return Work(
        rounds=ceil(tiles / (target.multiprocessors * resident)),
        resident=resident,
        warps=config.warps,
        taps=launch.taps(problem),
        products=rows * config.channels // 8 * depth,
        fragments=depth * (rows + config.warps * config.channels / 16),
        filter_copies=config.channels * pieces / WARP,
        halo_copies=prod(launch.halo(problem, config)) * pieces / WARP,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    shared = k.fragment * work.fragments + k.copy * work.filter_copies
    tap = overlap(k.power, k.multiply * work.products, shared)
    arrival = k.halo * work.halo_copies
    instructions = (work.products + work.fragments) / work.warps
    alone = k.tile + arrival
    alone += work.taps * (k.tap + overlap(k.power, tap, k.issue * instructions))
    tile = work.taps * tap + arrival
    busy = work.rounds * overlap(k.power, tile * work.resident, alone)
    time = overlap(
        k.dram_power, heated(busy / target.clock_mhz), k.dram * work.traffic.time(target)
    )
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: HaloImplicitGemmConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
