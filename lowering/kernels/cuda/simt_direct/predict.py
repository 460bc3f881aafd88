"""`simt_direct`: what a thread issues for the outputs of its unit, and how often it waits."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.prediction.overlap import launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.simt_direct import launch as scalar

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.simt_direct.config import SimtDirectConfig
    from convir.lowering.kernels.target import Target

HELD = 64
"""Values of A that a thread holds at most, so that all of its loads are under way at once."""


@dataclass(frozen=True)
class Constants:
    """Fitted; instructions are those of a thread."""

    load: float = 5.917
    """Instructions of a load of A: where it lies, and whether it is inside."""
    convert: float = 1.999
    """Instructions of an element of 16 bits that is read or written."""
    product: float = 1.0
    """Instructions of a product."""
    again: float = 0.01003
    """The part of weights that are read again for each further output of a thread."""
    store: float = 26.81
    """Instructions of a vector that is stored."""
    unit: float = 10.08
    """Instructions that find a unit."""
    sector: float = 0.9234
    """Cycles of an access of a warp, for each 128 bytes that it moves or line that it touches."""
    piece: float = 1.842
    """Cycles of a store for each sector that it writes a part of."""
    gather: float = 0.3012
    """Cycles for a weight that a block reads, each from its own line."""
    wait: float = 641.0
    """Cycles that a unit waits for its pixels, once or for each round of loads."""
    stage: float = 168.2
    """Cycles of a block for each weight of a thread that it puts into shared memory."""
    strided: float = 1.6
    """How much longer a block takes that reads every second pixel of a plane."""
    power: float = 5.119
    dram: float = 1.142
    """A factor of the time of DRAM."""
    dram_power: float = 2.004
    start: float = 0.3
    """µs beside an empty launch."""


FITTED = Constants()
BOUNDS = {
    "product": (1.0, 1.5),
    "unit": (10.0, 200.0),
    "store": (4.0, 60.0),
    "load": (3.0, 30.0),
    "sector": (0.7, 1.5),
    "convert": (0.5, 2.0),
    "again": (0.01, 1.0),
    "strided": (1.0, 2.5),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    units: int
    blocks: int
    threads: int
    resident: int
    loads: float
    """Of a unit."""
    elements: float
    """Converted, of a unit."""
    products: float
    weights: float
    """Vectors of weights of an output."""
    outputs: int
    """Of a unit."""
    of_weight: float
    """Cycles of a warp's access to them."""
    stores: float
    lines: float
    """Cycles of a warp's loads and stores of a unit: 128 bytes, or lines, each."""
    pieces: float
    """Parts of sectors that a warp's stores of a unit write."""
    rounds: float
    """Of loads that are waited for, of a unit."""
    staged: float
    """Weights of a block for each of its threads."""
    is_strided: bool
    """Whether neighbouring lanes read pixels of a plane that are apart."""
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: SimtDirectConfig, target: Target) -> Work:
    """Count."""
    read = reading(spec, epilogue, scalar.vectors_of, anywhere=True)
    assert not isinstance(read, Refusal)
    problem, vectors = read
    units = scalar.work(problem, vectors, config)
    threads = config.warps * 32
    depthwise = spec.in_channels == spec.out_channels == 1
    stored = vectors.stored
    reads = stored if depthwise else vectors.read
    rows, cols = problem.rows, problem.cols
    of_rows = min(config.rows, problem.row_count)  # what is never stored is not computed
    of_cols = min(config.cols, problem.col_count)
    window = ((of_rows - 1) * rows.step + rows.window) * ((of_cols - 1) * cols.step + cols.window)
    outputs = of_rows * of_cols
    used = min(1.0, problem.taps * outputs / window)
    steps = 1 if depthwise else spec.in_channels // reads
    slices = problem.slices.taps
    size = STORAGE_BYTES[spec.a.type]
    loads = window * used * steps * slices
    taps = problem.taps * slices * spec.in_channels
    stores = outputs * len(problem.phases)
    narrow = 1 if size < 4 else 0
    # Lanes of a quarter of a warp that read weights of different channels, and their banks.
    vector = min(4, stored)
    apart = 1 if vectors.planar else min(8, spec.groups * spec.out_channels // stored)
    banks = max(1.0, apart * stored / 32)
    of_weight = 1.0 if vectors.planar else vector * banks
    pieces = 0.0
    if vectors.planar:
        step = config.cols * cols.step * size
        of_load = max(1.0, min(32.0, step * 32 / 128))
        of_store = 0.0
        apart = of_cols * cols.c_stride * size
        if apart > size:
            pieces = stores * min(32.0, apart)
    else:
        of_load = max(1.0, reads * size / 4)
        of_store = max(1.0, stored * size / 4)
    holds = slices == 1 and window * steps * reads <= HELD
    blocks = -(-units // threads)
    grid = min(blocks, config.blocks[0] * config.blocks[1])
    shared = scalar.shared_bytes(problem)
    resident = min(config.blocks[1], max(1, target.shared_bytes // max(1, shared)))
    return Work(
        units=units,
        blocks=grid,
        threads=threads,
        resident=resident,
        loads=loads,
        elements=narrow * (loads * reads + stores * stored),
        products=taps * outputs * stored,
        weights=taps * stored / vector,
        outputs=outputs,
        of_weight=of_weight,
        stores=stores,
        lines=loads * of_load + stores * of_store,
        rounds=1.0 if holds else slices * steps,
        pieces=pieces,
        staged=shared / 4 / threads,
        is_strided=vectors.planar and cols.step > 1,
        traffic=traffic_of(spec, epilogue),
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    sms = target.multiprocessors
    weights = work.weights * (1 + k.again * (work.outputs - 1))
    instructions = k.unit + k.load * work.loads + k.convert * work.elements
    instructions += k.product * work.products + weights + k.store * work.stores
    units = ceil(work.units / (work.blocks * work.threads))
    threads = min(ceil(work.blocks / sms), work.resident) * work.threads
    issue = units * threads * instructions / target.issue_rate
    moved = k.sector * (work.lines + weights * work.of_weight) + k.piece * work.pieces
    moved *= units * threads / 32
    waiting = units * (k.wait * work.rounds + 2 * instructions)
    time = overlap(k.power, issue, moved, waiting) * (k.strided if work.is_strided else 1.0)
    blocks = threads / work.threads
    staged = max(k.stage * work.staged, k.gather * work.staged * work.threads * blocks)
    time = (time + staged) / target.clock_mhz
    return launched(time, work.traffic, target, k)


def predict(
    spec: Contraction, epilogue: Epilogue, config: SimtDirectConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
