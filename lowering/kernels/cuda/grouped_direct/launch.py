"""`grouped`: convolutions of many small groups, `kernel.cuh`.

They do 2 * taps * channels operations for an element that they write, so what they need is
bandwidth: rows of A are read once, weights stay in registers, and a pixel's channels are stored in
whole sectors. Groups of fewer than 8 channels are merged into one with zeros between them, which
tensor cores multiply faster than the operands arrive. See `README.md`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import gcd
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.direct.config import WGMMA
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, VECTOR
from convir.lowering.kernels.cuda.direct.ring import (
    BANK_SKEW,
    ELEMENT_BYTES,
    TMA,
    RingShape,
    barrier_bytes,
    box_map,
    copies_refusal,
    ring_bytes,
)
from convir.lowering.kernels.cuda.direct.source import launch, reading
from convir.lowering.kernels.cuda.launch import Pointer
from convir.lowering.kernels.cuda.registers import WARP, WARPGROUP, traded_registers
from convir.lowering.kernels.target import DEFAULT_TARGET, Target

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_direct.config import GroupedConfig
    from convir.lowering.kernels.cuda.launch import KernelPlan

STEP = 16
"""Channels of A of a matrix instruction."""

MOST_OUTPUTS = 32
"""Outputs of a position: bits of a word."""

MOST_TAPS = 64
"""Taps past which unrolling all of them makes no kernel to compile."""

OTHER_REGISTERS = 56
"""Registers of a thread for addresses, pixels and all else but weights and sums."""

PIXEL_REGISTERS = 4
"""Registers of 16 positions and 16 channels of A."""

COPY_REGISTERS = 16
"""Registers of a thread that also copies rows."""


@dataclass(frozen=True)
class MergedGroups:
    """Groups as the template multiplies them."""

    merged: int
    """Groups of the contraction in one of the template's."""
    groups: int
    depth: int
    columns: int


