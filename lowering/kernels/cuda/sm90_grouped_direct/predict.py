"""`sm90_grouped_direct`: strips of pairs of rows, and the output pixels of their instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.sm90_grouped_direct import launch as sm90_grouped_direct

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_grouped_direct.config import Sm90GroupedDirectConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    position: float = 0.8528
    """Cycles of a multiprocessor for a position and a tap of the common window."""
    strip: float = 0.04319
    """Cycles of a strip beside."""
    start: float = 2.958
    """µs beside an empty launch."""
    dram: float = 0.9013
    """A factor of the time of DRAM."""
    dram_power: float = 3.0


FIXED = ("dram_power",)
FITTED = Constants()


@dataclass(frozen=True)
class Work:
    """Counts."""

    strips: int
    """Of the busiest multiprocessor."""
    pixels: int
    """Of a strip."""
    taps: int
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: Sm90GroupedDirectConfig, target: Target
) -> Work:
    """Count."""
    read = reading(spec, epilogue, sm90_grouped_direct.groups_of, anywhere=True)
    assert not isinstance(read, Refusal)
    problem, packed = read
    of_image = -(-problem.row_count // (2 * config.row_pairs))
    strips = problem.images.value * problem.slices.size * of_image
    rounds = -(-packed.groups * config.group_blocks // config.blocks[0]) * -(
        -strips // config.group_blocks
    )
    taps = (problem.rows.window + 1) * problem.cols.window * problem.slices.taps
    pixels = sum(sm90_grouped_direct.group_pixels(problem, config.row_pairs))
    return Work(rounds, pixels, taps, traffic_of(spec, epilogue))


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    busy = work.strips * (k.strip + k.position * work.pixels * work.taps)
    time = overlap(k.dram_power, busy / target.clock_mhz, k.dram * work.traffic.time(target))
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: Sm90GroupedDirectConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
