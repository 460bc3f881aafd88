"""`grouped-pairs`: groups of 32 channels with a step of 1, `kernel.cuh`.

A matrix instruction computes the 32 channels of a group in two output rows; pixels are its other
operand, where TMA put them. See `README.md`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import VECTOR, Slices
from convir.lowering.kernels.cuda.direct.ring import (
    BANK_SKEW,
    BARRIER_BYTES,
    ELEMENT_BYTES,
    MOST_BOX,
    map_strides,
)
from convir.lowering.kernels.cuda.direct.source import launch, reading, slice_features
from convir.lowering.kernels.cuda.grouped_direct.launch import MergedGroups, merged_groups
from convir.lowering.kernels.cuda.launch import Pointer, TensorMap
from convir.lowering.kernels.cuda.registers import WARP, WARPGROUP, traded_registers
from convir.lowering.kernels.cuda.sm90_grouped_direct.config import GroupedPairsConfig
from convir.lowering.kernels.target import DEFAULT_TARGET, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan

CHANNELS = 32
"""Of a group."""

MERGED = {CHANNELS // merged: merged for merged in (1, 2, 4)}
"""How many groups of so many channels are merged, with zeros between them."""

MERGED_OF_SLICES = MERGED | {CHANNELS // 8: 8}
"""The same where windows have slices, which no other template is made for."""

PIXEL_BYTES = CHANNELS * ELEMENT_BYTES

ALIGNMENT = 128
"""Bytes that what TMA stores is aligned to."""

REPEAT = 8 * PIXEL_BYTES
"""Bytes after which TMA's exchange of chunks repeats."""

POSITIONS = 8
"""Positions of which an instruction has a multiple."""

TURN_POSITIONS = 32
"""Positions that are multiplied in the time of what else a strip takes."""

COUNTED_POSITIONS = 32
"""Positions of which the sums of a warpgroup count as a multiple: few are better off elsewhere."""

MOST_POSITIONS = 192
"""Positions of an instruction whose sums fit beside the weights."""

MOST_WEIGHTS = 12
"""Taps of the common window of two rows whose weights fit registers."""

MATH_WARPS = 2 * WARPGROUP

SLOTS = 3
"""Strips that are under way or in use: with four, the first of all blocks come later."""

NOWHERE_BYTES = 16
"""Where sums behind the last position go."""