def merged_groups(problem: DirectProblem) -> MergedGroups | Refusal:
    """The least merge of groups whose channels fill the matrix instructions, or why none does."""
    spec = problem.contraction
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    merged = max(VECTOR // gcd(spec.depth, VECTOR), VECTOR // gcd(spec.columns, VECTOR))
    depth, columns = merged * spec.depth, merged * spec.columns
    if spec.groups % merged != 0:
        return Refusal(f"{spec.groups} groups of {spec.depth} channels do not fill vectors")
    if depth != VECTOR and depth % STEP != 0:
        return Refusal(f"{depth} channels of A are no steps of a matrix instruction")
    if problem.taps > MOST_TAPS or len(problem.phases) > MOST_OUTPUTS:
        return Refusal(f"it has {problem.taps} taps in {len(problem.phases)} phases")
    a_steps = (problem.a_image, problem.rows.a_stride, problem.cols.a_stride)
    offsets = (phase.offset for phase in problem.phases)
    c_steps = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride, *offsets)
    if any(step % VECTOR != 0 for step in (*a_steps, *c_steps)):
        return Refusal("pixels are not aligned to 16 bytes")
    return MergedGroups(merged, spec.groups // merged, depth, columns)


def _block_depth(merged: MergedGroups, config: GroupedConfig) -> int:
    """Channels of A of a block."""
    return config.channels // merged.columns * merged.depth


def _ring_shape(config: GroupedConfig) -> RingShape:
    return RingShape(config.cols, config.rows, config.stages, config.step_positions, config.copies)


def shared_bytes(problem: DirectProblem, merged: MergedGroups, config: GroupedConfig) -> int:
    """Shared memory of a block: rows of A and weights."""
    depth = _block_depth(merged, config)
    lines, line = depth, merged.columns
    if problem.contraction.b.depth_stride == 1:
        lines, line = config.channels, merged.depth
    skew = 0 if config.math == WGMMA else BANK_SKEW
    tap = lines * (line * ELEMENT_BYTES + skew)
    ring = ring_bytes(problem, depth, _ring_shape(config))
    return ring + max(1, problem.taps) * tap + barrier_bytes(config.stages, config.loaders)


def registers(problem: DirectProblem, merged: MergedGroups, config: GroupedConfig) -> int:
    """Registers of a thread, roughly."""
    slice_depth = max(1, config.slice // merged.columns) * merged.depth
    columns = min(merged.columns, config.slice)
    weights = problem.taps * slice_depth * columns // (VECTOR * VECTOR)
    if config.math == WGMMA:
        weights = 2 * problem.cols.window * slice_depth // STEP * PIXEL_REGISTERS
    other = OTHER_REGISTERS + (0 if config.loaders else COPY_REGISTERS)
    return weights + config.outputs * config.slice // 2 + other


def refusal(
    problem: DirectProblem, merged: MergedGroups, config: GroupedConfig, target: Target
) -> Refusal | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.channels % config.slice != 0:
        return Refusal(f"{config.channels} channels are no slices of {config.slice}")
    if config.channels % merged.columns != 0:
        return Refusal(f"{config.channels} channels are no groups of {merged.columns}")
    if merged.columns % config.slice != 0 and config.slice % merged.columns != 0:
        return Refusal(f"slices of {config.slice} channels cut groups of {merged.columns}")
    if max(1, config.slice // merged.columns) * merged.depth % STEP != 0:
        return Refusal(f"a slice reads {merged.depth} channels of A, half of a matrix instruction")
    outputs = len(problem.phases) * config.rows
    if outputs % config.outputs != 0 or outputs > MOST_OUTPUTS:
        return Refusal(f"{outputs} outputs are not summed {config.outputs} at once")
    if config.warps % (config.channels // config.slice) != 0:
        return Refusal(f"{config.warps} warps do not share {config.channels} channels")
    if config.math == WGMMA:
        refused = _wgmma_refusal(merged, config)
        if refused is not None:
            return refused
    depth = _block_depth(merged, config)
    refused = copies_refusal(problem, depth, _ring_shape(config), config.warps, config.loaders)
    if refused is not None:
        return refused
    return target.shared_refusal(shared_bytes(problem, merged, config), config.blocks[1])


def _wgmma_refusal(merged: MergedGroups, config: GroupedConfig) -> Refusal | None:
    """Why warpgroups do not share the work of `config`; None if they do."""
    columns = min(merged.columns, config.slice)
    if columns not in (16, 32) or merged.depth % STEP != 0:
        return Refusal(f"wgmma does not multiply {merged.depth} by {columns} channels")
    if config.warps % (config.channels // config.slice * WARPGROUP) != 0:
        return Refusal(f"{config.warps} warps are no warpgroups for {config.channels} channels")
    return None


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: GroupedConfig,
    target: Target = DEFAULT_TARGET,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, merged_groups)
    if isinstance(read, Refusal):
        return read
    problem, merged = read
    refused = refusal(problem, merged, config, target)
    if refused is not None:
        return refused
    blocks = -(-merged.groups * merged.columns // config.channels)
    at_once = config.blocks[0] * config.blocks[1]
    schedule = {
        "channels": config.channels,
        "slice": config.slice,
        "tile_cols": config.cols,
        "unroll_rows": config.rows,
        "outputs": config.outputs,
        "tiles": config.tiles,
        "stages": config.stages,
        "threads": (config.warps + config.loaders) * WARP,
        "loaders": config.loaders,
        "tma": int(config.copies == TMA),
        "wgmma": int(config.math == WGMMA),
        "compute_registers": traded_registers(config.warps, config.blocks[1]),
        "step_positions": config.step_positions,
        "shared_bytes": shared_bytes(problem, merged, config),
    }
    features = asdict(merged) | {"vector_weights": int(has_vector_weights(problem, merged))}
    grid = max(blocks, at_once // blocks * blocks)
    of_all = merged.groups * merged.depth
    rows = Pointer("a")
    if config.copies == TMA:
        rows = box_map(problem, rows, of_all, _block_depth(merged, config), _ring_shape(config))
    resident = config.blocks[1]
    return launch(
        "grouped_direct/kernel.cuh",
        "GroupedDirect",
        problem,
        epilogue,
        features,
        schedule,
        grid,
        resident,
        rows,
    )


def has_vector_weights(problem: DirectProblem, merged: MergedGroups) -> bool:
    """Whether weights are copied 16 bytes at a time."""
    weights = problem.contraction.b
    if merged.merged != 1:
        return False
    inner, outer = weights.column_stride, weights.depth_stride
    if weights.depth_stride == 1:
        inner, outer = outer, inner
    offsets = [
        row + col
        for phase in problem.phases
        for row in phase.rows.weights
        for col in phase.cols.weights
    ]
    return inner == 1 and all(
        step % VECTOR == 0 for step in (outer, weights.group_stride, *offsets)
    )
