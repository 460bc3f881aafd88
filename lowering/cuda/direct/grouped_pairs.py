"""`grouped-pairs`: groups of 32 channels with a step of 1, `templates/grouped_pairs.cuh`.

A matrix instruction computes the 32 channels of a group in two output rows; pixels are its other
operand, where the copy engine put them. See `docs/kernels/grouped-pairs.md`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.cuda.direct.config import GroupedPairsConfig
from convir.lowering.cuda.direct.grouped import MergedGroups, has_vector_weights, merged_groups
from convir.lowering.cuda.direct.registers import WARP, WARPGROUP, traded_registers
from convir.lowering.cuda.direct.ring import (
    BANK_SKEW,
    BARRIER_BYTES,
    ELEMENT_BYTES,
    LEAST_STRIDE,
    MOST_BOX,
)
from convir.lowering.cuda.direct.source import launch, reading
from convir.lowering.cuda.kernel_plan import Pointer, TensorMap

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.cuda.contraction.epilogue import Epilogue
    from convir.lowering.cuda.direct.problem import DirectProblem
    from convir.lowering.cuda.gpu import Gpu
    from convir.lowering.cuda.kernel_plan import KernelPlan

CHANNELS = 32
"""Of a group."""

MERGED = {CHANNELS // merged: merged for merged in (1, 2)}
"""How many groups of so many channels are merged, with zeros between them."""

PIXEL_BYTES = CHANNELS * ELEMENT_BYTES

REPEAT = 8 * PIXEL_BYTES
"""Bytes after which the copy engine's exchange of chunks repeats."""

POSITIONS = 32
"""Positions of which an instruction has a multiple."""

MOST_POSITIONS = 192
"""Positions of an instruction whose sums fit beside the weights."""

MOST_WEIGHTS = 12
"""Taps of the common window of two rows whose weights fit registers."""

MATH_WARPS = 2 * WARPGROUP

SLOTS = 3
"""Strips that are under way or in use: with four, the first of all blocks come later."""

NOWHERE_BYTES = 16
"""Where sums behind the last position go."""

LEAST_FILL = 0.67
"""Sums that are stored, of those that are computed."""


