"""`multi_tap_wgrad`: the steps of the busiest block, how splits are added, and DRAM."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import ROWS, SLAB
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import multi_tap_problem
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.multi_tap_wgrad.config import MultiTapWgradConfig
    from convir.lowering.kernels.target import Target

POSITIONS = 32
"""Whose rows a warp finds at once."""


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 0.5
    """64 x 16 products with one column, by `wgmma`; `mma.sync` takes twice as long."""
    least: float = 30.0
    """An instruction with A in registers, however few its columns are."""
    rate: float = 16.58
    """Bytes per cycle from or to L2."""
    found: float = 626.4
    """A warp finds and copies the rows of 32 output pixels."""
    step: float = 568.6
    """A barrier, and the first multiplication behind it."""
    uniform: float = 122.0
    """A step whose warps wait for their own copies."""
    start: float = 0.5
    """µs beside an empty launch."""
    meet: float = 400.2
    """Until splits know of each other."""
    dram: float = 1.277
    """A factor of the time of DRAM."""
    dram_power: float = 4.0


FIXED = ("multiply", "least", "dram_power")
FITTED = Constants()
BOUNDS = {
    "start": (0.5, 6.0),
    "step": (50.0, 900.0),
    "uniform": (50.0, 1500.0),
    "meet": (400.0, 5000.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    steps: int
    instructions: int
    """Of a step."""
    out_channels: int
    slow: int
    """How much longer they take than those of `wgmma`."""
    bytes: int
    """Of a step."""
    finds: float
    """Output pixels that a warp finds in a step, in groups."""
    producer_warps: int
    groups: int
    accumulators: int
    """Bytes of a tile."""
    times: float
    """How often they are read or written one after the other; 0 if splits do not meet."""
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: MultiTapWgradConfig, target: Target
) -> Work:
    """Count."""
    problem = multi_tap_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    schedule = config.schedule(spec, problem)
    load, instruction = config.roles
    splits = schedule.partition.splits
    if schedule.partition.kind != SPLIT_K:
        splits = ceil(schedule.shares / max(1, schedule.streamed)) if schedule.shares else 1
    added = {"linear": splits, "tree": 2 * max(1, splits - 1).bit_length(), "reduce-scatter": 2}
    return Work(
        steps=busiest_steps(schedule),
        instructions=config.chunk // SLAB * config.taps,
        out_channels=config.out_channels,
        slow=1 if config.instruction == "wgmma" else 2,
        bytes=config.chunk * 2 * (ROWS + config.out_channels),
        finds=2 * (config.chunk // POSITIONS) / (load or instruction),
        producer_warps=load,
        groups=config.consumer_warpgroups,
        accumulators=config.taps * config.out_channels * ROWS * 4,
        times=added[schedule.partition.reduction] if schedule.slots else 0,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    multiplied = work.instructions * max(k.multiply * work.slow * work.out_channels, k.least)
    copied = work.bytes / k.rate
    found = work.finds * k.found
    if work.producer_warps:
        step = max(multiplied, copied, found) + k.step
    else:
        step = max(multiplied + found, copied) + k.uniform
    if work.groups == 1:
        step += k.step  # nobody multiplies while the one group waits
    cycles = 2 * max(copied, found) + work.steps * step
    time = overlap(k.dram_power, cycles / target.clock_mhz, k.dram * work.traffic.time(target))
    if work.times:
        meet = work.times * work.accumulators / k.rate + k.meet * (
            work.times if work.times > 2 else 1
        )
        time += meet / target.clock_mhz
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: MultiTapWgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
