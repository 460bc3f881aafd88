"""What a config of `reduction` takes: memory, and what waits for it."""

from __future__ import annotations

from math import log2, prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.bodies.rows.program import Load, Step
from convir.lowering.kernels.cuda.prediction.overlap import overlap
from convir.lowering.kernels.cuda.reduction.launch import (
    BATCH,
    WARP,
    held_registers,
    seen_by,
    units,
)
from convir.lowering.kernels.cuda.reduction.totals import total_bytes, totals_of

if TYPE_CHECKING:
    from convir.lowering.bodies.rows.program import Access, RowProgram
    from convir.lowering.kernels.cuda.reduction.config import ReductionConfig
    from convir.lowering.kernels.cuda.reduction.problem import Rows
    from convir.lowering.kernels.target import Target

START = 0.53
"""µs until the first element has come, beside an empty launch."""
FURTHER = 4.5
"""µs of a further launch: it joins what the one before has left, and waits for memory again."""
OWN_REGISTERS = 35
ACCESS, FUNCTION, EXPONENTIAL, QUOTIENT, MOMENT = 1.35, 23.0, 5.5, 7.9, 10.9
"""Instructions: of a vector's access, and of an element's functions, divisions, and moments."""
SECTOR, APART = 32, 2.0
"""Bytes that memory moves at least, and what an access counts as for each further one of them that
holds as much of a row: those of few threads a row."""
THREAD = 97.5
"""Instructions of a thread beside its vectors."""
SHUFFLE, MERGE, BARRIER = 0.5, 2.0, 36.0
"""Instructions: of a number from another thread, of two totals as one, of a block that waits."""
BLOCK, WARP_MEETING, BLOCK_MEETING, COLUMN_MEETING, CLUSTER_MEETING = 0.2, 0.31, 0.2, 0.36, 2.0
"""µs that a block waits: for memory, and for the totals of a pass."""
ROUND = 0.39
"""µs of a batch of a thread that reads its elements anew: the next one begins behind it."""
L2_SHARE = 0.61
"""Of the L2 cache: what a pass has read of it, the next one finds."""
HIDING = 7.0
"""Warps of a multiprocessor whose instructions wait for each other half of the time."""
APART_SHARE = 0.71
"""Of what does not overlap where a multiprocessor has one block."""
POWER = 2.6
"""How memory, instructions and waiting add up."""
LINE, DRAM_LINE = 64, 128
"""Bytes beside each other that the L2 cache, and memory, give at their rates."""


