"""`sm90_row_packed_wgrad`: the cycles of its heuristic, beside DRAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.cycles import START_CYCLES, cycles_of
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import row_packed_problem

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import RowPackedWgradConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    cycles: float = 0.8936
    """A factor of the heuristic's cycles, those before the first step left out."""
    start: float = 0.3067
    """µs beside an empty launch."""
    dram: float = 1.288
    """A factor of the time of DRAM."""
    dram_power: float = 2.075


FITTED = Constants()
BOUNDS = {"dram": (0.9, 1.6), "dram_power": (2.0, 9.0)}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    cycles: float
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: RowPackedWgradConfig, target: Target
) -> Work:
    """Count."""
    problem = row_packed_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    cycles = cycles_of(spec, problem, config) - START_CYCLES
    return Work(cycles, traffic_of(spec, epilogue))


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    busy = k.cycles * work.cycles / target.clock_mhz
    time = overlap(k.dram_power, busy, k.dram * work.traffic.time(target))
    return target.launch + k.start + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: RowPackedWgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
