"""`grouped-wgrad`: the gradient of the weights of many small groups, `kernel.cuh`.

Every element of A and C takes part in few products, so what they need is bandwidth: both are read
once, and the sums of all taps stay in registers. Groups of fewer than 16 channels are multiplied
together, and the products of different groups are dropped. See `README.md`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from math import gcd
from typing import TYPE_CHECKING, Final

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.direct.config import TILE
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR, WindowAxis
from convir.lowering.kernels.cuda.direct.ring import (
    BANKS,
    ELEMENT_BYTES,
    TMA,
    RingShape,
    barrier_bytes,
    box_map,
    copies_refusal,
    ring_bytes,
)
from convir.lowering.kernels.cuda.direct.source import launch_sums, reading
from convir.lowering.kernels.cuda.grouped_direct.launch import MergedGroups
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.cuda.registers import WARP, traded_registers
from convir.lowering.kernels.target import DEFAULT_TARGET, Target

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_wgrad.config import GroupedWgradConfig
    from convir.lowering.kernels.cuda.launch import KernelPlan, TensorMap

DEPTH = 16
"""Depths of a warp, and what columns are a multiple of."""

MOST_SUMS = 160
"""Sums of a thread: taps times columns of its slice, halved."""

SUM_BYTES = STORAGE_BYTES["f32"]

LINE_BYTES: Final = 128
"""What a miss brings: the channels beside are other blocks', which ask for them at another time."""

MOST_ONCE_BYTES = 1 << 28
"""Operands up to here leave the L2 cache first, before what others wrote to it: a larger part of
them than that costs more than it saves, as blocks read the same columns at their borders."""


