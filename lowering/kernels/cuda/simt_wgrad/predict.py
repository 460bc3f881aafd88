"""`simt_wgrad`: what a thread issues for a unit and waits for, and the configs to consider."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.prediction.fastest import fastest
from convir.lowering.kernels.cuda.prediction.overlap import launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.registers import WARP
from convir.lowering.kernels.cuda.simt_wgrad.config import SimtWgradConfig
from convir.lowering.kernels.cuda.simt_wgrad.launch import owners, splits, teams, units
from convir.lowering.kernels.cuda.simt_wgrad.problem import read, refusal, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

FEW = 6
"""Configs that are considered: the fastest by prediction."""
SHAPES = ((1, 1), (1, 2), (2, 2), (1, 4), (2, 4), (4, 2))
CHANNEL_BYTES = (64, 128, 256)
"""Of a pixel of a block: a line, or half or twice as much."""
BLOCKS = ((8, 1), (8, 2), (8, 3), (4, 6), (4, 8))
"""Warps, and blocks of a multiprocessor."""


@dataclass(frozen=True)
class Constants:
    """Instructions are those of a thread."""

    load: float = 18.82
    """Instructions of a load: where it lies, and whether it is inside."""
    convert: float = 1.999
    """Instructions of an element of 16 bits that is read."""
    product: float = 1.455
    """Instructions of a product."""
    unit: float = 10.01
    """Instructions that find a unit."""
    line: float = 0.5916
    """Cycles of an access of a warp, for each 128 bytes that it moves or line that it touches."""
    wait: float = 1252.0
    """Cycles that a unit waits for its pixels, once or for each row of its window."""
    tail: float = 74.53
    """Cycles of a block for a sum of a team that is added up."""
    publish: float = 0.001001
    """µs by which blocks that add up take longer, and for each megabyte of sums."""
    add: float = 7.691
    """Cycles in which a thread of the last block adds what another block published."""
    power: float = 1.315
    dram: float = 1.2
    """A factor of the time of DRAM."""
    dram_power: float = 2.0
    start: float = 0.3003
    """µs beside an empty launch."""


FITTED = Constants()
BOUNDS = {
    "load": (3.0, 30.0),
    "product": (1.0, 1.5),
    "unit": (10.0, 200.0),
    "line": (0.5, 4.0),
    "convert": (0.5, 2.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    units: int
    """Of a thread."""
    threads: int
    """Of a multiprocessor."""
    loads: float
    """Of a unit."""
    elements: float
    """Converted, of a unit."""
    products: float
    lines: float
    """Cycles of a warp's loads of a unit: 128 bytes, or lines, each."""
    rounds: int
    """Of loads that are waited for, of a unit."""
    adds: float
    """Sums of teams that a thread adds up."""
    published: float
    """Bytes of sums, of all blocks; 0 where none are published."""
    added: int
    """Published sums that a thread of the last block adds."""
    traffic: Traffic


def work_of(
    problem: DirectProblem, config: SimtWgradConfig, epilogue: Epilogue, target: Target
) -> Work:
    """Count."""
    spec, shape = problem.contraction, shape_of(problem, config)
    size = STORAGE_BYTES[spec.a.type]
    outputs = config.rows * config.cols
    loads = shape.used + outputs
    count = splits(problem, config, target)
    blocks = owners(problem, config) * count
    of_warp = WARP * config.vector * size / 128
    touched = WARP * config.vector / config.channels
    at_once = min(config.resident, ceil(blocks / target.multiprocessors))
    return Work(
        units=ceil(units(problem, config) / (count * teams(config))),
        threads=at_once * config.warps * WARP,
        loads=loads,
        elements=loads * config.vector if size < 4 else 0,
        products=problem.taps * outputs * config.vector,
        lines=loads * max(of_warp, touched),
        rounds=-(-shape.window_rows // shape.rows_at_once),
        adds=problem.taps * config.vector * 2,
        published=blocks * shape.sums * 4.0 if count > 1 else 0.0,
        added=count * -(-shape.sums // (config.warps * WARP)),
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    instructions = k.unit + k.load * work.loads + k.convert * work.elements
    instructions += k.product * work.products
    issue = work.units * work.threads * instructions / target.issue_rate
    moved = k.line * work.lines * work.units * work.threads / WARP
    waiting = work.units * (k.wait * work.rounds + instructions)
    cycles = overlap(k.power, issue, moved, waiting) + k.tail * work.adds
    time = cycles / target.clock_mhz
    if work.published:
        time += k.publish * (1 + work.published / 1e6) + k.add * work.added / target.clock_mhz
    return launched(time, work.traffic, target, k)


def work(spec: Contraction, epilogue: Epilogue, config: SimtWgradConfig, target: Target) -> Work:
    """Count."""
    found = read(spec, epilogue)
    assert not isinstance(found, Refusal)
    return work_of(found[0], config, epilogue, target)


def predict(
    spec: Contraction, epilogue: Epilogue, config: SimtWgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)


def plan(
    contraction: Contraction, epilogue: Epilogue, target: Target
) -> tuple[SimtWgradConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why there are none."""
    found = read(contraction, epilogue)
    if isinstance(found, Refusal):
        return found
    problem, widest = found

    def judged(config: SimtWgradConfig) -> float | Refusal:
        refused = refusal(problem, widest, config, target)
        if refused is not None:
            return refused
        return time_of(work_of(problem, config, epilogue, target), target)

    return fastest(_shapes(problem, widest), judged, FEW)


def _shapes(problem: DirectProblem, widest: int) -> Iterator[SimtWgradConfig]:
    size = STORAGE_BYTES[problem.contraction.a.type]
    shapes = {(min(r, problem.row_count), min(c, problem.col_count)) for r, c in SHAPES}
    vectors = [vector for vector in (1, 2, 4, 8) if widest % vector == 0]
    for rows, cols in sorted(shapes):
        for nbytes in CHANNEL_BYTES:
            for vector in vectors:
                for warps, resident in BLOCKS:
                    yield SimtWgradConfig(rows, cols, nbytes // size, vector, warps, resident)
