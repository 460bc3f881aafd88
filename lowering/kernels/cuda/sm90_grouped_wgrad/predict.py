"""`sm90_grouped_wgrad`: strips of rows of both operands, and the output pixels multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.sm90_grouped_wgrad import launch as family

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_grouped_wgrad.config import Sm90GroupedWgradConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    position: float = 1.001
    """Cycles of a multiprocessor for a position of a strip."""
    strip: float = 1000.0
    """Cycles of a strip beside."""
    start: float = 3.601
    """µs beside an empty launch: parts that meet among it."""
    dram: float = 1.2
    """A factor of the time of DRAM."""
    dram_power: float = 3.0


FIXED = ("dram_power", "strip", "dram")
FITTED = Constants()
BOUNDS = {"position": (1.0, 60.0)}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    strips: int
    """Of the busiest multiprocessor."""
    pixels: int
    traffic: Traffic


def work(
    spec: Contraction,
    epilogue: Epilogue,
    config: Sm90GroupedWgradConfig,
    target: Target,
) -> Work:
    """Count."""
    read = reading(spec, epilogue, family.groups_of, "B")
    assert not isinstance(read, Refusal)
    problem, packed = read
    strips = packed.groups * problem.images.value * family.strips_of(problem, config.rows)
    pixels = family.rows_of_c(problem, config) * family.pitch_of(problem)
    return Work(ceil(strips / config.blocks[0]), pixels, traffic_of(spec, epilogue))


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    busy = work.strips * (k.strip + k.position * work.pixels)
    time = overlap(k.dram_power, busy / target.clock_mhz, k.dram * work.traffic.time(target))
    return target.launch + k.start + time


def predict(
    spec: Contraction,
    epilogue: Epilogue,
    config: Sm90GroupedWgradConfig,
    target: Target,
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
