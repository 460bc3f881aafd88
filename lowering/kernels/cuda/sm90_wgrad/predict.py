"""`sm90_wgrad`: the steps of the busiest block, how splits are added, and DRAM."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.prediction.overlap import heated, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, outside_of, traffic_of
from convir.lowering.kernels.cuda.sm90_wgrad.config import CHUNK, schedule_of
from convir.lowering.kernels.cuda.sm90_wgrad.problem import wgrad_problem
from convir.lowering.kernels.cuda.tile_schedule.partition import DATA_PARALLEL, STREAM_K
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; µs on the clock of the target."""

    multiply: float = 0.5284
    """A step of a tile of 256 x 128 accumulators."""
    narrow: float = 1.937
    """A factor of it where a multiplication has 64 columns."""
    three: float = 3.6
    """A factor of it for three products of TF32, of half as many output pixels."""
    lines: float = 0.586
    """A step of TF32 that warps transpose, for 1000 lines of 128 bytes in shared memory."""
    three_narrow: float = 1.608
    """The same where such a multiplication has 64 columns, in place of `narrow`."""
    three_wide: float = 1.321
    """The same of a tile of 256 columns, all of which warps that load split."""
    three_apart: float = 8.0
    """µs for a million results of f32 whose input channels are not contiguous."""
    lines_apart: float = 13.8
    """The same of TF32 that warps transpose."""
    single: float = 3.727
    """The same of results of 16 bits."""
    wide: float = 1.112
    """A factor of the time of a tile with 256 columns for a warpgroup, for one tap."""
    wide_taps: float = 1.058
    """The same for several, which share copies of A's adjacent boxes."""
    cold_box: float = 0.08887
    """A copy of 64 channels at 64 rows of a matrix that few blocks read."""
    tiled_box: float = 0.07235
    """The same that several blocks read at a time."""
    straddling: float = 2.096
    """A factor of it where rows straddle cache lines."""
    line_box: float = 0.0965
    """A copy of a line of contiguous pixels of 64 channels."""
    straddling_line: float = 1.134
    """A factor of it where lines straddle cache lines."""
    pixels_box: float = 0.09301
    """A copy at 64 pixels that slide."""
    outside: float = 0.001062
    """What pixels outside of A add to the copies of pixels, as a part of them."""
    start: float = 0.3024
    """Until the first step of a block."""
    tile: float = 0.001002
    """Between two tiles."""
    stored: float = 3.172
    """A megabyte of a tile's accumulators."""
    apart: float = 1.018
    """A factor of it where input channels are not contiguous in the result."""
    staggered_store: float = 1.019
    """A factor of it for whole tiles where one warpgroup stores after the other."""
    shares: float = 1.747
    """Splits meet."""
    sliced: float = 0.6143
    """A megabyte of them is written and read."""
    staggered_reduce_scatter: float = 1.33
    """µs that splits are added sooner where one warpgroup ends after the other."""
    cluster: float = 0.001267
    """Splits meet in a cluster."""
    clustered: float = 53.65
    """A megabyte of a block's accumulators is written by neighbours."""
    meet: float = 2.071
    """A block waits for another."""
    split: float = 34.4
    """A megabyte of accumulators, read or written by one block."""
    scattered: float = 1.3
    """A factor of steps of blocks that read places far apart."""
    dram: float = 0.9296
    """A factor of the time of DRAM."""
    coupled: float = 2.381
    """How much longer DRAM takes where blocks of clusters wait for each other."""
    dram_power: float = 6.012


