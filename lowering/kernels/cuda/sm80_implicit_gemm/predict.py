"""`sm80_implicit_gemm`: blocks of tiles, what a step of one issues, copies and multiplies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.layout_conversion.copies import copied
from convir.lowering.kernels.cuda.layout_conversion.predict import (
    CopyWork,
    copies_time,
    copy_work,
)
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, sector_writes, traffic_of
from convir.lowering.kernels.cuda.registers import PARTITIONS, WARP
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import (
    registers_of,
    shared_bytes_of,
)
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    leaves,
    linear_out,
    linear_rows,
    orientation,
    reduced_of,
    rows_of,
    widths,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import Sm80ImplicitGemmConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted; instructions are those of a thread."""

    vector: float = 6.809
    """Instructions that address and copy a vector."""
    through: float = 12.71
    """Besides, where a vector of less than 4 bytes goes through registers."""
    walk: float = 8.519
    """Instructions that find a place of the reduction, for each division."""
    multiply: float = 1.149
    """How much of the rate of `mma.sync` is not reached: a factor of its cycles."""
    three: float = 1.253
    """A factor of it for three products of TF32, beside whose splits and sums it is not reached."""
    fma: float = 1.109
    """The same of FMA units."""
    fma_alone: float = 0.9931
    """Cycles between two of its multiply-adds, where no other warp runs."""
    dynamic: float = 6.976
    """How much longer places are looked for where sizes differ from phase to phase."""
    line: float = 0.6265
    """Cycles of a warp's access for each line of cache that it touches."""
    sync: float = 253.6
    """Cycles of a step beside: barriers, the first fragments."""
    depend: float = 3.093
    """Cycles from an instruction of a warp to the next, where no other warp runs."""
    stall: float = 0.1174
    """Cycles of a step that waits for vectors which go through registers."""
    block: float = 827.3
    """Cycles of a block before its first step and behind its last one."""
    store: float = 89.17
    """Instructions for each vector of results."""
    function: float = 15.0
    """Instructions for a result to which the epilogue applies a transcendental function."""
    power: float = 2.312
    """Of the resources that a step shares."""
    dram: float = 1.317
    """A factor of the time of DRAM."""
    dram_power: float = 2.412
    added: float = 6.16
    """A factor of the time for parts, written and read."""
    add: float = 671.4
    """Cycles in which a thread adds `ADDED_AT_ONCE` parts, whose loads are in flight together."""
    start: float = 0.9301
    """µs beside an empty launch."""


FITTED = Constants()
FIXED = ("function",)
"""What is not fitted: no record has an epilogue; by the times of `benchmarks/epilogues.py`."""
BOUNDS = {"multiply": (0.9, 3.0), "fma": (1.0, 3.0), "line": (0.3, 8.0)}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class Work:
    """What a config does, in counts."""

    phases: tuple[tuple[int, int], ...]
    """Blocks and steps of each, per phase."""
    is_mma: bool
    rate: str
    products: int
    """Of a step."""
    is_split: bool
    """Whether three of them are one of f32."""
    fma_instructions: float
    vectors: float
    """Vectors of both operands of a step."""
    through: float
    """Those that go through registers."""
    walks: float
    """Divisions that find the places of a step."""
    lines: float
    """Lines of cache that the accesses of a step touch, by warp."""
    shared: float
    """Bytes that a step moves through shared memory."""
    mma_instructions: float
    stores: float
    """Vectors of results of a block."""
    functions: int
    """Results of a block to which the epilogue applies a transcendental function."""
    warp_products: float
    """Of a step and warp, or thread."""
    threads: int
    stages: int
    resident: int
    splits: int
    tile_bytes: float
    """Of sums: a tile of one split, written."""
    used: float
    """The part of tiles that lies inside of the result: no more of them is read again."""
    traffic: Traffic
    converted: tuple[CopyWork, ...]


ADDED_AT_ONCE = 16
"""Parts that a thread reads at a time."""
ADDED = 4
"""Additions of a thread that end three products of TF32."""
ROUNDED, SPLIT = 1.5, 3.5
"""Instructions that load an element of f32 and round it to TF32, or split it in two."""
NEXT, POWER_OF_TWO = 0.3, 0.4
"""Of the cost of a division: a place that follows by an addition, one found by masks."""


def _place(sizes: list[int]) -> float:
    """Divisions that find a place along axes of `sizes`, the outermost left out."""
    return NEXT + sum(POWER_OF_TWO if size & (size - 1) == 0 else 1.0 for size in sizes if size > 1)


