"""`sm90_fused_dgrad`: tiles of 64 rows, read once for all phases."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.prediction.overlap import heated, launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.sm90_fused_dgrad.config import CONSUMERS, ROWS
from convir.lowering.kernels.cuda.sm90_fused_dgrad.launch import fused_problem
from convir.lowering.kernels.cuda.sm90_fused_dgrad.problem import ROW_BYTES
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import BLOCK_K

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_fused_dgrad.config import FusedDgradConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 1.738
    """A factor of the cycles of `wgmma` at its full rate."""
    rows_rate: float = 67.49
    """Bytes of A per cycle from L2."""
    latency: float = 994.8
    """Of a copy, which as many stages hide."""
    store: float = 2.733
    """For 32 results of a warp."""
    store_: float = 283.6
    """For each time that columns are staged and stored."""
    tile: float = 500.6
    """Between two tiles of a warpgroup."""
    start: float = 4.497
    """µs beside an empty launch, weights among it."""
    dram: float = 0.9002
    """A factor of the time of DRAM."""
    dram_power: float = 11.79


FITTED = Constants()
BOUNDS = {
    "multiply": (1.0, 2.0),
    "tile": (500.0, 5000.0),
    "start": (1.0, 4.5),
    "store": (0.3, 9.0),
    "latency": (600.0, 3000.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    tiles: int
    """Of the busiest warpgroup."""
    products: float
    """Of a tile."""
    a_bytes: float
    loads: float
    stages: int
    accumulators: float
    stores_: float
    rate: str
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: FusedDgradConfig, target: Target) -> Work:
    """Count."""
    problem = fused_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    chunks = -(-spec.in_channels // BLOCK_K)
    loads = len(problem.shifts) * chunks
    out_channels = problem.out_channels * len(problem.phases)
    return Work(
        tiles=ceil(-(-problem.pixels // ROWS) / (CONSUMERS * config.blocks)),
        products=problem.taps * chunks * BLOCK_K * problem.out_channels * ROWS,
        a_bytes=loads * ROWS * ROW_BYTES,
        loads=loads,
        stages=config.stages,
        accumulators=out_channels * ROWS,
        stores_=out_channels / config.store_channels,
        rate=spec.a.type,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    multiplied = k.multiply * work.products / target.wgmma_rate[work.rate]
    copied = work.a_bytes / k.rows_rate
    stored = k.store * work.accumulators / 32
    both = CONSUMERS * max(multiplied, copied, stored)
    alone = max(multiplied, work.loads / work.stages * k.latency)
    alone += k.tile + stored + k.store_ * work.stores_
    busy = work.tiles * overlap(3.0, both, alone)
    return launched(heated(busy / target.clock_mhz), work.traffic, target, k)


def predict(
    spec: Contraction, epilogue: Epilogue, config: FusedDgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