SPLIT_BOXES = 2
"""Copies of A that warps which load split as fast as others multiply."""
FITTED = Constants()
BOUNDS = {"wide": (1.001, 1.2), "apart": (1.0, 8.0), "straddling_line": (1.0, 2.0)}
"""What the fit keeps constants within."""
FIXED = ("lines", "lines_apart")
"""What is not fitted: records have no TF32."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    steps: int
    waves: int
    accumulators: int
    """Of a tile."""
    is_narrow: bool
    is_wide: bool
    is_split: bool
    """Whether f32 is multiplied as three products of TF32."""
    lines: int
    """Lines of 128 bytes that are written or read in shared memory in a step of TF32 that warps
    transpose; 0 of others."""
    outside: float
    """The part of taps that lie outside of A."""
    boxes_c: int
    boxes_a: int
    taps: int
    straddles: bool
    lines_c: bool
    lines_a: bool
    """Whether pixels of C, and of A, are contiguous."""
    lines_straddle: bool
    is_apart: bool
    """Whether input channels of the result are not contiguous."""
    apart: int
    """Results whose input channels are not contiguous."""
    line: int
    """Pixels of a line that slides; 0 if none do."""
    is_scattered: bool
    staggered: bool
    kind: str
    reduction: str
    splits: int
    units: int
    cluster: int
    has_shares: bool
    traffic: Traffic


def work(spec: Contraction, epilogue: Epilogue, config: Sm90WgradConfig, target: Target) -> Work:
    """Count."""
    problem = wgrad_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    schedule = schedule_of(problem, config)
    traffic = traffic_of(spec, epilogue)
    partition = schedule.partition
    slides = problem.rows.slides
    splits = partition.splits
    if partition.kind == STREAM_K:
        splits = ceil(schedule.shares / max(1, schedule.streamed)) + 1
    scattered = (
        partition.kind == STREAM_K
        and traffic.read > 0.76 * target.l2_bytes
        and schedule.tiles < schedule.concurrent
    )
    return Work(
        steps=busiest_steps(schedule),
        waves=ceil(schedule.units / schedule.concurrent),
        accumulators=config.block_m * config.block_n,
        is_narrow=config.out_channels == CHUNK and (problem.taps > 1 or problem.is_split),
        is_split=problem.is_split,
        lines=_lines_of(config) if problem.transposes_a else 0,
        lines_c=problem.planes is not None,
        lines_a=problem.reads_planes,
        lines_straddle=problem.planes is not None and problem.planes.straddles,
        is_apart=problem.in_channel_stride != 1,
        apart=spec.groups * problem.taps * spec.in_channels * spec.out_channels
        if problem.in_channel_stride != 1
        else 0,
        outside=outside_of(spec),
        is_wide=config.out_channels > 2 * CHUNK,
        boxes_c=config.block_m // CHUNK,
        boxes_a=ceil(config.block_n / CHUNK),
        taps=problem.taps,
        straddles=bool(problem.row_stride % CHUNK),
        line=slides[0].size if slides and not problem.reads_planes else 0,
        is_scattered=scattered,
        staggered=config.consumer_warpgroups > 1 and problem.taps > 1,
        kind=partition.kind,
        reduction=str(partition.reduction),
        splits=splits,
        units=schedule.units,
        cluster=config.cluster,
        has_shares=schedule.has_shares,
        traffic=traffic,
    )


def _lines_of(config: Sm90WgradConfig) -> int:
    """Copies write them; warps that load read and write those of A; warpgroups read their rows of
    C and, of A, what the tensor cores multiply those by."""
    m, n = config.block_m, config.block_n
    by_rows = config.block_m >= config.consumer_warpgroups * CHUNK
    return (m + n) + 2 * n + (m + 2 * n if by_rows else 2 * m + n)


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    row = k.tiled_box if work.taps > 1 else k.cold_box
    of_c = row * (k.straddling if work.straddles else 1)
    of_a = max(row, k.pixels_box) if work.line else row
    of_a *= 1 + k.outside * work.outside if work.line else 1.0
    line = k.line_box * (k.straddling_line if work.lines_straddle else 1.0)
    of_c, of_a = line if work.lines_c else of_c, line if work.lines_a else of_a
    copies = work.boxes_c * of_c + work.boxes_a * of_a
    multiply = k.multiply * work.accumulators / (256 * 128)
    if work.lines:
        multiply = 1e-3 * k.lines * work.lines
    elif work.is_split:
        multiply *= k.three * (k.three_narrow if work.is_narrow else 1.0)
        multiply *= k.three_wide if work.boxes_a > SPLIT_BOXES else 1.0
    elif work.is_narrow:
        multiply *= k.narrow
    step = overlap(4.0, multiply, copies) * (k.scattered if work.is_scattered else 1.0)
    if work.is_wide:
        step *= k.wide_taps if work.taps > 1 else k.wide
    megabytes = 4e-6 * work.accumulators
    stored = k.stored * megabytes * (k.apart if work.is_apart else 1.0)
    if work.staggered and work.waves == 1 and work.kind == DATA_PARALLEL:
        stored *= k.staggered_store
    dram = k.dram * work.traffic.time(target) * (k.coupled if work.cluster > 1 else 1.0)
    time = overlap(k.dram_power, heated(work.steps * step), dram)
    time += work.waves * (k.tile + stored) + _fix_up(work, megabytes, k)
    apart = k.three_apart if work.is_split else k.lines_apart if work.lines else k.single
    time += 1e-6 * apart * work.apart
    return target.launch + k.start + time


def _fix_up(work: Work, megabytes: float, k: Constants) -> float:
    """µs until the last tile is put together."""
    if work.kind == DATA_PARALLEL:
        return 0.0
    if work.cluster > 1:
        return k.cluster + k.clustered * megabytes
    if work.has_shares:
        wait = k.shares - (k.staggered_reduce_scatter if work.staggered else 0.0)
        return wait + k.sliced * work.units * megabytes
    if work.reduction == "linear":
        return k.meet + k.split * megabytes * work.splits
    return (k.meet + 2 * k.split * megabytes) * (work.splits - 1).bit_length()


def predict(
    spec: Contraction, epilogue: Epilogue, config: Sm90WgradConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
