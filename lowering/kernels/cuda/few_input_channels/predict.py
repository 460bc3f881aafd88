"""`few_input_channels`: strips of rows in shared memory, and what warps read, multiply and store
of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.few_input_channels import launch as shallow
from convir.lowering.kernels.cuda.layout_conversion.predict import (
    CopyWork,
    copies_time,
    copy_work,
)
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.few_input_channels.config import FewInputChannelsConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    pixel: float = 0.002091
    """For 16 output pixels and 16 input channels from shared memory, read once."""
    weight: float = 21.22
    """For 16 input channels of 32 columns from shared memory."""
    multiply: float = 1.7
    """For 16 x 8 x 16 products."""
    store: float = 0.1556
    """For 16 output pixels of 8 columns."""
    turn: float = 858.8
    """Of a warp, for each turn."""
    issue: float = 8.548
    """Of a warp alone, for each of its instructions."""
    copy: float = 8.161
    """For a vector of A that a thread copies, by warp."""
    strip: float = 266.5
    """Of a block, between two strips."""
    spread: float = 1.078e06
    """Bytes per µs that are written where a row of C is several blocks'."""
    planes: float = 0.31
    """µs for a megabyte of planes, beside that of channels that are neighbours."""
    start: float = 3.864
    """µs beside an empty launch."""
    dram: float = 0.9001
    """A factor of the time of DRAM."""
    power: float = 2.324
    dram_power: float = 3.619


FIXED = ("multiply", "planes")
FITTED = Constants()
BOUNDS = {
    "turn": (50.0, 4000.0),
    "copy": (0.3, 40.0),
    "issue": (0.5, 20.0),
    "dram_power": (2.0, 5.0),
    "strip": (200.0, 3000.0),
    "start": (1.0, 4.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    rounds: int
    """Strips of the busiest block."""
    turns: int
    """Of a warp in a strip."""
    steps: float
    """Blocks of 16 input channels of a window."""
    reads: int
    """How often a lane reads what it multiplies: twice where windows begin at odd elements."""
    tiles: int
    out_channels: int
    warps: int
    resident: int
    copies: float
    """Vectors of a strip, by warp."""
    is_spread: bool
    relaid: tuple[CopyWork, ...]
    planes: float
    """Megabytes of results whose channels are planes."""
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: FewInputChannelsConfig, target: Target
) -> Work:
    """Count."""
    spec, copies = shallow.by_pixel(spec)
    found = reading(spec, epilogue, shallow.lines_of, planes=True)
    assert not isinstance(found, Refusal)
    problem, lines = found
    traffic = traffic_of(spec, epilogue)
    strips = problem.images.value * -(-problem.row_count // config.rows)
    strips *= -(-spec.out_channels // config.out_channels)
    blocks = config.blocks[0] * config.blocks[1]
    taps = len(problem.phases[0].rows.pixels)
    rows = (config.rows - 1) * problem.rows.step + problem.rows.window
    return Work(
        rounds=ceil(strips / blocks),
        turns=ceil(config.rows * problem.col_count / (config.warps * config.tiles * 16)),
        steps=taps * lines.blocks / 2,
        reads=2 if lines.alternates else 1,
        tiles=config.tiles,
        out_channels=config.out_channels,
        warps=config.warps,
        resident=min(config.blocks[1], ceil(strips / config.blocks[0])),
        copies=rows * problem.cols.extent * spec.in_channels / lines.copied / 32,
        is_spread=spec.out_channels > config.out_channels,
        relaid=tuple(copy_work(copy) for copy in copies),
        planes=0.0 if spec.c.stride == 1 else 1e-6 * traffic.c,
        traffic=traffic,
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    products = k.multiply * work.steps * work.tiles * work.out_channels / 8
    shared = work.steps * (k.pixel * work.reads * work.tiles + k.weight * work.out_channels / 32)
    stored = k.store * work.tiles * work.out_channels / 8
    each = overlap(k.power, products, shared, stored) * work.warps * work.turns
    each += k.copy * work.copies
    count = work.steps * work.tiles * (work.out_channels / 8 + 4)
    alone = work.turns * (k.turn + k.issue * count)
    busy = work.rounds * (k.strip + overlap(k.power, each * work.resident, alone))
    dram = k.dram * work.traffic.time(target)
    if work.is_spread:
        dram = max(dram, work.traffic.written / k.spread)
    time = overlap(k.dram_power, busy / target.clock_mhz, dram)
    time += copies_time(work.relaid, target) + k.planes * work.planes
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: FewInputChannelsConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
