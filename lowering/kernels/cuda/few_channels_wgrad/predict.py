"""`few_channels_wgrad`: strips that are copied, gathered from and multiplied; parts that meet."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.few_channels_wgrad import launch
from convir.lowering.kernels.cuda.few_channels_wgrad.config import TILE
from convir.lowering.kernels.cuda.few_channels_wgrad.problem import read
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.registers import WARP

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.few_channels_wgrad.config import FewChannelsWgradConfig
    from convir.lowering.kernels.target import Target

BANKS = 32
"""Of shared memory, four bytes each."""


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 1.7
    """For 16 x 8 x 16 products of `mma.sync`."""
    fragment: float = 2.04
    """For 16 x 16 elements of C from shared memory."""
    gather: float = 0.9922
    """For a bank's turn where a warp gathers 32 elements."""
    copy: float = 24.27
    """For a warp's copy of 32 pieces."""
    issue: float = 2.007
    """Cycles between two instructions of a warp on its own."""
    strip: float = 103.4
    """Of a block, between two strips."""
    start: float = 4.848
    """µs beside an empty launch: the first strips, and parts that meet."""
    split: float = 0.662
    """A factor of the time for parts, written and read in L2."""
    dram: float = 1.181
    """A factor of the time of DRAM."""
    power: float = 3.078
    dram_power: float = 2.746


FIXED = ("multiply",)
FITTED = Constants()
BOUNDS = {"strip": (100.0, 3000.0), "issue": (2.0, 20.0), "copy": (4.0, 60.0)}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    rounds: int
    """Strips of the busiest block."""
    turns: int
    """Of a warp in a strip: 16 output pixels each."""
    warps: int
    resident: int
    products: int
    fragments: int
    gathers: float
    """Of a warp's turn: instructions, and turns of the busiest bank."""
    copies: float
    """Of a strip, by warp."""
    part_bytes: float
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: FewChannelsWgradConfig, target: Target
) -> Work:
    """Count."""
    few = read(spec, epilogue)
    assert not isinstance(few, Refusal)
    owners, splits = launch.owners(few, config), launch.splits(few, config)
    tiles = launch.column_tiles(few, config)
    rows = config.channels // TILE
    vectors = launch.lines(few, config) * launch.line_vectors(few, config)
    vectors += config.rows * config.cols * config.channels // few.c_copied
    at_once = config.blocks[0] * config.blocks[1]
    return Work(
        rounds=ceil(launch.strips(few, config) / splits) * ceil(owners * splits / at_once),
        turns=ceil(config.rows * config.cols // TILE * config.jobs / config.warps),
        warps=config.warps,
        resident=min(config.blocks[1], ceil(owners * splits / config.blocks[0])),
        products=rows * tiles,
        fragments=rows,
        gathers=4.0 * tiles * _conflicts(few.problem.cols.step * few.problem.cols.a_stride),
        copies=vectors / WARP,
        part_bytes=float(launch.job_bytes(few, config) * owners * splits) if splits > 1 else 0.0,
        traffic=traffic_of(spec, epilogue),
    )


def _conflicts(step: int) -> int:
    """Turns of the busiest bank where lanes gather 8 neighbours of every second of 8 windows."""
    words = {(pixel * 2 * step + column) // 2 for pixel in range(4) for column in range(8)}
    return max(sum(word % BANKS == bank for word in words) for bank in range(BANKS))


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    shared = k.fragment * work.fragments + k.gather * work.gathers
    turn = overlap(k.power, k.multiply * work.products, shared)
    strip = work.turns * work.warps * turn + k.copy * work.copies
    instructions = work.products + work.fragments + 2 * work.gathers
    alone = k.strip + k.issue * (work.turns * instructions + 4 * work.copies / work.warps)
    busy = work.rounds * overlap(k.power, strip * work.resident, alone)
    time = overlap(k.dram_power, busy / target.clock_mhz, k.dram * work.traffic.time(target))
    l2 = target.l2_rate * target.multiprocessors * target.clock_mhz
    return target.launch + k.start + time + k.split * 2 * work.part_bytes / l2


def predict(
    spec: Contraction, epilogue: Epilogue, config: FewChannelsWgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
