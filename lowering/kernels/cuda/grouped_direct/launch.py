"""`grouped_direct`: convolutions of many small groups, `kernel.cuh`.

They do 2 * taps * channels operations for an element that they write, so what they need is
bandwidth: rows of A are read once, weights stay in registers, and a pixel's channels are stored in
whole sectors. Groups of fewer than 8 channels are merged into one with zeros between them, which
tensor cores multiply faster than the operands arrive. See `README.md`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
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

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_direct.config import GroupedDirectConfig
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

STEP = 16
"""Channels of A of a matrix instruction."""

MOST_OUTPUTS = 32
"""Outputs of a position: bits of a word."""

MOST_TAPS = 64
"""Taps past which unrolling all of them makes no kernel to compile."""

OTHER_REGISTERS = 56
"""Registers of a thread for addresses, pixels and all else but weights and accumulators."""

PIXEL_REGISTERS = 4
"""Registers of 16 output pixels and 16 channels of A."""

COPY_REGISTERS = 16
"""Registers of a thread that also copies rows."""


@dataclass(frozen=True)
class PackedGroups:
    """Groups as the kernel family multiplies them."""

    packed: int
    """Groups of the contraction in one of the kernel family's."""
    groups: int
    in_channels: int
    out_channels: int


def packed_groups(problem: DirectProblem) -> PackedGroups | Refusal:
    """The least merge of groups whose channels fill the matrix instructions, or why none does."""
    spec = problem.contraction
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    packed = max(VECTOR // gcd(spec.in_channels, VECTOR), VECTOR // gcd(spec.out_channels, VECTOR))
    in_channels, out_channels = packed * spec.in_channels, packed * spec.out_channels
    if spec.groups % packed != 0:
        return Refusal(f"{spec.groups} groups of {spec.in_channels} channels do not fill vectors")
    if in_channels != VECTOR and in_channels % STEP != 0:
        return Refusal(f"{in_channels} channels of A are no steps of a matrix instruction")
    if problem.taps > MOST_TAPS or len(problem.phases) > MOST_OUTPUTS:
        return Refusal(f"it has {problem.taps} taps in {len(problem.phases)} phases")
    a_steps = (problem.a_image, problem.rows.a_stride, problem.cols.a_stride)
    offsets = (phase.offset for phase in problem.phases)
    c_steps = (problem.c_image, problem.rows.c_stride, problem.cols.c_stride, *offsets)
    if any(step % VECTOR != 0 for step in (*a_steps, *c_steps)):
        return Refusal("pixels are not aligned to 16 bytes")
    return PackedGroups(packed, spec.groups // packed, in_channels, out_channels)


def _block_depth(packed: PackedGroups, config: GroupedDirectConfig) -> int:
    """Channels of A of a block."""
    return config.channels // packed.out_channels * packed.in_channels


def _ring_shape(config: GroupedDirectConfig) -> RingShape:
    return RingShape(config.cols, config.rows, config.stages, config.step_pixels, config.copies)


def shared_bytes(problem: DirectProblem, packed: PackedGroups, config: GroupedDirectConfig) -> int:
    """Shared memory of a block: rows of A and weights."""
    in_channels = _block_depth(packed, config)
    lines, line = in_channels, packed.out_channels
    if problem.contraction.b.in_channel_stride == 1:
        lines, line = config.channels, packed.in_channels
    skew = 0 if config.instruction == WGMMA else BANK_SKEW
    tap = lines * (line * ELEMENT_BYTES + skew)
    ring = ring_bytes(problem, in_channels, _ring_shape(config))
    return ring + max(1, problem.taps) * tap + barrier_bytes(config.stages, config.producer_warps)


def registers(problem: DirectProblem, packed: PackedGroups, config: GroupedDirectConfig) -> int:
    """Registers of a thread, roughly."""
    warp_in_channels = max(1, config.warp_channels // packed.out_channels) * packed.in_channels
    out_channels = min(packed.out_channels, config.warp_channels)
    weights = problem.taps * warp_in_channels * out_channels // (VECTOR * VECTOR)
    if config.instruction == WGMMA:
        weights = 2 * problem.cols.window * warp_in_channels // STEP * PIXEL_REGISTERS
    other = OTHER_REGISTERS + (0 if config.producer_warps else COPY_REGISTERS)
    return weights + config.outputs * config.warp_channels // 2 + other


def refusal(
    problem: DirectProblem, packed: PackedGroups, config: GroupedDirectConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.channels % config.warp_channels != 0:
        return Refusal(f"{config.channels} channels are no multiple of {config.warp_channels}")
    if config.channels % packed.out_channels != 0:
        return Refusal(f"{config.channels} channels are no groups of {packed.out_channels}")
    if (
        packed.out_channels % config.warp_channels != 0
        and config.warp_channels % packed.out_channels != 0
    ):
        return Refusal(
            f"warps of {config.warp_channels} channels cut groups of {packed.out_channels}"
        )
    if max(1, config.warp_channels // packed.out_channels) * packed.in_channels % STEP != 0:
        return Refusal(
            f"a warp reads {packed.in_channels} channels of A, half of a matrix instruction"
        )
    outputs = len(problem.phases) * config.rows
    if outputs % config.outputs != 0 or outputs > MOST_OUTPUTS:
        return Refusal(f"{outputs} outputs are not summed {config.outputs} at once")
    if config.warps % (config.channels // config.warp_channels) != 0:
        return Refusal(f"{config.warps} warps do not share {config.channels} channels")
    if config.instruction == WGMMA:
        refused = _wgmma_refusal(packed, config)
        if refused is not None:
            return refused
    in_channels = _block_depth(packed, config)
    refused = copies_refusal(
        problem, in_channels, _ring_shape(config), config.warps, config.producer_warps
    )
    if refused is not None:
        return refused
    return target.shared_refusal(shared_bytes(problem, packed, config), config.blocks[1])


def _wgmma_refusal(packed: PackedGroups, config: GroupedDirectConfig) -> Refusal | None:
    """Why warpgroups do not share the work of `config`; None if they do."""
    out_channels = min(packed.out_channels, config.warp_channels)
    if out_channels not in (16, 32) or packed.in_channels % STEP != 0:
        return Refusal(f"wgmma does not multiply {packed.in_channels} by {out_channels} channels")
    if config.warps % (config.channels // config.warp_channels * WARPGROUP) != 0:
        return Refusal(f"{config.warps} warps are no warpgroups for {config.channels} channels")
    return None


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: GroupedDirectConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, packed_groups)
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    refused = refusal(problem, packed, config, target)
    if refused is not None:
        return refused
    blocks = -(-packed.groups * packed.out_channels // config.channels)
    at_once = config.blocks[0] * config.blocks[1]
    schedule = {
        "channels": config.channels,
        "warp_channels": config.warp_channels,
        "tile_cols": config.cols,
        "unroll_rows": config.rows,
        "outputs": config.outputs,
        "tiles": config.tiles,
        "stages": config.stages,
        "threads": (config.warps + config.producer_warps) * WARP,
        "producer_warps": config.producer_warps,
        "tma": int(config.copies == TMA),
        "wgmma": int(config.instruction == WGMMA),
        "compute_registers": traded_registers(config.warps, config.blocks[1]),
        "step_pixels": config.step_pixels,
        "shared_bytes": shared_bytes(problem, packed, config),
    }
    features = asdict(packed) | {"vector_weights": int(has_vector_weights(problem, packed))}
    grid = max(blocks, at_once // blocks * blocks)
    of_all = packed.groups * packed.in_channels
    rows = Pointer("a")
    if config.copies == TMA:
        rows = box_map(problem, rows, of_all, _block_depth(packed, config), _ring_shape(config))
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


def has_vector_weights(problem: DirectProblem, packed: PackedGroups) -> bool:
    """Whether weights are copied 16 bytes at a time."""
    weights = problem.contraction.b
    if packed.packed != 1:
        return False
    inner, outer = weights.out_channel_stride, weights.in_channel_stride
    if weights.in_channel_stride == 1:
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