def _groups_of(problem: DirectProblem) -> MergedGroups | Refusal:
    contraction, rows, cols = problem.contraction, problem.rows, problem.cols
    depth, columns = contraction.depth, contraction.columns
    if depth != columns or depth not in MERGED:
        return Refusal(f"groups have {depth} and {columns} channels")
    if contraction.groups % MERGED[depth] != 0:
        return Refusal(f"{contraction.groups} groups of {depth} channels are not merged by twos")
    legal = merged_groups(problem)
    if isinstance(legal, Refusal):
        return legal
    if len(problem.phases) != 1 or rows.step != 1 or cols.step != 1:
        return Refusal("windows are not one step apart")
    if problem.taps == 0 or (rows.window + 1) * cols.window > MOST_WEIGHTS:
        return Refusal(f"weights of a {rows.window}x{cols.window} window do not fit registers")
    if not has_vector_weights(problem, legal):
        return Refusal("weights are not aligned to 16 bytes")
    if _pitch(problem) > MOST_BOX:
        return Refusal(f"the copy engine does not bring {_pitch(problem)} pixels at once")
    merged = MERGED[depth]
    return MergedGroups(merged, contraction.groups // merged, CHANNELS, CHANNELS)


def _shared_columns(problem: DirectProblem) -> int:
    """Columns of zeros that end a row and begin the next."""
    cols = problem.cols
    right = cols.origin + problem.col_count + cols.window - 1 - cols.extent
    return min(max(0, -cols.origin), max(0, right), cols.window - 1)


def _pitch(problem: DirectProblem) -> int:
    """Pixels of a row in shared memory."""
    return problem.col_count + problem.cols.window - 1 - _shared_columns(problem)


def _plane_rows(problem: DirectProblem, pairs: int) -> int:
    """Rows of a plane, which has every other row of A."""
    return pairs + problem.rows.window // 2


def _whole(size: int, step: int) -> int:
    return -(-size // step) * step


def shared_bytes(problem: DirectProblem, config: GroupedPairsConfig) -> int:
    """Shared memory of a block: planes of A, what is stored or weights, and barriers."""
    zeros = _shared_columns(problem) * PIXEL_BYTES
    row = _pitch(problem) * PIXEL_BYTES
    plane = _whole(_plane_rows(problem, config.pairs) * row + zeros, REPEAT)
    weights = problem.taps * CHANNELS * (PIXEL_BYTES + BANK_SKEW)
    stored = max(config.pairs * 2 * row, weights) + NOWHERE_BYTES
    slot = 2 * plane + 2 * BARRIER_BYTES
    return _whole(zeros, REPEAT) + config.slots * slot + stored


def _group_positions(problem: DirectProblem, pairs: int) -> tuple[int, int]:
    """Positions of the instructions of both warpgroups."""
    first = -(-pairs // 2)
    pitch = _pitch(problem)
    return _whole(first * pitch, POSITIONS), _whole((pairs - first) * pitch, POSITIONS)


def legality(problem: DirectProblem, config: GroupedPairsConfig, shared: int) -> str | None:
    """Why the template's assertions, or `shared` bytes of a block, refuse `config`."""
    if config.pairs < 2:
        return "two warpgroups do not share a pair of rows"
    positions = _group_positions(problem, config.pairs)[0]
    if positions > MOST_POSITIONS:
        return f"sums of {positions} positions do not fit registers"
    box = 2 * _plane_rows(problem, config.pairs) - 1
    if box > MOST_BOX:
        return f"the copy engine does not bring {box} rows at once"
    needed = shared_bytes(problem, config)
    if needed > shared:
        return f"it needs {needed} bytes of shared memory of {shared}"
    return None


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Gpu
) -> tuple[GroupedPairsConfig, ...] | Refusal:
    """The config for a contraction, or why the template does not take it."""
    if not gpu.is_hopper:
        return Refusal(f"{gpu.arch} has no wgmma")
    read = reading(contraction, epilogue, _groups_of)
    if isinstance(read, Refusal):
        return read
    problem, merged = read
    of_image = max(2, -(-problem.row_count // 2))
    for strips in range(1, of_image // 2 + 1):
        pairs = -(-of_image // strips)
        parts = _parts(merged.groups, problem.images * -(-of_image // pairs), gpu)
        config = GroupedPairsConfig(pairs, SLOTS, parts, (gpu.multiprocessors, 1))
        if legality(problem, config, gpu.shared_bytes) is None:
            return _filled(problem, config)
    return Refusal(f"no strip of rows of {_pitch(problem)} pixels fits registers and shared memory")


def _parts(groups: int, strips: int, gpu: Gpu) -> int:
    """Blocks of a group with which multiprocessors are busy evenly."""
    most = max(1, min(strips, 2 * gpu.multiprocessors // groups))
    return min(
        range(1, most + 1),
        key=lambda parts: -(-groups * parts // gpu.multiprocessors) * -(-strips // parts),
    )


def _filled(
    problem: DirectProblem, config: GroupedPairsConfig
) -> tuple[GroupedPairsConfig, ...] | Refusal:
    """The config, unless too much of what it computes is for nothing."""
    strips = -(-problem.row_count // (2 * config.pairs))
    computed = 2 * strips * sum(_group_positions(problem, config.pairs))
    stored = problem.row_count * problem.col_count
    if stored < LEAST_FILL * computed:
        return Refusal(f"of {computed} sums of an image {stored} are stored")
    return (config,)


def kernels(
    contraction: Contraction, epilogue: Epilogue, config: GroupedPairsConfig
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, _groups_of)
    if isinstance(read, Refusal):
        return read
    problem, merged = read
    needed = shared_bytes(problem, config)
    reason = legality(problem, config, needed)
    if reason is not None:
        return Refusal(reason)
    schedule = {
        "pairs": config.pairs,
        "slots": config.slots,
        "parts": config.parts,
        "threads": (MATH_WARPS + WARPGROUP) * WARP,
        "compute_registers": traded_registers(MATH_WARPS, 1),
        "shared_bytes": needed,
    }
    grid = merged.groups * config.parts
    rows, stores = _maps(problem, merged.groups, config)
    return launch(
        "GroupedPairs", problem, epilogue, asdict(merged), schedule, grid, 1, rows, stores
    )


def _maps(
    problem: DirectProblem, groups: int, config: GroupedPairsConfig
) -> tuple[TensorMap, TensorMap]:
    """The maps by which every other row of A is brought, and a pair of rows of C is stored."""
    rows, cols, element = problem.rows, problem.cols, problem.contraction.a.type
    pitch, all_channels = _pitch(problem), groups * CHANNELS
    a_strides = (cols.a_stride, rows.a_stride, problem.a_image)
    c_strides = (cols.c_stride, rows.c_stride, problem.c_image)
    a = TensorMap(
        Pointer("a"),
        element,
        (all_channels, cols.extent, rows.extent, problem.images),
        tuple(max(LEAST_STRIDE, stride * ELEMENT_BYTES) for stride in a_strides),
        (CHANNELS, pitch, 2 * _plane_rows(problem, config.pairs) - 1, 1),
        64,
        element_strides=(1, 1, 2, 1),
    )
    c = TensorMap(
        Pointer("c"),
        element,
        (all_channels, problem.col_count, problem.row_count, problem.images),
        tuple(max(LEAST_STRIDE, stride * ELEMENT_BYTES) for stride in c_strides),
        (CHANNELS, pitch, 2, 1),
        64,
        offset=problem.phases[0].offset * ELEMENT_BYTES,
    )
    return a, c