def groups_of(problem: DirectProblem) -> MergedGroups | Refusal:
    """The groups of a contraction, or why the family does not take it."""
    contraction, rows, cols = problem.contraction, problem.rows, problem.cols
    depth, columns = contraction.depth, contraction.columns
    merges = MERGED_OF_SLICES if problem.slices.taps > 1 else MERGED
    if depth != columns or depth not in merges:
        return Refusal(f"groups have {depth} and {columns} channels")
    merged = merges[depth]
    if contraction.groups % merged != 0:
        return Refusal(f"{contraction.groups} groups of {depth} channels do not fill {CHANNELS}")
    if not problem.is_channels_last:
        return Refusal("channels are not innermost, group after group")
    legal = merged_groups(problem)
    if isinstance(legal, Refusal):
        return legal
    if len(problem.phases) != 1 or rows.step != 1 or cols.step != 1:
        return Refusal("windows are not one step apart")
    if problem.taps == 0 or (rows.window + 1) * cols.window > MOST_WEIGHTS:
        return Refusal(f"weights of a {rows.window}x{cols.window} window do not fit registers")
    if not _has_vector_weights(problem):
        return Refusal("weights are not aligned to 16 bytes, or to a group's")
    if _pitch(problem) > MOST_BOX:
        return Refusal(f"TMA does not bring {_pitch(problem)} pixels at once")
    return MergedGroups(merged, contraction.groups // merged, CHANNELS, CHANNELS)


def _is_volume(problem: DirectProblem) -> bool:
    """Whether there is an axis of slices around rows and columns."""
    return problem.slices != Slices()


def _has_vector_weights(problem: DirectProblem) -> bool:
    """Whether weights are copied 16 bytes at a time, or those of a group in a line."""
    weights, slices = problem.contraction.b, problem.slices
    strides = sorted((weights.column_stride, weights.depth_stride))
    steps = [strides[1], weights.group_stride, slices.weight, slices.weight_step]
    (phase,) = problem.phases
    steps += [row + col for row in phase.rows.weights for col in phase.cols.weights]
    vector = min(VECTOR, problem.contraction.depth)
    return strides[0] == 1 and all(step % vector == 0 for step in steps)


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


def _boxes(problem: DirectProblem, pairs: int) -> int:
    """Parts in which rows of a strip arrive: of two, the first warpgroup reads the first alone."""
    rows = _plane_rows(problem, pairs)
    is_halved = rows % 2 == 0 and pairs // 2 + problem.rows.window // 2 <= rows // 2
    return 2 if is_halved and rows // 2 * _pitch(problem) % 2 == 0 else 1


def _box_rows(problem: DirectProblem, pairs: int) -> int:
    """Rows of a plane that arrive together."""
    return _plane_rows(problem, pairs) // _boxes(problem, pairs)


def _whole(size: int, step: int) -> int:
    return -(-size // step) * step


def shared_bytes(problem: DirectProblem, config: GroupedPairsConfig) -> int:
    """Shared memory of a block: planes of A, what is stored or weights, and barriers."""
    zeros = _shared_columns(problem) * PIXEL_BYTES
    row = _pitch(problem) * PIXEL_BYTES
    plane = _whole(_plane_rows(problem, config.pairs) * row + zeros, REPEAT)
    weights = problem.taps * CHANNELS * (PIXEL_BYTES + BANK_SKEW)
    staged = config.pairs * 2 * row
    if problem.slices.taps > 1:
        stored = _whole(problem.slices.taps * weights, ALIGNMENT) + staged + NOWHERE_BYTES
    else:
        stored = max(staged, weights) + NOWHERE_BYTES
    slot = 2 * plane + (1 + _boxes(problem, config.pairs)) * BARRIER_BYTES
    return _whole(zeros, REPEAT) + config.slots * slot + stored


def group_positions(problem: DirectProblem, pairs: int) -> tuple[int, int]:
    """Positions of the instructions of both warpgroups."""
    first = pairs // 2
    pitch = _pitch(problem)
    return _whole(first * pitch, POSITIONS), _whole((pairs - first) * pitch, POSITIONS)


def refusal(problem: DirectProblem, config: GroupedPairsConfig, target: Target) -> Refusal | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.pairs < 2:
        return Refusal("two warpgroups do not share a pair of rows")
    positions = max(group_positions(problem, config.pairs))
    if positions > MOST_POSITIONS:
        return Refusal(f"sums of {positions} positions do not fit registers")
    box = 2 * _box_rows(problem, config.pairs) - 1
    if box > MOST_BOX:
        return Refusal(f"TMA does not bring {box} rows at once")
    return target.shared_refusal(shared_bytes(problem, config), config.blocks[1])


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[GroupedPairsConfig, ...] | Refusal:
    """The config for a contraction, or why the template does not take it."""
    read = reading(contraction, epilogue, groups_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, merged = read
    legal = [
        config for config in _configs(problem, merged, gpu) if refusal(problem, config, gpu) is None
    ]
    if not legal:
        return Refusal(
            f"no strip of rows of {_pitch(problem)} pixels fits registers and shared memory"
        )
    if problem.slices.taps == 1:
        return (legal[0],)
    return (min(legal, key=lambda config: _steps(problem, merged, config)),)


def _configs(
    problem: DirectProblem, merged: MergedGroups, gpu: Target
) -> Iterator[GroupedPairsConfig]:
    """Strips of a whole image, of half of one, and so on."""
    of_image = max(2, -(-problem.row_count // 2))
    for strips in range(1, of_image // 2 + 1):
        pairs = -(-of_image // strips)
        all_strips = problem.images * problem.slices.size * -(-of_image // pairs)
        parts = _parts(merged.groups, all_strips, gpu)
        for slots in (SLOTS, SLOTS - 1) if problem.slices.taps > 1 else (SLOTS,):
            yield GroupedPairsConfig(pairs, slots, parts, (gpu.multiprocessors, 1))


def _steps(problem: DirectProblem, merged: MergedGroups, config: GroupedPairsConfig) -> int:
    """What multiprocessors multiply one after the other, in positions."""
    of_image = -(-problem.row_count // (2 * config.pairs))
    strips = problem.images * problem.slices.size * of_image
    rounds = -(-merged.groups * config.parts // config.blocks[0]) * -(-strips // config.parts)
    return rounds * (sum(group_positions(problem, config.pairs)) + TURN_POSITIONS)


def _parts(groups: int, strips: int, gpu: Target) -> int:
    """Blocks of a group with which multiprocessors are busy evenly."""
    most = max(1, min(strips, 2 * gpu.multiprocessors // groups))
    return min(
        range(1, most + 1),
        key=lambda parts: -(-groups * parts // gpu.multiprocessors) * -(-strips // parts),
    )


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: GroupedPairsConfig,
    target: Target = DEFAULT_TARGET,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, groups_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, merged = read
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    schedule = {
        "pairs": config.pairs,
        "slots": config.slots,
        "parts": config.parts,
        "boxes": _boxes(problem, config.pairs),
        "threads": (MATH_WARPS + WARPGROUP) * WARP,
        "compute_registers": traded_registers(MATH_WARPS, 1),
        "shared_bytes": shared_bytes(problem, config),
    }
    grid = merged.groups * config.parts
    rows, stores = _maps(problem, merged.groups, config)
    features = {
        **asdict(merged),
        **slice_features(problem.slices),
        "volume": int(_is_volume(problem)),
    }
    return launch(
        "sm90_grouped_direct/kernel.cuh",
        "GroupedPairs",
        problem,
        epilogue,
        features,
        schedule,
        grid,
        1,
        rows,
        stores,
    )


def _maps(
    problem: DirectProblem, groups: int, config: GroupedPairsConfig
) -> tuple[TensorMap, TensorMap]:
    """The maps by which every other row of A is brought, and a pair of rows of C is stored."""
    rows, cols, slices = problem.rows, problem.cols, problem.slices
    element, pitch, all_channels = problem.contraction.a.type, _pitch(problem), groups * CHANNELS
    a_slice, c_slice = [slices.a_stride], [slices.c_stride]
    a_slices, c_slices, one = [slices.extent], [slices.size], [1]
    if not _is_volume(problem):
        a_slice = c_slice = a_slices = c_slices = one = []
    a_strides = (cols.a_stride, rows.a_stride, *a_slice, problem.a_image)
    c_strides = (cols.c_stride, rows.c_stride, *c_slice, problem.c_image)
    a = TensorMap(
        Pointer("a"),
        element,
        (all_channels, cols.extent, rows.extent, *a_slices, problem.images),
        map_strides(a_strides),
        (CHANNELS, pitch, 2 * _box_rows(problem, config.pairs) - 1, *one, 1),
        64,
        element_strides=(1, 1, 2, *one, 1),
    )
    c = TensorMap(
        Pointer("c"),
        element,
        (all_channels, problem.col_count, problem.row_count, *c_slices, problem.images),
        map_strides(c_strides),
        (CHANNELS, pitch, 2, *one, 1),
        64,
        offset=problem.phases[0].offset * ELEMENT_BYTES,
    )
    return a, c
