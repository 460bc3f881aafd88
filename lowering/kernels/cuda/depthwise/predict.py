"""`depthwise`: what a block moves, multiplies and issues for a tile, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.depthwise.config import CHUNK
from convir.lowering.kernels.cuda.depthwise.launch import channel_blocks, splits, tiles
from convir.lowering.kernels.cuda.depthwise.problem import (
    LANES,
    MMA_STRIPS,
    layout,
    read,
    strips,
    tap_counts,
)
from convir.lowering.kernels.cuda.prediction.overlap import launched, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, traffic_of

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.depthwise.config import DepthwiseConfig
    from convir.lowering.kernels.cuda.depthwise.problem import DepthwiseForm, TileLayout
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

MMA_MACS = 16 * 8 * 16
LINE_BYTES = 128


@dataclass(frozen=True)
class Constants:
    """Fitted; instructions are those of a thread, cycles those of a multiprocessor."""

    unit: float = 50.72
    """Instructions of a vector that is loaded or stored: where it lies, and whether it is there."""
    element: float = 0.5089
    """Instructions of an element that goes between a vector and a plane, two at a time."""
    strip: float = 34.43
    """Instructions of a lane for strips beside what their rows take."""
    row: float = 11.35
    """Instructions of a lane for a row of A."""
    tap: float = 0.5041
    """Instructions of a lane for an element of a banded matrix."""
    product: float = 0.806
    """Instructions of a lane for a matrix instruction or a multiply-add."""
    mma: float = 0.7003
    """How much longer matrix instructions take than at the target's rate."""
    shared: float = 0.9632
    """Cycles of 128 bytes of shared memory."""
    line: float = 1.599
    """Cycles of a line of memory that a warp touches with an access."""
    fold: float = 8.933
    """Cycles of a warp for a filter row whose diagonals are added up."""
    wait: float = 1007.0
    """Cycles of a tile that its block waits: for memory, and at barriers."""
    filters: float = 740.6
    """Cycles for a filter element that a thread brings."""
    publish: float = 2.117
    """µs by which blocks of wgrad that add up take longer, and for each megabyte of sums."""
    add: float = 15.72
    """Cycles in which a thread of the last block adds what another block published."""
    block: float = 2.651
    """µs that a block waits for its planes where a multiprocessor has no other one meanwhile."""
    halo: float = 2.956e-05
    """The part of what the L2 cache brings again that DRAM's time takes longer."""
    power: float = 2.097
    dram: float = 0.965
    """A factor of the time of DRAM."""
    dram_power: float = 2.005
    start: float = 0.5094
    """µs beside an empty launch."""


FITTED = Constants()
BOUNDS = {
    "unit": (10.0, 100.0),
    "element": (0.5, 6.0),
    "strip": (5.0, 300.0),
    "row": (2.0, 30.0),
    "tap": (0.5, 6.0),
    "product": (0.8, 3.0),
    "mma": (0.7, 3.0),
    "shared": (0.5, 3.0),
    "line": (0.3, 4.0),
    "wait": (1000.0, 9000.0),
    "halo": (0.0, 1.0),
}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """Counts of a tile, if not said otherwise."""

    tiles: int
    """Of a block."""
    waves: float
    """Blocks of the busiest multiprocessor at once, and one after another."""
    resident: int
    threads: int
    units: float
    elements: float
    strips: float
    """Of lanes; so are rows, taps and products."""
    rows: float
    taps: float
    products: float
    macs: float
    """Multiply-adds of tensor cores."""
    busiest: float
    """What the busiest warp of a block computes, over an even share: a warp has whole channels."""
    bytes: float
    """Of shared memory."""
    lines: float
    """That accesses of warps touch."""
    folds: float
    filters: float
    """Of a thread."""
    published: float
    """Bytes of sums, of all blocks; 0 where none are published."""
    added: int
    """Published sums that a thread of the last block adds."""
    again: float
    """How often A is loaded, on average, beyond once."""
    is_planar: bool
    type: str
    traffic: Traffic


