"""Grouped convolutions with 1 to 64 channels a group: `templates/grouped_direct.cuh`.

Bandwidth is what they need: a grouped 3x3 does 9 * channels multiplications for every element that
moves, so the template reads rows of A once, keeps the weights in registers and stores 64 bytes of
a pixel at a time. Groups of fewer than 8 channels are merged into one with zeros between them,
which the tensor cores do faster than the copies arrive.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import gcd

from convir.dialects.refusal import Refusal
from convir.lowering.cuda.direct.problem import VECTOR, DirectProblem
from convir.lowering.cuda.direct.ring import BANK_SKEW, ELEMENT_BYTES, ring_bytes
from convir.lowering.cuda.direct.source import source

SLICE = 32
"""Output channels of a warp."""

TILE = 16
"""Output positions of a matrix instruction."""

MOST_OUTPUTS = 32
"""Outputs of a position: bits of a word."""

MOST_WEIGHTS = 160
"""Registers of a thread that may hold weights."""


@dataclass(frozen=True)
class MergedGroups:
    """Groups as the template multiplies them."""

    merged: int
    """Groups of the contraction in one of the template's."""
    groups: int
    depth: int
    columns: int


@dataclass(frozen=True)
class GroupedSchedule:
    """How blocks and warps share the work."""

    channels: int
    """Output channels of a block."""
    slice: int
    """Output channels of a warp, 16 or 32."""
    tile_cols: int
    """Output columns of a list row."""
    unroll_rows: int
    """Output rows of a position: rows of A are read once for all of them."""
    outputs: int
    """Outputs that are summed at once."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way."""
    threads: int
    blocks_per_sm: int

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.threads // 32 // (self.channels // self.slice) * self.tiles * TILE


def merged_groups(problem: DirectProblem) -> MergedGroups | Refusal:
    """The least merge of groups whose channels fill the matrix instructions."""
    spec = problem.contraction
    narrow = gcd(spec.depth, VECTOR), gcd(spec.columns, VECTOR)
    merged = max(VECTOR // narrow[0], VECTOR // narrow[1])
    depth, columns = merged * spec.depth, merged * spec.columns
    if spec.groups % merged != 0:
        return Refusal(f"{spec.groups} groups of {spec.depth} channels do not fill vectors")
    if depth != VECTOR and depth % TILE != 0:
        return Refusal(f"{depth} channels of A are no steps of a matrix instruction")
    if columns % SLICE != 0 and SLICE % columns != 0:
        return Refusal(f"{columns} channels are no slices of {SLICE}")
    if max(1, SLICE // columns) * depth % TILE != 0:
        return Refusal(f"a slice reads {depth} channels of A, half of a matrix instruction")
    return MergedGroups(merged, spec.groups // merged, depth, columns)


def vector_weights(problem: DirectProblem, merged: MergedGroups) -> bool:
    """Whether weights are copied 16 bytes at a time."""
    weights = problem.contraction.b
    if merged.merged != 1:
        return False
    inner, outer = (
        (weights.depth_stride, weights.column_stride)
        if weights.depth_stride == 1
        else (weights.column_stride, weights.depth_stride)
    )
    offsets = [
        row + col
        for phase in problem.phases
        for row in phase.rows.weights
        for col in phase.cols.weights
    ]
    return inner == 1 and all(
        step % VECTOR == 0 for step in (outer, weights.group_stride, *offsets)
    )


def shared_bytes(problem: DirectProblem, merged: MergedGroups, schedule: GroupedSchedule) -> int:
    """Shared memory of a block: rows of A and weights."""
    depth = schedule.channels // merged.columns * merged.depth
    ring = ring_bytes(
        problem,
        depth,
        schedule.tile_cols,
        schedule.unroll_rows,
        schedule.stages,
        schedule.step_positions,
    )
    if problem.contraction.b.depth_stride == 1:
        tap = schedule.channels * (merged.depth * ELEMENT_BYTES + BANK_SKEW)
    else:
        tap = depth * (merged.columns * ELEMENT_BYTES + BANK_SKEW)
    return ring + max(1, problem.taps) * tap


def grouped_source(
    problem: DirectProblem, merged: MergedGroups, schedule: GroupedSchedule
) -> str:
    """CUDA C++ of the kernel."""
    constants = asdict(schedule) | {
        "step_positions": schedule.step_positions,
        "shared_bytes": shared_bytes(problem, merged, schedule),
    }
    del constants["blocks_per_sm"]
    features = asdict(merged) | {"vector_weights": int(vector_weights(problem, merged))}
    return source(
        "GroupedDirect", problem, problem.phases, features, constants, schedule.blocks_per_sm
    )
