"""`grouped_planes`: what a block moves, multiplies and issues for a tile, and how many there
are."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.grouped_planes.config import CHUNK
from convir.lowering.kernels.cuda.grouped_planes.launch import matrix_instructions, splits, tiles
from convir.lowering.kernels.cuda.grouped_planes.problem import ELEMENT_BYTES, layout, read
from convir.lowering.kernels.cuda.prediction.overlap import launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of
from convir.lowering.kernels.cuda.registers import WARP

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_planes.config import GroupedPlanesConfig
    from convir.lowering.kernels.cuda.grouped_planes.problem import PlanesForm, TileLayout
    from convir.lowering.kernels.target import Target

MMA_MACS = 16 * 8 * 16


@dataclass(frozen=True)
class Constants:
    """Fitted; instructions are those of a thread, cycles those of a multiprocessor."""

    unit: float = 54.67
    """Instructions of a vector that is brought or stored."""
    product: float = 2.0
    """Instructions of a lane for a matrix instruction."""
    word: float = 1.026
    """Instructions of a lane for what it shifts and stores, or multiplies, of two columns."""
    job: float = 10.0
    """Instructions of a lane for a strip of a segment."""
    mma: float = 1.624
    """How much longer matrix instructions take than at the target's rate."""
    shared: float = 1.296
    """Cycles of 128 bytes of shared memory."""
    wait: float = 1039.0
    """Cycles of a tile that a block waits: for memory, and at barriers."""
    weights: float = 9000.0
    """Cycles until a block has its weights, or has published its sums."""
    publish: float = 2.283
    """µs by which blocks of wgrad that add up take longer, and for each megabyte of sums."""
    halo: float = 0.02095
    """The part of what the L2 cache brings again that DRAM's time takes longer."""
    power: float = 5.568
    dram: float = 0.9
    """A factor of the time of DRAM."""
    dram_power: float = 2.239
    start: float = 0.7389
    """µs beside an empty launch."""


FITTED = Constants()
BOUNDS = {
    "unit": (10.0, 100.0),
    "product": (0.8, 2.0),
    "word": (1.0, 20.0),
    "job": (10.0, 300.0),
    "mma": (0.7, 3.0),
    "shared": (0.5, 3.0),
    "wait": (300.0, 9000.0),
    "weights": (500.0, 9000.0),
    "halo": (0.0, 1.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts of a tile, if not said otherwise."""

    tiles: int
    """Of the busiest block."""
    waves: float
    """Blocks of a multiprocessor, on average."""
    resident: int
    stages: int
    units: float
    products: float
    """Of lanes; so are words and jobs."""
    words: float
    jobs: float
    macs: float
    busiest: float
    """What the busiest warp of a block computes, over an even share."""
    bytes: float
    """Of shared memory."""
    published: float
    """Bytes of sums, of all blocks; 0 where none are published."""
    again: float
    """How often A is brought beyond once, on average."""
    type: str
    traffic: Traffic


def work_of(
    problem: DirectProblem,
    form: PlanesForm,
    config: GroupedPlanesConfig,
    tile: TileLayout,
    epilogue: Epilogue,
    target: Target,
) -> Work:
    """Count."""
    spec = problem.contraction
    loaded = config.groups * form.in_channels * config.images * tile.in_rows * tile.in_cols
    stored = config.groups * form.out_channels * config.images * config.rows * tile.out_row
    units = loaded / form.a_vector + stored / tile.out_vector
    parts = config.groups * form.out_channels // config.channels
    of_part = config.images * config.rows // config.unroll * config.segments
    sharing = config.warps // parts
    chunks = tile.lead + tile.segment + tile.trail
    row_taps, octets = len(problem.phases[0].rows.pixels), form.in_channels // CHUNK
    window = row_taps + (config.unroll - 1) * min(problem.rows.step, row_taps)
    mmas = matrix_instructions(problem, config)
    depth = row_taps * octets
    of_chunk = config.unroll * mmas * (depth / 2 if form.is_wgrad else -(-depth // 2))
    jobs = of_part * parts
    words = config.unroll * 2 * mmas + -(-window * octets // 4)
    nbytes = 2.0 * (loaded + stored) * ELEMENT_BYTES
    nbytes += jobs * chunks * 128 * (-(-window * octets // 4) * 4 + words)
    owners = form.groups // config.groups
    count = splits(problem, form, config, tile, target)
    all_tiles = tiles(problem, config, tile)
    published = 0.0
    if form.is_wgrad and count > 1:
        published = owners * count * tile.sums * 4.0
    ideal = problem.images.value * problem.rows.extent * problem.cols.extent
    again = loaded * all_tiles * owners / (ideal * spec.groups * spec.in_channels)
    return Work(
        tiles=ceil(all_tiles / count),
        waves=owners * count / target.multiprocessors,
        resident=config.resident,
        stages=config.stages,
        units=units,
        products=jobs * chunks * of_chunk * WARP,
        words=jobs * chunks * words * WARP,
        jobs=jobs * WARP,
        macs=jobs * chunks * config.unroll * mmas * depth / 2 * MMA_MACS,
        busiest=ceil(of_part / sharing) * sharing / of_part,
        bytes=nbytes,
        published=published,
        again=max(0.0, again - 1),
        type=spec.a.type,
        traffic=traffic_of(spec, epilogue),
    )


def work(
    spec: Contraction, epilogue: Epilogue, config: GroupedPlanesConfig, target: Target
) -> Work:
    """Count."""
    found = read(spec, epilogue)
    assert not isinstance(found, Refusal)
    problem, form = found
    tile = layout(problem, form, config)
    return work_of(problem, form, config, tile, epilogue, target)


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    computing = k.product * work.products + k.word * work.words + k.job * work.jobs
    issue = (k.unit * work.units + work.busiest * computing) / target.issue_rate
    tensor = work.busiest * k.mma * work.macs / target.mma_rate[work.type]
    busy = overlap(k.power, issue, tensor, k.shared * work.bytes / target.shared_rate)
    at_once = min(float(work.resident), max(1.0, work.waves))
    rounds = ceil(work.waves / work.resident)
    # Tiles that are under way hide what those before them wait for.
    wait = k.wait * work.tiles * rounds / (1 if work.stages == 1 else 2)
    total = busy * work.tiles * max(work.waves, at_once * rounds * 0.9)
    cycles = overlap(k.power, total, wait) + busy / at_once + k.weights
    time = cycles / target.clock_mhz
    again = k.halo * work.again * work.traffic.a / target.dram_read
    if work.published:
        time += k.publish * (1 + work.published / 1e6)
    return launched(time + again, work.traffic, target, k)


def predict(
    spec: Contraction, epilogue: Epilogue, config: GroupedPlanesConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