def work_of(
    problem: DirectProblem,
    form: DepthwiseForm,
    config: DepthwiseConfig,
    tile: TileLayout,
    epilogue: Epilogue,
    target: Target,
) -> Work:
    """Count."""
    spec, slices = problem.contraction, problem.slices
    size = STORAGE_BYTES[spec.a.type]
    is_tensor = size == 2
    channels, phases = config.channels, len(problem.phases)
    in_pixels = config.images * slices.taps * tile.in_rows * tile.in_chunks * CHUNK
    out_pixels = config.images * config.rows * config.cols * phases
    loaded, stored = form.in_channels(spec, channels) * in_pixels, channels * out_pixels
    units = loaded / form.a_vector + stored / form.c_vector
    lines = loaded * _lines(form.a_planar, form.in_channels(spec, channels), size)
    lines += stored * _lines(form.c_planar, channels, size)
    elements = (0 if form.a_planar else loaded) + (0 if form.c_planar else stored)
    row_taps, col_taps = tap_counts(problem)
    of_strip = MMA_STRIPS if is_tensor else LANES
    parts = -(-row_taps // tile.part_rows) if form.is_wgrad else 1
    strip_tiles = -(-strips(config) // of_strip) * channels * form.steps(problem) * parts
    window = (config.unroll - 1) * problem.rows.step + problem.rows.window
    all_taps = sum(len(phase.rows.pixels) for phase in problem.phases)
    steps = -(-form.chunks // 2) if form.is_wgrad else form.chunks / 2
    jobs = channels * (form.steps(problem) if form.is_wgrad else 1)
    rows = strip_tiles * window
    products = strip_tiles / parts * config.unroll * all_taps
    if form.is_wgrad or not is_tensor:
        of_bands = 0.0
    else:
        of_bands = strip_tiles * phases * problem.rows.window * form.chunks * 2.0
    nbytes = 2.0 * (loaded + stored) * size
    if is_tensor:
        nbytes += rows * steps * 512 + of_bands * 128
        lanes_products, macs = products * steps, products * steps * MMA_MACS
    else:
        nbytes += rows * form.chunks * CHUNK * 4 * LANES
        lanes_products, macs = products * col_taps * CHUNK, 0.0
        if not form.is_wgrad:
            nbytes += products * col_taps * 128
    all_tiles, owners = tiles(problem, config), channel_blocks(problem, config)
    published, added = 0.0, 0
    if form.is_wgrad:
        count = splits(problem, config, target)
        of_block, blocks = ceil(all_tiles / count), owners * count
        if count > 1:
            published = blocks * tile.sums * 4.0
            added = count * -(-tile.sums // (config.warps * LANES))
    else:
        of_block, blocks = 1, owners * all_tiles
    filters = form.steps(problem) * problem.taps * channels / (config.warps * LANES)
    ideal = problem.images.value * slices.extent * problem.rows.extent * problem.cols.extent
    traffic = traffic_of(spec, epilogue)
    again = loaded * all_tiles * owners / (ideal * spec.groups * spec.in_channels)
    return Work(
        tiles=of_block,
        waves=blocks / target.multiprocessors,
        resident=config.resident,
        threads=config.warps * LANES,
        units=units,
        elements=elements,
        strips=strip_tiles * LANES,
        rows=rows * LANES,
        taps=of_bands * LANES,
        products=lanes_products * LANES,
        macs=macs,
        busiest=ceil(jobs / config.warps) * config.warps / jobs,
        bytes=nbytes,
        lines=lines,
        folds=channels * form.steps(problem) * row_taps * (steps if is_tensor else col_taps / 4)
        if form.is_wgrad and not tile.holds_sums
        else 0.0,
        filters=0.0 if form.is_wgrad else filters,
        published=published,
        added=added,
        again=max(0.0, again - 1),
        is_planar=form.a_planar,
        type=spec.a.type,
        traffic=traffic,
    )


def _lines(planar: bool, channels: int, size: int) -> float:
    """Lines that a warp touches for an element: those of a pixel's channels, or of neighbours."""
    return size / (LINE_BYTES if planar else min(LINE_BYTES, channels * size))


def work(spec: Contraction, epilogue: Epilogue, config: DepthwiseConfig, target: Target) -> Work:
    """Count."""
    found = read(spec, epilogue)
    assert not isinstance(found, Refusal)
    problem, form = found
    return work_of(problem, form, config, layout(problem, form, config), epilogue, target)


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    computing = k.strip * work.strips + k.row * work.rows + k.tap * work.taps
    computing = work.busiest * (computing + k.product * work.products)
    moving = k.unit * work.units + k.element * work.elements / 2
    issue = (moving + computing) / target.issue_rate
    tensor = k.mma * work.macs / target.mma_rate[work.type] if work.macs else 0.0
    simt = 0.0 if work.macs else work.products / target.fma_rate
    shared = k.shared * work.bytes / target.shared_rate + k.fold * work.folds
    shared += k.line * work.lines
    busy = overlap(k.power, issue, work.busiest * max(tensor, simt), shared)
    at_once = min(float(work.resident), max(1.0, work.waves))
    rounds = ceil(work.waves / work.resident)
    # Of the blocks of a multiprocessor some wait while others compute.
    wait = (k.wait + k.filters * work.filters) * work.tiles * rounds
    total = busy * work.tiles * max(work.waves, at_once * rounds * 0.75)
    cycles = overlap(k.power, total, wait) + busy * work.tiles / at_once
    time = cycles / target.clock_mhz
    if work.is_planar and work.resident == 1:
        time += k.block * work.waves
    again = k.halo * work.again * work.traffic.a / target.dram_read
    if work.published:
        time += k.publish * (1 + work.published / 1e6) + k.add * work.added / target.clock_mhz
    return launched(time + again, work.traffic, target, k)


def predict(
    spec: Contraction, epilogue: Epilogue, config: DepthwiseConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