def work(
    spec: Contraction, epilogue: Epilogue, config: Sm80ImplicitGemmConfig, target: Target
) -> Work:
    """Count."""
    spec, converted = copied(spec, config.converted)
    vectors, flat = widths(spec), orientation(spec)
    computes_b = spec.result == "B"
    other = spec.c if computes_b else spec.b
    a_bytes, o_bytes = STORAGE_BYTES[spec.a.type], STORAGE_BYTES[other.type]
    out_channels = -(-spec.out_channels // config.n)
    phases = tuple(
        (
            -(-rows // config.m) * spec.groups * out_channels * config.splits,
            ceil(ceil(reduced / config.k) / config.splits),
        )
        for rows, reduced in zip(rows_of(spec), reduced_of(spec), strict=True)
    )
    axes = len(spec.phases[0].axes)
    uniform = not flat.tap_minor and spec.in_channels % config.k == 0 and not computes_b
    first = max(spec.phases, key=lambda phase: phase.taps)
    along = [len(axis.tap_rows) for axis in first.axes[1:]]
    a_walk = o_walk = NEXT if uniform else _place([*along, spec.in_channels])
    if computes_b:
        place = _place([axis.size for axis in first.axes[1:]])
        a_walk = NEXT if linear_rows(spec) else place
        o_walk = NEXT if linear_out(spec) else place
    bounded = sum(any(leaves(p.axes[i]) for p in spec.phases) for i in range(axes))
    a_along = flat.a_by_in_channel != computes_b
    o_along = flat.other_by_reduction
    total_vectors = through = walks = lines = 0.0
    # contiguous elements of a line
    if flat.a_by_in_channel:
        a_run = spec.in_channels
        if spec.phases[0].axes[-1].row_stride == spec.in_channels and (computes_b or not uniform):
            a_run = spec.in_channels * max(len(p.axes[-1].tap_rows) for p in spec.phases)
    else:
        axis = spec.phases[0].axes[-1]
        a_run = axis.size if axis.row_stride * axis.step == 1 else 1
    if computes_b:
        o_run = spec.out_channels if not flat.other_by_reduction else spec.phases[0].axes[-1].size
    else:
        o_run = (
            (
                spec.in_channels * spec.taps
                if flat.tap_minor or spec.b.in_channel_stride == 1
                else spec.in_channels
            )
            if flat.other_by_reduction
            else (spec.out_channels if spec.b.out_channel_stride == 1 else 1)
        )
    rows = rows_of(spec)
    used_rows = sum(rows) / (sum(-(-each // config.m) for each in rows) * config.m)
    used_columns = spec.out_channels / (out_channels * config.n)
    for across, width, size, along, walk, run, checks, used in (
        (config.m, vectors.a, a_bytes, a_along, a_walk, a_run, bounded, used_rows),
        (config.n, vectors.other, o_bytes, o_along, o_walk, o_run, 0, used_columns),
    ):
        line = config.k if along else across
        count = across * config.k / width
        total_vectors += count * (1 + 0.25 * checks)
        through += count if width * size < 4 else 0
        walks += walk * (config.threads if along else count)
        run_bytes = max(width, min(run, line)) * size
        lanes = min(32.0, run_bytes / (width * size))
        per_warp = 32 / lanes * max(1.0, run_bytes / 128)
        lines += used * count / 32 * min(32.0, per_warp)
    wm, wn = config.m // config.over[0], config.n // config.over[1]
    units = config.over[0] * config.over[1]
    es = max(a_bytes, o_bytes)
    mma_instructions = fma = 0.0
    shared = (config.m * a_bytes + config.n * o_bytes) * config.k
    if config.is_mma:
        shared += units * (wm + wn) * config.k * es
        per_k = 32 / es
        sums = ADDED if config.products > 1 else 0
        each = config.products + sums
        mma_instructions = units * (wm / 16 * wn / 8 * each + wm / 16 + wn / 16) * 32
        mma_instructions *= config.k / per_k
        if es == 4:
            each = SPLIT if config.products > 1 else ROUNDED
            mma_instructions += units * (wm + wn) * config.k * each
    else:
        words = STORAGE_BYTES[spec.element] // 4
        shared += units * (wm + wn) * config.k * es / 2
        fma = config.m * config.n * config.k * words * words
        fma += units * (wm + wn) * config.k / 4 * (1 if es >= 4 else 5)
    registers = -(-registers_of(spec, config) // 8) * 8
    resident = max(
        1,
        min(
            target.registers // (registers * config.threads),
            (target.shared_bytes + 1024) // (shared_bytes_of(spec, epilogue, config) + 1024),
            target.threads // config.threads,
        ),
    )
    line_out = config.n if flat.stored_by_out_channel else config.m
    out = min(vectors.out, line_out)
    return Work(
        phases=phases,
        is_mma=config.is_mma,
        rate="tf32" if config.is_mma and spec.a.type == "f32" else spec.a.type,
        products=config.m * config.n * config.k * config.products,
        is_split=config.products > 1,
        fma_instructions=fma,
        vectors=total_vectors,
        through=through,
        walks=walks,
        lines=lines,
        shared=shared,
        mma_instructions=mma_instructions,
        stores=used_rows * used_columns * config.m * config.n / out,
        functions=config.m * config.n * epilogue.has_functions,
        warp_products=config.m * config.n * config.k * config.products / units,
        threads=config.threads,
        stages=config.stages,
        resident=resident,
        splits=config.splits,
        tile_bytes=config.m * config.n * STORAGE_BYTES[spec.element],
        used=used_rows * used_columns,
        traffic=replace(traffic_of(spec, epilogue), sector_writes=sector_writes(spec)),
        converted=tuple(copy_work(copy) for copy in converted),
    )


def uneven(warps: int) -> float:
    """How much longer the busiest partition of a multiprocessor takes for its share of `warps`."""
    return ceil(warps / PARTITIONS) * PARTITIONS / warps


@dataclass(frozen=True)
class _Pace:
    """Cycles that a config takes, whatever the splits of its reduction, and µs beside."""

    step: float
    """A multiprocessor, for the step of a block."""
    alone: float
    """A block until its next step, where no other block runs."""
    stored: float
    """A multiprocessor, for the results of a block."""
    dram: float
    """µs."""
    copies: float
    """µs."""


def _pace(work: Work, target: Target, k: Constants) -> _Pace:
    walk = k.walk * (k.dynamic if len(work.phases) > 1 else 1.0)
    copying = k.vector * work.vectors + k.through * work.through + walk * work.walks
    issue = (copying + work.mma_instructions + k.fma * work.fma_instructions) / target.issue_rate
    multiply = k.multiply * (k.three if work.is_split else 1.0)
    tensor = multiply * work.products / target.mma_rate[work.rate] if work.is_mma else 0.0
    memory = k.line * work.lines + work.shared / target.shared_rate
    alone = k.sync + k.depend * copying / work.threads
    if work.is_mma:
        alone += multiply * work.warp_products / (target.mma_rate[work.rate] / 4)
    else:
        alone += k.fma_alone * work.fma_instructions / work.threads
    alone = max(alone, target.latency / (work.stages - 1))
    if work.through:
        alone += k.stall
    return _Pace(
        overlap(k.power, issue, tensor, memory),
        alone,
        (k.store * work.stores + k.function * work.functions) / target.issue_rate,
        k.dram * work.traffic.time(target),
        copies_time(work.converted, target),
    )


def split_times(whole: Work, counts: Iterable[int], target: Target) -> dict[int, float]:
    """µs of a config whose reduction is not split, by the number of parts that split it.

    Args:
        whole: of its work, which is one phase.
        counts: numbers of parts.
        target: the GPU.
    """
    pace = _pace(whole, target, FITTED)
    ((blocks, steps),) = whole.phases
    return {
        parts: _uniform_time(pace, whole, (blocks * parts, ceil(steps / parts), parts), target)
        for parts in counts
    }


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    pace = _pace(work, target, k)
    blocks = sum(count for count, _ in work.phases)
    if len(work.phases) == 1:
        return _uniform_time(pace, work, (blocks, work.phases[0][1], work.splits), target, k)
    sms = target.multiprocessors
    total = sum(count * steps for count, steps in work.phases)
    longest = max(steps for _, steps in work.phases)
    busy = (total * pace.step + blocks * pace.stored) / sms
    busy += 0.5 * (longest * pace.step + pace.stored)
    waiting = blocks / sms / work.resident * k.block + total / sms / work.resident * pace.alone
    waiting = max(waiting, k.block + longest * pace.alone)
    time = _launched(pace, overlap(4.0, busy, waiting), target, k)
    return time + _adding(work, blocks, work.splits, target, k)


def _uniform_time(
    pace: _Pace, work: Work, split: tuple[int, int, int], target: Target, k: Constants = FITTED
) -> float:
    """µs of one phase.

    Args:
        pace: of a block.
        work: what is done, in any number of parts.
        split: blocks, steps of each, and the parts of a reduction.
        target: the GPU.
        k: the fitted constants.
    """
    blocks, steps, parts = split
    each = ceil(blocks / target.multiprocessors)
    busy = each * (steps * pace.step + pace.stored) * uneven(each * work.threads // WARP)
    waiting = ceil(each / work.resident) * (k.block + steps * pace.alone)
    time = _launched(pace, overlap(4.0, busy, waiting), target, k)
    return time + _adding(work, blocks, parts, target, k)


def _launched(pace: _Pace, cycles: float, target: Target, k: Constants) -> float:
    time = overlap(k.dram_power, cycles / target.clock_mhz, pace.dram)
    return time + target.launch + k.start + pace.copies


def _adding(work: Work, blocks: int, parts: int, target: Target, k: Constants) -> float:
    """µs of the launch that adds the parts of a reduction."""
    if parts == 1:
        return 0.0
    moved = blocks * work.tile_bytes * (1 + work.used)
    time = k.added * moved / (target.l2_rate * target.multiprocessors * target.clock_mhz)
    time += k.add * ceil(parts / ADDED_AT_ONCE) / target.clock_mhz
    return target.next_launch + time


def predict(
    spec: Contraction, epilogue: Epilogue, config: Sm80ImplicitGemmConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