def predict(rows: Rows, config: ReductionConfig, target: Target) -> float:
    """µs."""
    seen = seen_by(rows, config)
    program = seen.program
    blocks = units(rows, config) * config.splits * config.cluster
    resident = _resident(seen, config, target)
    places = target.multiprocessors
    if config.cluster > 1:
        places = target.clusters[config.cluster] * config.cluster
    at_once = min(blocks, resident * places)
    busy = min(blocks, target.multiprocessors)
    under_way = at_once * config.threads * _vectors(seen, config) * _vector_bytes(rows)
    latency = target.latency / target.clock_mhz
    l2 = busy * target.l2_rate * target.clock_mhz
    moved = sum(_bytes(a, program) for a in seen.accesses)
    line = LINE if moved < L2_SHARE * target.l2_bytes else DRAM_LINE
    narrow = min(1.0, _run_bytes(rows, config) / line)
    read_rate = min(target.dram_read, under_way / latency, l2) * narrow
    write_rate = min(target.dram_write, l2) * narrow
    cached_rate = min(l2, 2 * under_way / latency) * narrow
    memory = sum(_bytes(s.target, program) for s in program.stores) / write_rate
    for number in range(1, program.passes + 1):
        nbytes = _read_bytes(program, number, first=bool(config.held), again=number > 1)
        is_cached = number > 1 and nbytes < L2_SHARE * target.l2_bytes
        memory += nbytes / (cached_rate if is_cached else read_rate)
    issued = _instructions(seen, config) / (busy * target.issue_rate * target.clock_mhz)
    warps = min(resident, -(-blocks // busy)) * config.threads / WARP
    issued *= 1 + HIDING / warps
    waits = blocks / at_once * (BLOCK + _meetings(seen, config) + _rounds(seen, config))
    whole = blocks / at_once
    if whole > 1:  # The last blocks of a launch have the GPU for themselves.
        memory, issued = (each * (1 + 0.2 / whole) for each in (memory, issued))
    stores_rows = any(program.of_rows[store.node] for store in program.stores)
    launches = 1 if config.splits == 1 else program.passes + stores_rows
    between = (launches - 1) * (target.next_launch + FURTHER)
    together = overlap(POWER, memory, issued, waits)
    # A block that keeps its rows reads, computes and stores, one after the other.
    apart = (memory + issued + waits - together) / resident if config.held else 0.0
    return target.launch + START + together + APART_SHARE * apart + between


def _resident(rows: Rows, config: ReductionConfig, target: Target) -> int:
    """Blocks of a multiprocessor at the same time."""
    registers = OWN_REGISTERS + (held_registers(rows, config) if config.held else 16)
    registers += 4 * rows.parts
    by_registers = target.registers // (registers * config.threads)
    return max(1, min(target.threads // config.threads, by_registers))


def _vectors(rows: Rows, config: ReductionConfig) -> int:
    """Of a thread, under way together."""
    is_kept = config.held > 0 and rows.program.passes > 1
    return config.held if is_kept else min(config.held or BATCH, BATCH)


def _meetings(rows: Rows, config: ReductionConfig) -> float:
    """µs that the threads of a block wait for each other's totals."""
    reducing = sum(bool(rows.program.reductions_of(n)) for n in range(1, rows.program.passes + 1))
    cluster = CLUSTER_MEETING if config.cluster > 1 else 0.0
    if not rows.is_along:
        return reducing * (COLUMN_MEETING + cluster)
    return reducing * ((WARP_MEETING if config.x <= WARP else BLOCK_MEETING) + cluster)


def _vector_bytes(rows: Rows) -> float:
    loads = [n.source for n in rows.program.nodes if isinstance(n, Load)]
    return rows.width * max((STORAGE_BYTES[a.type] for a in loads), default=4)


def _run_bytes(rows: Rows, config: ReductionConfig) -> float:
    """Bytes beside each other that a block reads at once."""
    if rows.is_along:
        return min(config.x, rows.positions) * _vector_bytes(rows) * 8
    return min(config.x, rows.columns) * _vector_bytes(rows)


def _read_bytes(program: RowProgram, number: int, *, first: bool, again: bool) -> int:
    """What a pass reads; where elements are kept, `first`, what no earlier pass has read."""
    own = set(program.elements_of(number))
    if first and again:
        for earlier in range(1, number):
            own -= set(program.elements_of(earlier))
    nodes = (program.nodes[i] for i in own)
    return sum(_bytes(node.source, program) for node in nodes if isinstance(node, Load))


def _bytes(access: Access, program: RowProgram) -> int:
    used = (size for size, stride in zip(program.sizes, access.strides, strict=True) if stride)
    return STORAGE_BYTES[access.type] * prod(used)


def _rounds(rows: Rows, config: ReductionConfig) -> float:
    """µs that a thread waits for one batch of vectors after the other."""
    if config.held:
        return 0.0
    sharing = config.x if rows.is_along else config.y
    batches = -(-rows.positions // (sharing * config.splits * BATCH))
    return ROUND * rows.program.passes * batches


def _instructions(rows: Rows, config: ReductionConfig) -> float:
    """Of all threads."""
    program = rows.program
    blocks = units(rows, config) * config.splits * config.cluster
    numbers = range(1, program.passes + 1)
    passes = [program.elements_of(number) for number in numbers]
    together = sorted({i for nodes in passes for i in nodes})
    computed = [together] if config.held else passes
    each, access = 0.0, ACCESS * _sectors(rows, config)
    for nodes in computed:
        found = [program.nodes[i] for i in nodes]
        each += sum(_weight(node) for node in found) * rows.width
        each += access * sum(isinstance(node, Load) for node in found)
    each += access * len(program.stores)
    thread = THREAD
    for number in numbers:
        totals = totals_of(program, number)
        moments = sum(total.kind == "Moments" for total in totals)
        each += rows.width * (len(totals) + MOMENT * moments)
        if totals:
            thread += _meeting(rows, config, total_bytes(program, number) / 4, len(totals))
    sharing = config.x if rows.is_along else config.y
    slots = config.held or -(-rows.positions // (sharing * config.splits))
    return blocks * config.threads * (slots * each + thread)


def _sectors(rows: Rows, config: ReductionConfig) -> float:
    """Accesses that one counts as: whole sectors of a row are one."""
    if not rows.is_along:
        return 1.0
    run = min(config.x, rows.positions) * _vector_bytes(rows)
    return 1 + APART * max(0.0, SECTOR / run - 1)


def _meeting(rows: Rows, config: ReductionConfig, words: float, totals: int) -> float:
    """Instructions of a thread whose totals meet those of others."""
    merged = SHUFFLE * words + MERGE * totals
    if not rows.is_along:
        return 4 * BARRIER + 2 * rows.parts * (words + merged)
    steps = log2(min(config.x, WARP)) * merged
    return steps if config.x <= WARP else steps + BARRIER + log2(config.x / WARP) * merged


def _weight(node: object) -> float:
    if not isinstance(node, Step):
        return 0.0
    match node.op.kind.name:
        case "arith.divf":
            return QUOTIENT
        case "math.exp":
            return EXPONENTIAL
        case name:
            return FUNCTION if name.startswith("math.") else 1.0
