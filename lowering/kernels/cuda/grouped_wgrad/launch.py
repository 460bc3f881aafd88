"""`grouped_wgrad`: the gradient of the weights of many small groups, `kernel.cuh`.

Every element of A and C takes part in few products, so what they need is bandwidth: both are read
once, and the accumulators of all taps stay in registers. Groups of fewer than 16 channels are
multiplied together, and the products of different groups are dropped. See `README.md`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from math import gcd
from typing import TYPE_CHECKING, Final

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
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
from convir.lowering.kernels.cuda.direct.source import launch_reduction, reading
from convir.lowering.kernels.cuda.grouped_direct.launch import PackedGroups
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.cuda.registers import WARP, traded_registers

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_wgrad.config import GroupedWgradConfig
    from convir.lowering.kernels.cuda.launch import KernelPlan, TensorMap
    from convir.lowering.kernels.target import Target

TILE_M = 16
"""Input channels of a warp, and what columns are a multiple of."""

MOST_ACCUMULATORS = 160
"""Accumulators of a thread: taps times columns of its slice, halved."""

ACCUMULATOR_BYTES = STORAGE_BYTES["f32"]

LINE_BYTES: Final = 128
"""What a miss brings: the channels beside are other blocks', which ask for them at another time."""

MOST_ONCE_BYTES = 1 << 28
"""Operands up to here leave the L2 cache first, before what others wrote to it: a larger part of
them than that costs more than it saves, as blocks read the same columns at their borders."""


def packed_groups(problem: DirectProblem) -> PackedGroups | Refusal:
    """The least merge of groups whose channels fill the matrix instructions, or why none does."""
    spec = problem.contraction
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if spec.groups == 1:
        return Refusal("one group is an implicit GEMM's")
    packed = max(TILE_M // gcd(spec.in_channels, TILE_M), TILE_M // gcd(spec.out_channels, TILE_M))
    if spec.groups % packed != 0:
        return Refusal(f"{spec.groups} groups of {spec.in_channels} channels do not fill tiles")
    if problem.taps * TILE_M > 2 * MOST_ACCUMULATORS:
        return Refusal(f"the accumulators of {problem.taps} taps do not fit registers")
    a_steps = (problem.a_image, problem.rows.a_stride, problem.cols.a_stride)
    c_steps = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride)
    if any(step % VECTOR != 0 for step in (*a_steps, *c_steps)):
        return Refusal("pixels are not aligned to 16 bytes")
    return PackedGroups(
        packed, spec.groups // packed, packed * spec.in_channels, packed * spec.out_channels
    )


def jobs(packed: PackedGroups, config: GroupedWgradConfig) -> int:
    """Warps that share a position of a block."""
    return config.channels // TILE_M * (packed.out_channels // config.warp_channels)


def step_pixels(packed: PackedGroups, config: GroupedWgradConfig) -> int:
    """Output pixels of a block's step."""
    return config.warps // jobs(packed, config) * config.tiles * TILE


def gradient_channels(packed: PackedGroups, config: GroupedWgradConfig) -> int:
    """Channels of C of a block."""
    return config.channels // packed.in_channels * packed.out_channels


def ring_shape(packed: PackedGroups, config: GroupedWgradConfig) -> RingShape:
    """What decides how many rows a block holds."""
    return RingShape(
        config.cols, config.rows, config.stages, step_pixels(packed, config), config.copies
    )


