"""`sm90_grouped_direct`: groups of 32 channels with a step of 1, `kernel.cuh`.

A matrix instruction computes the 32 channels of a group in two output rows; pixels are its other
operand, where TMA put them. See `README.md`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import VECTOR, Slices
from convir.lowering.kernels.cuda.direct.ring import (
    BANK_SKEW,
    BARRIER_BYTES,
    ELEMENT_BYTES,
    MOST_BOX,
    map_strides,
)
from convir.lowering.kernels.cuda.direct.source import launch, reading, slice_features
from convir.lowering.kernels.cuda.grouped_direct.launch import PackedGroups, packed_groups
from convir.lowering.kernels.cuda.launch import Pointer, TensorMap
from convir.lowering.kernels.cuda.registers import WARP, WARPGROUP, traded_registers
from convir.lowering.kernels.cuda.sm90_grouped_direct.config import Sm90GroupedDirectConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

CHANNELS = 32
"""Of a group."""

PACKED = {CHANNELS // packed: packed for packed in (1, 2, 4)}
"""How many groups of so many channels are merged, with zeros between them."""

MERGED_OF_SLICES = PACKED | {CHANNELS // 8: 8}
"""The same where windows have slices, which no other kernel family is made for."""

PIXEL_BYTES = CHANNELS * ELEMENT_BYTES

ALIGNMENT = 128
"""Bytes that what TMA stores is aligned to."""

REPEAT = 8 * PIXEL_BYTES
"""Bytes after which TMA's exchange of chunks repeats."""

POSITIONS = 8
"""Output pixels of which an instruction has a multiple."""

SWITCH_PIXELS = 32
"""Output pixels that are multiplied in the time of what else a strip takes."""

COUNTED_PIXELS = 32
"""Output pixels of which the accumulators of a warpgroup count as a multiple: few are better off
elsewhere."""

MOST_PIXELS = 192
"""Output pixels of an instruction whose accumulators fit beside the weights."""

MOST_WEIGHTS = 12
"""Taps of the common window of two rows whose weights fit registers."""

CONSUMER_WARPS = 2 * WARPGROUP

STAGES = 3
"""Strips that are under way or in use: with four, the first of all blocks come later."""

NOWHERE_BYTES = 16
"""Where accumulators behind the last position go."""


