"""Which configs of `taps-wgrad` may compute a gradient of weights, and their estimated times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Literal

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.config import ROLES
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import (
    MAX_COLUMNS,
    MAX_SUMS,
    ROWS,
    SLAB,
    TapsWgradConfig,
    refusal,
)
from convir.lowering.kernels.cuda.multi_tap_wgrad.launch import taps_problem
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.predict import busiest_steps, partitions

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import TapsProblem
    from convir.lowering.kernels.target import Target

_STAGES = (6, 5, 4, 3)
_FEWER_PARTS = (1.0, 0.75, 0.5, 0.25)
"""Slices of fewer parts cost less than those of as many as there is room for."""

_MULTIPLY_CYCLES: dict[str, float] = {"wgmma": 0.5, "mma": 1.0}
"""Of 64 x 16 products with one column, on one multiprocessor."""
_LEAST_CYCLES = 30
"""An instruction with A in registers takes so long however few its columns are."""
_BYTES_PER_CYCLE = 40
"""That one multiprocessor reads or writes of L2."""
_ROWS_CYCLES = 1300
"""In which a warp that loads finds and copies the rows of 32 positions."""
_ROWS = 32
_STEP_CYCLES = 150
"""A barrier, and the first multiplication behind it."""
_UNIFORM_CYCLES = 300
"""More for a step whose warps wait for their own copies."""
_START_CYCLES = 9000
"""Until the first multiplication, and from the last one to the end."""
_MEET_CYCLES = 2500
"""Until parts know of each other."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[TapsWgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    problem = taps_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    if spec.columns > MAX_COLUMNS:
        return Refusal(f"{spec.columns} columns are several tiles, which all read the other input")
    if spec.depth < ROWS // 2:
        return Refusal(f"{spec.depth} depths fill less than half of a tile")
    configs = candidates(spec, problem, gpu)
    if not configs:
        return Refusal(f"no tile fits into {gpu.shared_bytes} bytes of shared memory")
    return tuple(sorted(configs, key=lambda config: cost(spec, problem, config)))


def candidates(spec: Contraction, problem: TapsProblem, gpu: Target) -> list[TapsWgradConfig]:
    """Every tile with every pipeline, with as many stages as there is room for."""
    maths: tuple[Literal["wgmma", "mma"], ...] = ("wgmma",) if gpu.is_hopper else ("mma",)
    found: list[TapsWgradConfig] = []
    for taps, columns, roles, math in product(_taps(problem), _columns(spec.columns), ROLES, maths):
        if taps * columns // 2 > MAX_SUMS:
            continue
        configs = [
            TapsWgradConfig(taps, columns, stages, math, roles, Partition(), gpu.multiprocessors)
            for stages in _STAGES
        ]
        legal = [c for c in configs if refusal(spec, problem, c, gpu) is None]
        if legal:
            found += _partitioned(spec, problem, legal[0])
    return found


def _taps(problem: TapsProblem) -> list[int]:
    """All taps of a plane in one tile, or a row of them, or one."""
    planes = [len(taps) for taps in problem.planes().values()]
    most = max(planes)
    return sorted({most, -(-most // 2), -(-most // 3), 1}, reverse=True)


def _columns(columns: int) -> list[int]:
    """The widths of tiles that waste the fewest columns, the widest first."""
    padded = -(-columns // 8) * 8
    if padded <= MAX_COLUMNS:
        return [padded]
    widths = range(24, MAX_COLUMNS + 1, 8)
    return sorted(widths, key=lambda width: (-(-columns // width) * width, -width))[:2]


def _partitioned(
    spec: Contraction, problem: TapsProblem, config: TapsWgradConfig
) -> list[TapsWgradConfig]:
    """`config` with every partition worth trying."""
    schedule = config.schedule(spec, problem)
    tried = list(partitions(schedule.tiles, schedule.steps, schedule.concurrent))
    room = min(schedule.concurrent // schedule.tiles, schedule.steps)
    counts = {int(room * part) for part in _FEWER_PARTS}
    tried += [Partition(SPLIT_K, parts, "slices") for parts in sorted(counts) if parts > 1]
    return [replace(config, partition=partition) for partition in tried]


def cost(spec: Contraction, problem: TapsProblem, config: TapsWgradConfig) -> float:
    """Cycles until the last block is done."""
    schedule = config.schedule(spec, problem)
    load, math = config.roles
    slabs = config.chunk // SLAB
    instruction = max(_MULTIPLY_CYCLES[config.math] * config.columns, _LEAST_CYCLES)
    multiplied = slabs * config.taps * instruction
    copied = config.chunk * 2 * (ROWS + config.columns) / _BYTES_PER_CYCLE
    found = 2 * (config.chunk // _ROWS) / (load or math) * _ROWS_CYCLES
    if load:
        step = max(multiplied, copied, found) + _STEP_CYCLES
    else:
        step = max(multiplied + found, copied) + _UNIFORM_CYCLES
    if config.consumer_warpgroups == 1:
        step += _STEP_CYCLES  # nobody multiplies while the one group waits
    lead = 2 * max(copied, found)
    sums = config.taps * config.columns * ROWS * 4 / _BYTES_PER_CYCLE
    parts = schedule.partition.parts
    if schedule.partition.kind != SPLIT_K:
        parts = ceil(schedule.shares / max(1, schedule.streamed)) if schedule.shares else 1
    added = {"linear": parts, "tree": 2 * max(1, parts - 1).bit_length(), "slices": 2}
    joined = 0.0
    if schedule.slots:
        times = added[schedule.partition.reduction]
        joined = times * sums + _MEET_CYCLES * (times if times > 2 else 1)
    return _START_CYCLES + lead + busiest_steps(schedule) * step + joined
