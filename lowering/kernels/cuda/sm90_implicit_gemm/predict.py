"""`wgmma`: persistent blocks, chunks of 64 input channels, and the stores between tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.prediction.overlap import heated, overlap
from convir.lowering.kernels.cuda.prediction.traffic import Traffic, outside_of, traffic_of
from convir.lowering.kernels.cuda.result_planes import BOX_ROWS
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import BLOCK_K
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import channels_of_stage, sm90_problem
from convir.lowering.kernels.cuda.sm90_implicit_gemm.tile_order import Tiles, busiest_cycles

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import Sm90ImplicitGemmConfig
    from convir.lowering.kernels.target import Target


LINE = 128
"""Bytes of a line of cache, and of a row of a stage."""
SECTOR = 32
"""Bytes of a sector of one."""


@dataclass(frozen=True)
class Constants:
    """Fitted; cycles of a multiprocessor."""

    multiply: float = 1.022
    """A factor of the cycles of `wgmma` at its full rate."""
    rows_rate: float = 62.45
    """Bytes per cycle of rows of A from L2 to shared memory."""
    weights_rate: float = 94.5
    """The same of B beside pixels."""
    pixel: float = 0.7066
    """Cycles of a pixel of an im2col map, along each axis that it slides over past the second."""
    chunk: float = 208.0
    """Cycles of a chunk at least."""
    split_chunk: float = 677.0
    """Cycles of a chunk of f32 as three products of TF32 beside them: rows are loaded and split,
    and sums added."""
    tile: float = 456.8
    """Cycles between the accumulators of a tile and of the next one."""
    stored: float = 7.678
    """Accumulators that become stores in a cycle."""
    next: float = 1093.0
    """Cycles between the last wgmma of a warpgroup and the first one of the other."""
    row_operand: float = 0.11
    """Cycles for an element of an operand like the result, where warpgroups take turns: they wait
    for it, and for each other."""
    shared_operand: float = 0.0476
    """The same where warpgroups share a tile."""
    part_lines: float = 2.7
    """A factor of it where columns that are staged at a time are no whole lines of cache."""
    function: float = 0.366
    """Cycles for an accumulator to which an epilogue applies a transcendental function, where
    warpgroups take turns: one hides less of it than two."""
    shared_function: float = 0.083
    """The same where warpgroups share a tile."""
    misaligned: float = 15.38
    """Cycles for a row of B, where rows are no whole sectors: of 24 or 40 channels of 16 bits."""
    straddling: float = 1.579
    """A factor of copies of rows of A that are parts of cache lines."""
    outside: float = 2.774
    """Cycles for a pixel of a box that lies outside of A."""
    far: float = 0.7548
    """How much longer copies of B take that has the size of the L2 cache: from its far part."""
    parts: float = 2.373
    """Cycles for a row of C of a tile that is parts of cache lines."""
    run: float = 0.4
    """Cycles for a run of pixels of planes that a lane stores."""
    segment: float = 2.5
    """Cycles for each line of a channel's plane that the 16 rows of a warp lie in."""
    dram: float = 0.9001
    """A factor of the time of DRAM."""
    dram_power: float = 2.691
    start: float = 0.5078
    """µs beside an empty launch: maps, barriers, the first stage, the last store."""
    meet: float = 1.747
    """µs until the blocks of a tile have met."""
    published: float = 0.5287
    """µs for a megabyte of accumulators that they write and read."""


FITTED = Constants()
BOUNDS = {"multiply": (1.0, 2.0)}
"""What the fit keeps constants within."""
SPLIT_POWER = 3.0
"""Of what two warpgroups do in turn: one multiplies, one loads, splits and adds."""
_OF_EPILOGUES = ("row_operand", "shared_operand", "part_lines", "function", "shared_function")
FIXED = ("meet", "published", "run", "segment", *_OF_EPILOGUES)
"""What is not fitted: that of `sm90_wgrad`, whose blocks meet alike, as no splits are recorded;
runs and segments by what four problems took longer on planes; epilogues, which no record has, by
the times of `benchmarks/epilogues.py`."""


@dataclass(frozen=True)
class Work:
    """Counts."""

    groups: tuple[tuple[int, int], ...]
    """Tiles or splits of them, and chunks of each, per group of phases."""
    products: int
    """Of a chunk."""
    rate: str
    a_bytes: int
    b_bytes: int
    """Of a chunk."""
    pixels: int
    """Of a box, that slide over several axes."""
    spatial: int
    accumulators: int
    """Of a tile."""
    row_elements: int
    """Of operands that follow the result, of a tile."""
    functions: int
    """Accumulators of a tile to which the epilogue applies a transcendental function."""
    has_part_lines: bool
    """Whether columns that are staged at a time are no whole lines of cache."""
    pingpong: bool
    outside: float
    """Pixels of a box that lie outside of A."""
    straddles: bool
    """Whether rows of A are no whole cache lines."""
    misaligned: int
    """Rows of B of a chunk that begin within a sector."""
    part_rows: int
    """Rows of C of a tile that are no whole cache lines."""
    runs: int
    """Of pixels of planes of a tile that lanes store."""
    segments: float
    """Of lines of planes in which these lie."""
    blocks: int
    splits: int
    is_split: bool
    """Whether f32 is multiplied as three products of TF32."""
    traffic: Traffic