def groups_of(problem: DirectProblem) -> PackedGroups | Refusal:
    """The groups of a contraction, or why the family does not take it."""
    contraction, rows, cols = problem.contraction, problem.rows, problem.cols
    in_channels, out_channels = contraction.in_channels, contraction.out_channels
    merges = MERGED_OF_SLICES if problem.slices.taps > 1 else PACKED
    if in_channels != out_channels or in_channels not in merges:
        return Refusal(f"groups have {in_channels} and {out_channels} channels")
    packed = merges[in_channels]
    if contraction.groups % packed != 0:
        return Refusal(
            f"{contraction.groups} groups of {in_channels} channels do not fill {CHANNELS}"
        )
    if not problem.is_channels_last:
        return Refusal("channels are not innermost, group after group")
    legal = packed_groups(problem)
    if isinstance(legal, Refusal):
        return legal
    if len(problem.phases) != 1 or rows.step != 1 or cols.step != 1:
        return Refusal("windows are not one step apart")
    if problem.taps == 0 or (rows.window + 1) * cols.window > MOST_WEIGHTS:
        return Refusal(f"weights of a {rows.window}x{cols.window} window do not fit registers")
    if not _has_vector_weights(problem):
        return Refusal("weights are not aligned to 16 bytes, or to a group's")
    if _pitch(problem) > MOST_BOX:
        return Refusal(f"TMA does not load {_pitch(problem)} pixels at once")
    return PackedGroups(packed, contraction.groups // packed, CHANNELS, CHANNELS)


def _is_volume(problem: DirectProblem) -> bool:
    """Whether there is an axis of slices around rows and columns."""
    return problem.slices != Slices()


def _has_vector_weights(problem: DirectProblem) -> bool:
    """Whether weights are copied 16 bytes at a time, or those of a group in a line."""
    weights, slices = problem.contraction.b, problem.slices
    strides = sorted((weights.out_channel_stride, weights.in_channel_stride))
    steps = [strides[1], weights.group_stride, slices.weight, slices.weight_step]
    (phase,) = problem.phases
    steps += [row + col for row in phase.rows.weights for col in phase.cols.weights]
    vector = min(VECTOR, problem.contraction.in_channels)
    return strides[0] == 1 and all(step % vector == 0 for step in steps)


def _shared_columns(problem: DirectProblem) -> int:
    """Columns of zeros that end a row and begin the next."""
    cols = problem.cols
    right = cols.origin + problem.col_count + cols.window - 1 - cols.extent
    return min(max(0, -cols.origin), max(0, right), cols.window - 1)


def _pitch(problem: DirectProblem) -> int:
    """Pixels of a row in shared memory."""
    return problem.col_count + problem.cols.window - 1 - _shared_columns(problem)


def _plane_rows(problem: DirectProblem, row_pairs: int) -> int:
    """Rows of a plane, which has every other row of A."""
    return row_pairs + problem.rows.window // 2


def _boxes(problem: DirectProblem, row_pairs: int) -> int:
    """Parts in which rows of a strip arrive: of two, the first warpgroup reads the first alone."""
    rows = _plane_rows(problem, row_pairs)
    is_halved = rows % 2 == 0 and row_pairs // 2 + problem.rows.window // 2 <= rows // 2
    return 2 if is_halved and rows // 2 * _pitch(problem) % 2 == 0 else 1


def _box_rows(problem: DirectProblem, row_pairs: int) -> int:
    """Rows of a plane that arrive together."""
    return _plane_rows(problem, row_pairs) // _boxes(problem, row_pairs)


def _whole(size: int, step: int) -> int:
    return -(-size // step) * step


def shared_bytes(problem: DirectProblem, config: Sm90GroupedDirectConfig) -> int:
    """Shared memory of a block: planes of A, what is stored or weights, and barriers."""
    zeros = _shared_columns(problem) * PIXEL_BYTES
    row = _pitch(problem) * PIXEL_BYTES
    plane = _whole(_plane_rows(problem, config.row_pairs) * row + zeros, REPEAT)
    weights = problem.taps * CHANNELS * (PIXEL_BYTES + BANK_SKEW)
    staged = config.row_pairs * 2 * row
    if problem.slices.taps > 1:
        stored = _whole(problem.slices.taps * weights, ALIGNMENT) + staged + NOWHERE_BYTES
    else:
        stored = max(staged, weights) + NOWHERE_BYTES
    slot = 2 * plane + (1 + _boxes(problem, config.row_pairs)) * BARRIER_BYTES
    return _whole(zeros, REPEAT) + config.stages * slot + stored


def group_pixels(problem: DirectProblem, row_pairs: int) -> tuple[int, int]:
    """Output pixels of the instructions of both warpgroups."""
    first = row_pairs // 2
    pitch = _pitch(problem)
    return _whole(first * pitch, POSITIONS), _whole((row_pairs - first) * pitch, POSITIONS)


def refusal(
    problem: DirectProblem, config: Sm90GroupedDirectConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if config.row_pairs < 2:
        return Refusal("two warpgroups do not share a pair of rows")
    pixels = max(group_pixels(problem, config.row_pairs))
    if pixels > MOST_PIXELS:
        return Refusal(f"accumulators of {pixels} output pixels do not fit registers")
    box = 2 * _box_rows(problem, config.row_pairs) - 1
    if box > MOST_BOX:
        return Refusal(f"TMA does not load {box} rows at once")
    return target.shared_refusal(shared_bytes(problem, config), config.blocks[1])


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[Sm90GroupedDirectConfig, ...] | Refusal:
    """The config for a contraction, or why the kernel family does not take it."""
    read = reading(contraction, epilogue, groups_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    legal = [
        config for config in _configs(problem, packed, gpu) if refusal(problem, config, gpu) is None
    ]
    if not legal:
        return Refusal(
            f"no strip of rows of {_pitch(problem)} pixels fits registers and shared memory"
        )
    if problem.slices.taps == 1:
        return (legal[0],)
    return (min(legal, key=lambda config: _steps(problem, packed, config)),)


def _configs(
    problem: DirectProblem, packed: PackedGroups, gpu: Target
) -> Iterator[Sm90GroupedDirectConfig]:
    """Strips of a whole image, of half of one, and so on."""
    of_image = max(2, -(-problem.row_count // 2))
    for strips in range(1, of_image // 2 + 1):
        row_pairs = -(-of_image // strips)
        all_strips = problem.images.value * problem.slices.size * -(-of_image // row_pairs)
        group_blocks = _group_blocks(packed.groups, all_strips, gpu)
        for stages in (STAGES, STAGES - 1) if problem.slices.taps > 1 else (STAGES,):
            yield Sm90GroupedDirectConfig(row_pairs, stages, group_blocks, (gpu.multiprocessors, 1))


def _steps(problem: DirectProblem, packed: PackedGroups, config: Sm90GroupedDirectConfig) -> int:
    """What multiprocessors multiply one after the other, in output pixels."""
    of_image = -(-problem.row_count // (2 * config.row_pairs))
    strips = problem.images.value * problem.slices.size * of_image
    rounds = -(-packed.groups * config.group_blocks // config.blocks[0]) * -(
        -strips // config.group_blocks
    )
    return rounds * (sum(group_pixels(problem, config.row_pairs)) + SWITCH_PIXELS)


def _group_blocks(groups: int, strips: int, gpu: Target) -> int:
    """Blocks of a group with which multiprocessors are busy evenly."""
    most = max(1, min(strips, 2 * gpu.multiprocessors // groups))
    return min(
        range(1, most + 1),
        key=lambda group_blocks: (
            -(-groups * group_blocks // gpu.multiprocessors) * -(-strips // group_blocks)
        ),
    )


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: Sm90GroupedDirectConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, or why it is not legal for the contraction."""
    read = reading(contraction, epilogue, groups_of, anywhere=True)
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    schedule = {
        "row_pairs": config.row_pairs,
        "stages": config.stages,
        "group_blocks": config.group_blocks,
        "boxes": _boxes(problem, config.row_pairs),
        "threads": (CONSUMER_WARPS + WARPGROUP) * WARP,
        "compute_registers": traded_registers(CONSUMER_WARPS, 1),
        "shared_bytes": shared_bytes(problem, config),
    }
    grid = packed.groups * config.group_blocks
    rows, stores = _maps(problem, packed.groups, config)
    features = {
        **asdict(packed),
        **slice_features(problem.slices),
        "volume": int(_is_volume(problem)),
    }
    return launch(
        "sm90_grouped_direct/kernel.cuh",
        "Sm90GroupedDirect",
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
    problem: DirectProblem, groups: int, config: Sm90GroupedDirectConfig
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
        (all_channels, cols.extent, rows.extent, *a_slices, problem.images.value),
        map_strides(a_strides),
        (CHANNELS, pitch, 2 * _box_rows(problem, config.row_pairs) - 1, *one, 1),
        64,
        element_strides=(1, 1, 2, *one, 1),
    )
    c = TensorMap(
        Pointer("c"),
        element,
        (all_channels, problem.col_count, problem.row_count, *c_slices, problem.images.value),
        map_strides(c_strides),
        (CHANNELS, pitch, 2, *one, 1),
        64,
        offset=problem.phases[0].offset * ELEMENT_BYTES,
    )
    return a, c
