"""Convolutions to a few output channels: `templates/narrow_direct.cuh`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from convir.dialects.refusal import Refusal
from convir.lowering.cuda.direct.problem import DirectPhase, DirectProblem
from convir.lowering.cuda.direct.ring import BANK_SKEW, ELEMENT_BYTES, ring_bytes
from convir.lowering.cuda.direct.source import source

TILE = 16
COLUMN_TILE = 8
WARP = 32
SUM_BYTES = 4
MOST_COLUMNS = 8
"""Output channels past which tiles of columns are no waste."""


@dataclass(frozen=True)
class NarrowSchedule:
    """How blocks and warps share the work."""

    tile_cols: int
    """Output columns of a list row."""
    depth_warps: int
    """Warps that share the channels of A of a position."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way."""
    threads: int
    blocks_per_sm: int

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.threads // 32 // self.depth_warps * self.tiles * TILE


@dataclass(frozen=True)
class Runs:
    """Phases in the order of their outputs in memory."""

    phases: tuple[DirectPhase, ...]
    run_phases: int
    """Phases whose outputs are neighbours."""
    word_elements: int
    """Elements of a store."""


def runs(problem: DirectProblem) -> Runs | Refusal:
    """Group phases whose outputs are neighbours in memory."""
    spec = problem.contraction
    if spec.groups != 1 or spec.columns > MOST_COLUMNS:
        return Refusal("it is not a dense convolution to a few channels")
    if spec.depth % TILE != 0:
        return Refusal(f"{spec.depth} channels of A are no steps of {TILE}")
    phases = tuple(sorted(problem.phases, key=lambda phase: phase.offset))
    if problem.cols.c_stride % spec.columns != 0:
        return Refusal("pixels of C are not neighbours")
    count = problem.cols.c_stride // spec.columns
    if len(phases) % count != 0:
        return Refusal("phases leave holes between pixels")
    for first in range(0, len(phases), count):
        run = phases[first : first + count]
        if any(p.offset != run[0].offset + i * spec.columns for i, p in enumerate(run)):
            return Refusal("phases leave holes between pixels")
        if len({p.rows for p in run}) != 1:
            return Refusal("phases of one row differ in their rows")
    strides = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride)
    even = all(n % 2 == 0 for n in (*strides, *(phases[i].offset for i in range(0, len(phases), count))))
    # A word must not have one element inside of the image and one outside.
    whole = spec.columns % 2 == 0 or len({phase.cols.size for phase in phases}) == 1
    return Runs(phases, count, 2 if even and whole else 1)


def shared_bytes(problem: DirectProblem, order: Runs, schedule: NarrowSchedule) -> int:
    """Shared memory of a block: rows of A, and weights or sums."""
    spec = problem.contraction
    ring = ring_bytes(
        problem, spec.depth, schedule.tile_cols, 1, schedule.stages, schedule.step_positions
    )
    run_tiles = -(-order.run_phases * spec.columns // COLUMN_TILE)
    columns = len(order.phases) // order.run_phases * run_tiles * COLUMN_TILE
    window = problem.rows.window * problem.cols.window
    weights = window * columns * (spec.depth * ELEMENT_BYTES + BANK_SKEW)
    warps = schedule.threads // WARP
    sums = 2 * warps * columns * TILE * SUM_BYTES if schedule.depth_warps > 1 else 0
    return ring + max(weights, sums)


def narrow_source(problem: DirectProblem, order: Runs, schedule: NarrowSchedule) -> str:
    """CUDA C++ of the kernel."""
    spec = problem.contraction
    constants = asdict(schedule) | {
        "unroll_rows": 1,
        "step_positions": schedule.step_positions,
        "shared_bytes": shared_bytes(problem, order, schedule),
    }
    del constants["blocks_per_sm"]
    features = {
        "depth": spec.depth,
        "columns": spec.columns,
        "run_phases": order.run_phases,
        "word_elements": order.word_elements,
    }
    return source(
        "NarrowDirect", problem, order.phases, features, constants, schedule.blocks_per_sm
    )