def shared_bytes(problem: DirectProblem, packed: PackedGroups, config: GroupedWgradConfig) -> int:
    """Shared memory of a block: rows of A and C, and a pixel of zeros."""
    zeros = -(-gradient_channels(packed, config) * ELEMENT_BYTES // BANKS) * BANKS
    held = max(_rings(problem, packed, config), _accumulator_bytes(problem, packed, config))
    held = -(-held // BANKS) * BANKS
    return held + zeros + barrier_bytes(config.stages, config.producer_warps)


def _accumulator_bytes(
    problem: DirectProblem, packed: PackedGroups, config: GroupedWgradConfig
) -> int:
    """Bytes in which warps add their sums up, and threads those of other blocks."""
    is_shared = config.warps > jobs(packed, config)
    folded = job_bytes(problem, packed, config) if is_shared else 0
    return max(folded, config.warps * WARP * VECTOR * ELEMENT_BYTES)


def job_bytes(problem: DirectProblem, packed: PackedGroups, config: GroupedWgradConfig) -> int:
    """Bytes of the accumulators of a block that are of one group, when warps that share them have
    added up: half of them, where a tile has the channels of two groups."""
    halves = 2 if packed == PackedGroups(2, packed.groups, TILE_M, TILE_M) else 1
    return jobs(packed, config) * accumulators(problem, config) // halves * WARP * ACCUMULATOR_BYTES


def _rings(problem: DirectProblem, packed: PackedGroups, config: GroupedWgradConfig) -> int:
    """Bytes of the rows of A and C."""
    shape = ring_shape(packed, config)
    of_c = ring_bytes(_without_windows(problem), gradient_channels(packed, config), shape)
    return ring_bytes(problem, config.channels, shape) + of_c


def _without_windows(problem: DirectProblem) -> DirectProblem:
    """The problem with C in the place of A: one pixel for each position."""

    def pixels(axis: WindowAxis, size: int) -> WindowAxis:
        return WindowAxis(size, 1, axis.c_stride, axis.c_stride, 0, 1)

    return replace(
        problem,
        a_image=problem.c_image,
        rows=pixels(problem.rows, problem.row_count),
        cols=pixels(problem.cols, problem.col_count),
    )


def accumulators(problem: DirectProblem, config: GroupedWgradConfig) -> int:
    """Accumulators of a thread."""
    return problem.taps * config.warp_channels * TILE_M // WARP


def is_read_once(problem: DirectProblem, packed: PackedGroups) -> bool:
    """Whether operands leave the L2 cache first."""
    pixels_a = problem.rows.extent * problem.cols.extent
    pixels_c = problem.row_count * problem.col_count
    elements = pixels_a * packed.in_channels + pixels_c * packed.out_channels
    return problem.images.value * packed.groups * elements * ELEMENT_BYTES <= MOST_ONCE_BYTES


def list_rows(problem: DirectProblem, config: GroupedWgradConfig) -> int:
    """Rows of the list of output pixels, which the parts share."""
    tiles = -(-problem.col_count // config.cols)
    return problem.images.value * tiles * -(-problem.row_count // config.rows)


def refusal(
    problem: DirectProblem, packed: PackedGroups, config: GroupedWgradConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.channels % packed.in_channels != 0:
        return Refusal(f"{config.channels} channels are no groups of {packed.in_channels}")
    if config.warp_channels % TILE_M != 0 or packed.out_channels % config.warp_channels != 0:
        return Refusal(
            f"{packed.out_channels} output channels are no multiple of {config.warp_channels}"
        )
    if config.warps % jobs(packed, config) != 0:
        return Refusal(
            f"{config.warps} warps do not share {jobs(packed, config)} shares of an output pixel"
        )
    if accumulators(problem, config) > MOST_ACCUMULATORS:
        return Refusal(
            f"{accumulators(problem, config)} accumulators do not fit the registers of a thread"
        )
    shape, of_c = ring_shape(packed, config), gradient_channels(packed, config)
    for problem_of, channels in (
        (problem, config.channels),
        (_without_windows(problem), of_c),
    ):
        refused = copies_refusal(problem_of, channels, shape, config.warps, config.producer_warps)
        if refused is not None:
            return refused
    return target.shared_refusal(shared_bytes(problem, packed, config), config.blocks[1])


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: GroupedWgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, whose blocks add up their accumulators; or why it is not legal."""
    read = reading(contraction, epilogue, packed_groups, "B")
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    refused = refusal(problem, packed, config, target)
    if refused is not None:
        return refused
    channel_blocks = -(-packed.groups * packed.in_channels // config.channels)
    resident = config.blocks[0] * config.blocks[1]
    splits = min(max(1, resident // channel_blocks), list_rows(problem, config))
    threads = (config.warps + config.producer_warps) * WARP
    schedule = {
        "channels": config.channels,
        "warp_channels": config.warp_channels,
        "tile_cols": config.cols,
        "unroll_rows": config.rows,
        "tiles": config.tiles,
        "stages": config.stages,
        "threads": threads,
        "producer_warps": config.producer_warps,
        "tma": int(config.copies == TMA),
        "compute_registers": traded_registers(config.warps, config.blocks[1]),
        "step_pixels": step_pixels(packed, config),
        "splits": splits,
        "read_once": int(is_read_once(problem, packed)),
        "shared_bytes": shared_bytes(problem, packed, config),
    }
    rows: Pointer | TensorMap = Pointer("a")
    gradients: Pointer | TensorMap = Pointer("c")
    if config.copies == TMA:
        shape, of_c = ring_shape(packed, config), gradient_channels(packed, config)
        of_all = packed.groups * packed.in_channels, packed.groups * packed.out_channels
        rows = box_map(problem, rows, of_all[0], config.channels, shape, LINE_BYTES)
        gradients = box_map(
            _without_windows(problem), gradients, of_all[1], of_c, shape, LINE_BYTES
        )
    return launch_reduction(
        "grouped_wgrad/kernel.cuh",
        "GroupedWgrad",
        problem,
        epilogue,
        asdict(packed),
        schedule,
        (rows, gradients),
        channel_blocks,
        config.blocks[1],
        job_bytes(problem, packed, config),
    )