def merged_groups(problem: DirectProblem) -> MergedGroups | Refusal:
    """The least merge of groups whose channels fill the matrix instructions, or why none does."""
    spec = problem.contraction
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups == 1:
        return Refusal("one group is an implicit GEMM's")
    merged = max(DEPTH // gcd(spec.depth, DEPTH), DEPTH // gcd(spec.columns, DEPTH))
    if spec.groups % merged != 0:
        return Refusal(f"{spec.groups} groups of {spec.depth} channels do not fill tiles")
    if problem.taps * DEPTH > 2 * MOST_SUMS:
        return Refusal(f"the sums of {problem.taps} taps do not fit registers")
    a_steps = (problem.a_image, problem.rows.a_stride, problem.cols.a_stride)
    c_steps = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride)
    if any(step % VECTOR != 0 for step in (*a_steps, *c_steps)):
        return Refusal("pixels are not aligned to 16 bytes")
    return MergedGroups(merged, spec.groups // merged, merged * spec.depth, merged * spec.columns)


def jobs(merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Warps that share a position of a block."""
    return config.channels // DEPTH * (merged.columns // config.slice)


def step_positions(merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Output positions of a block's step."""
    return config.warps // jobs(merged, config) * config.tiles * TILE


def gradient_channels(merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Channels of C of a block."""
    return config.channels // merged.depth * merged.columns


def ring_shape(merged: MergedGroups, config: GroupedWgradConfig) -> RingShape:
    """What decides how many rows a block holds."""
    return RingShape(
        config.cols, config.rows, config.stages, step_positions(merged, config), config.copies
    )


def shared_bytes(problem: DirectProblem, merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Shared memory of a block: rows of A and C, and a pixel of zeros."""
    zeros = -(-gradient_channels(merged, config) * ELEMENT_BYTES // BANKS) * BANKS
    held = max(_rings(problem, merged, config), _sums_bytes(problem, merged, config))
    held = -(-held // BANKS) * BANKS
    return held + zeros + barrier_bytes(config.stages, config.loaders)


def _sums_bytes(problem: DirectProblem, merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Bytes in which warps add their sums up, and threads those of other blocks."""
    is_shared = config.warps > jobs(merged, config)
    folded = job_bytes(problem, merged, config) if is_shared else 0
    return max(folded, config.warps * WARP * VECTOR * ELEMENT_BYTES)


def job_bytes(problem: DirectProblem, merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Bytes of the sums of a block that are of one group, when warps that share them have added
    up: half of them, where a tile has the channels of two groups."""
    halves = 2 if merged == MergedGroups(2, merged.groups, DEPTH, DEPTH) else 1
    return jobs(merged, config) * sums(problem, config) // halves * WARP * SUM_BYTES


def _rings(problem: DirectProblem, merged: MergedGroups, config: GroupedWgradConfig) -> int:
    """Bytes of the rows of A and C."""
    shape = ring_shape(merged, config)
    of_c = ring_bytes(_without_windows(problem), gradient_channels(merged, config), shape)
    return ring_bytes(problem, config.channels, shape) + of_c


def _without_windows(problem: DirectProblem) -> DirectProblem:
    """The problem with C in the place of A: one pixel for each position."""

    def positions(axis: WindowAxis, size: int) -> WindowAxis:
        return WindowAxis(size, 1, axis.c_stride, axis.c_stride, 0, 1)

    return replace(
        problem,
        a_image=problem.c_image,
        rows=positions(problem.rows, problem.row_count),
        cols=positions(problem.cols, problem.col_count),
    )


def sums(problem: DirectProblem, config: GroupedWgradConfig) -> int:
    """Sums of a thread."""
    return problem.taps * config.slice * DEPTH // WARP


def is_read_once(problem: DirectProblem, merged: MergedGroups) -> bool:
    """Whether operands leave the L2 cache first."""
    pixels_a = problem.rows.extent * problem.cols.extent
    pixels_c = problem.row_count * problem.col_count
    elements = pixels_a * merged.depth + pixels_c * merged.columns
    return problem.images * merged.groups * elements * ELEMENT_BYTES <= MOST_ONCE_BYTES


def list_rows(problem: DirectProblem, config: GroupedWgradConfig) -> int:
    """Rows of the list of positions, which the parts share."""
    tiles = -(-problem.col_count // config.cols)
    return problem.images * tiles * -(-problem.row_count // config.rows)


def refusal(
    problem: DirectProblem, merged: MergedGroups, config: GroupedWgradConfig, target: Target
) -> Refusal | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.channels % merged.depth != 0:
        return Refusal(f"{config.channels} channels are no groups of {merged.depth}")
    if config.slice % DEPTH != 0 or merged.columns % config.slice != 0:
        return Refusal(f"{merged.columns} columns are no slices of {config.slice}")
    if config.warps % jobs(merged, config) != 0:
        return Refusal(
            f"{config.warps} warps do not share {jobs(merged, config)} parts of a position"
        )
    if sums(problem, config) > MOST_SUMS:
        return Refusal(f"{sums(problem, config)} sums do not fit the registers of a thread")
    shape, of_c = ring_shape(merged, config), gradient_channels(merged, config)
    for problem_of, channels in (
        (problem, config.channels),
        (_without_windows(problem), of_c),
    ):
        refused = copies_refusal(problem_of, channels, shape, config.warps, config.loaders)
        if refused is not None:
            return refused
    return target.shared_refusal(shared_bytes(problem, merged, config), config.blocks[1])


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: GroupedWgradConfig,
    target: Target = DEFAULT_TARGET,
) -> KernelPlan | Refusal:
    """The launch of one config, whose blocks add up their sums; or why it is not legal."""
    read = reading(contraction, epilogue, merged_groups, "B")
    if isinstance(read, Refusal):
        return read
    problem, merged = read
    refused = refusal(problem, merged, config, target)
    if refused is not None:
        return refused
    channel_blocks = -(-merged.groups * merged.depth // config.channels)
    resident = config.blocks[0] * config.blocks[1]
    parts = min(max(1, resident // channel_blocks), list_rows(problem, config))
    threads = (config.warps + config.loaders) * WARP
    schedule = {
        "channels": config.channels,
        "slice": config.slice,
        "tile_cols": config.cols,
        "unroll_rows": config.rows,
        "tiles": config.tiles,
        "stages": config.stages,
        "threads": threads,
        "loaders": config.loaders,
        "tma": int(config.copies == TMA),
        "compute_registers": traded_registers(config.warps, config.blocks[1]),
        "step_positions": step_positions(merged, config),
        "parts": parts,
        "read_once": int(is_read_once(problem, merged)),
        "shared_bytes": shared_bytes(problem, merged, config),
    }
    rows: Pointer | TensorMap = Pointer("a")
    gradients: Pointer | TensorMap = Pointer("c")
    if config.copies == TMA:
        shape, of_c = ring_shape(merged, config), gradient_channels(merged, config)
        of_all = merged.groups * merged.depth, merged.groups * merged.columns
        rows = box_map(problem, rows, of_all[0], config.channels, shape, LINE_BYTES)
        gradients = box_map(
            _without_windows(problem), gradients, of_all[1], of_c, shape, LINE_BYTES
        )
    return launch_sums(
        "grouped_wgrad/kernel.cuh",
        "GroupedWgrad",
        problem,
        epilogue,
        asdict(merged),
        schedule,
        (rows, gradients),
        channel_blocks,
        config.blocks[1],
        job_bytes(problem, merged, config),
    )