def work(
    spec: Contraction, epilogue: Epilogue, config: Sm90ImplicitGemmConfig, target: Target
) -> Work:
    """Count."""
    problem = sm90_problem(spec, epilogue)
    assert not isinstance(problem, Refusal)
    in_channels_ = channels_of_stage(spec.a.type)
    depths_bytes = LINE // in_channels_
    out_channels = -(-problem.out_channels // config.block_n)
    groups: list[tuple[int, int]] = []
    for group in problem.groups():
        rows = -(-group[0].pixels // config.block_m)
        tiles, steps = rows * out_channels * len(group), len(group[0].taps) * problem.chunks
        groups.append((tiles * config.splits, -(-steps // config.splits)))
    loaded = -(-config.block_n // BLOCK_K) * BLOCK_K
    spatial = problem.spatial
    results = traffic_of(spec, epilogue)
    planes = problem.planes
    has_runs = planes.exist and planes.lines == 0
    return Work(
        groups=tuple(groups),
        products=config.block_m * config.block_n * in_channels_ * config.products,
        rate="tf32" if spec.a.type == "f32" else spec.a.type,
        a_bytes=config.block_m * 128,
        b_bytes=loaded * 128 * (2 if config.products > 1 else 1),
        pixels=config.block_m * max(0, spatial - 2),
        spatial=spatial,
        accumulators=config.block_m * config.block_n,
        row_elements=config.block_m
        * config.block_n
        * any(operand.follows_result for operand in epilogue.operands),
        functions=config.block_m * config.block_n * epilogue.has_functions,
        has_part_lines=bool(config.store_channels * problem.result_bytes % LINE),
        pingpong=config.schedule == "pingpong",
        outside=config.block_m * outside_of(spec) if spatial else 0.0,
        straddles=bool(spec.in_channels * depths_bytes % LINE),
        misaligned=config.block_n
        if problem.filter_by_in_channel and spec.in_channels * depths_bytes % SECTOR
        else 0,
        part_rows=config.block_m
        if not planes.exist and problem.out_channels * problem.result_bytes % LINE
        else 0,
        runs=config.block_m * config.block_n // planes.width if has_runs else 0,
        segments=config.block_m * config.block_n / BOX_ROWS * (1 + (BOX_ROWS - 1) / planes.line)
        if has_runs
        else 0.0,
        blocks=config.blocks,
        splits=config.splits,
        is_split=config.products > 1,
        traffic=results,
    )


def time_of(work: Work, target: Target, k: Constants = FITTED) -> float:
    """µs."""
    multiplied = k.multiply * work.products / target.wgmma_rate[work.rate]
    if work.is_split:
        multiplied = overlap(SPLIT_POWER, multiplied, k.split_chunk)
    beside = k.weights_rate if work.spatial else k.rows_rate
    copied = work.a_bytes / k.rows_rate * (k.straddling if work.straddles else 1.0)
    far = k.far * min(1.0, work.traffic.b / target.l2_bytes)
    copied += work.b_bytes / beside * (1 + far)
    copied += k.pixel * work.pixels + k.outside * work.outside
    copied += k.misaligned * work.misaligned
    chunk = max(multiplied, copied, k.chunk)
    store = k.tile + work.accumulators / k.stored / work.splits
    store += (
        k.parts * work.part_rows + (k.run * work.runs + k.segment * work.segments) / work.splits
    )
    tiles: list[Tiles] = []
    takes_turns = work.pingpong and work.splits == 1
    epilogue = _epilogue(work, k, takes_turns=takes_turns)
    for count, chunks in work.groups:
        products = chunks * chunk
        cycles = products + store + epilogue
        if takes_turns:
            cycles = max(products + k.next, cycles / 2) + k.row_operand * work.row_elements
        tiles.append(Tiles(count, cycles))
    if work.splits > 1:
        busy = max(each.cycles for each in tiles)
    else:
        busy = busiest_cycles(tiles, work.blocks) + (store if work.pingpong else 0.0)
    time = overlap(
        k.dram_power,
        heated(busy / target.clock_mhz),
        k.dram * work.traffic.time(target),
    )
    time += target.launch + k.start + _fix_up(work, k)
    return time + target.next_launch if work.is_split else time


def _epilogue(work: Work, k: Constants, *, takes_turns: bool) -> float:
    """Cycles of a tile's epilogue; where warpgroups take turns without its operands, for which both
    wait."""
    if takes_turns:
        return k.function * work.functions
    lines = k.part_lines if work.has_part_lines else 1.0
    operands = k.shared_operand * lines * work.row_elements
    return (k.shared_function * work.functions + operands) / work.splits


def _fix_up(work: Work, k: Constants) -> float:
    """µs until all splits have what the others of their tile publish."""
    if work.splits == 1:
        return 0.0
    units = sum(count for count, _ in work.groups)
    return k.meet + k.published * 4e-6 * units * work.accumulators


def predict(
    spec: Contraction, epilogue: Epilogue, config: Sm90ImplicitGemmConfig, target: Target
) -> float:
    """µs of `config`."""
    return time_of(work(spec, epilogue, config, target), target)
