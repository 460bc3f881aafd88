"""`sm90_grouped_wgrad`: the gradient of the weights of groups of 32 channels,
`kernel.cuh`.

A matrix instruction has a group's 32 channels of the gradient at two places as its rows, and those
of the windows of several taps as its columns, which it reads where TMA put them. See
`README.md`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.config import TILE
from convir.lowering.kernels.cuda.direct.ring import (
    BARRIER_BYTES,
    ELEMENT_BYTES,
    MOST_BOX,
    map_strides,
)
from convir.lowering.kernels.cuda.direct.source import launch_reduction, reading
from convir.lowering.kernels.cuda.grouped_wgrad import launch as grouped_wgrad
from convir.lowering.kernels.cuda.grouped_wgrad.launch import ACCUMULATOR_BYTES
from convir.lowering.kernels.cuda.launch import Pointer, TensorMap
from convir.lowering.kernels.cuda.registers import WARP, WARPGROUP
from convir.lowering.kernels.cuda.sm90_grouped_wgrad.config import Sm90GroupedWgradConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem, WindowAxis
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_direct.launch import PackedGroups
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target

CHANNELS = 32
"""Of a group."""

PIXEL_BYTES = CHANNELS * ELEMENT_BYTES

REPEAT = 8 * PIXEL_BYTES
"""Bytes after which TMA's exchange of chunks repeats."""

TAPS = 3
"""Along rows, and along columns."""

CONSUMER_WARPS = 2 * WARPGROUP
"""Those that have the taps of the first two columns, and of the third."""

VECTOR_BYTES = 16
"""Of four accumulators."""

SUMS = TAPS * TAPS * CHANNELS * CHANNELS
"""Of a block."""


MOST_STAGES = 3
"""Strips past which more of them are no use."""

STAGE_COST = 0.2
"""What a strip less that is under way costs, in images."""

MOST_CONFIGS = 3


def groups_of(problem: DirectProblem) -> PackedGroups | Refusal:
    """The groups of a contraction, or why the family does not take it."""
    spec, rows, cols = problem.contraction, problem.rows, problem.cols
    if (spec.in_channels, spec.out_channels) != (CHANNELS, CHANNELS):
        return Refusal(f"groups have {spec.in_channels} and {spec.out_channels} channels")
    legal = grouped_wgrad.packed_groups(problem)
    if isinstance(legal, Refusal):
        return legal
    if len(problem.phases) != 1 or rows.step != 1 or cols.step != 1:
        return Refusal("windows are not one step apart")
    (phase,) = problem.phases
    if not _is_even(phase.rows.pixels) or not _is_even(phase.cols.pixels):
        return Refusal("windows have not three taps along rows and columns")
    if pitch_of(problem) > MOST_BOX:
        return Refusal(f"TMA does not load {pitch_of(problem)} pixels at once")
    return legal


def _is_even(taps: tuple[int, ...]) -> bool:
    """Whether there are three of them, equally far apart."""
    return len(taps) == TAPS and taps == (0, taps[1], 2 * taps[1]) and taps[1] > 0


def _apart(axis: WindowAxis) -> int:
    """How far apart taps are."""
    return axis.window // 2


def pitch_of(problem: DirectProblem) -> int:
    """Pixels of a row in shared memory."""
    cols = problem.cols
    behind = cols.origin + problem.col_count + cols.window - 1 - cols.extent
    shared = min(max(0, -cols.origin), max(0, behind), _apart(cols))
    return problem.col_count + cols.window - 1 - shared


def strips_of(problem: DirectProblem, rows: int) -> int:
    """Strips of an image."""
    return -(-(problem.row_count + _apart(problem.rows)) // rows)


def _rows_of_a(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> int:
    """Rows of A of a strip."""
    return config.rows + 2 * _apart(problem.rows)


def rows_of_c(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> int:
    """Rows of C of a strip."""
    return config.rows + _apart(problem.rows)


def _slot_bytes(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> int:
    """Shared memory of a strip."""
    row = pitch_of(problem) * PIXEL_BYTES
    zeros = (TILE + 2 * _apart(problem.cols)) * PIXEL_BYTES
    of_a = _rows_of_a(problem, config) * row + zeros
    return _whole(rows_of_c(problem, config) * row) + _whole(of_a)


def _whole(size: int) -> int:
    return -(-size // REPEAT) * REPEAT


def shared_bytes(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> int:
    """Shared memory of a block: strips, or a vector of every thread, and barriers."""
    strips = config.stages * _slot_bytes(problem, config)
    return max(strips, CONSUMER_WARPS * WARP * VECTOR_BYTES) + 2 * config.stages * BARRIER_BYTES


def _splits(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> int:
    """Blocks that share the strips of a group."""
    resident = config.blocks[0] * config.blocks[1]
    most = max(1, resident // problem.contraction.groups)
    return min(most, problem.images.value * strips_of(problem, config.rows))


def plan(
    contraction: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[Sm90GroupedWgradConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why the kernel family does not take it."""
    read = reading(contraction, epilogue, groups_of, "B")
    if isinstance(read, Refusal):
        return read
    problem, _ = read
    configs = [
        config
        for rows in dict.fromkeys(_strip_rows(problem))
        for config in _configs_of(problem, rows, gpu)
    ]
    if not configs:
        return Refusal(f"no two strips of rows of {pitch_of(problem)} pixels fit shared memory")
    best = sorted(configs, key=lambda config: _cost(problem, config))
    return tuple(best[:MOST_CONFIGS])


def _strip_rows(problem: DirectProblem) -> Iterator[int]:
    """Rows of a strip, where an image has one of them, two, …"""
    rows = problem.row_count + _apart(problem.rows)
    return (-(-rows // strips) for strips in range(1, rows + 1))


def _configs_of(problem: DirectProblem, rows: int, gpu: Target) -> Iterator[Sm90GroupedWgradConfig]:
    """The config whose strips have so many rows, with as many slots as shared memory has."""
    blocks = gpu.multiprocessors, 1
    for stages in range(MOST_STAGES, 1, -1):
        config = Sm90GroupedWgradConfig(rows, stages, blocks)
        if refusal(problem, config, gpu) is None:
            yield config
            return


def _brought(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> float:
    """Rows of A and C that strips bring, over those of a strip that is a whole image."""

    def rows_of(config: Sm90GroupedWgradConfig) -> int:
        return _rows_of_a(problem, config) + rows_of_c(problem, config)

    whole = replace(config, rows=problem.row_count + _apart(problem.rows))
    return strips_of(problem, config.rows) * rows_of(config) / rows_of(whole)


def _cost(problem: DirectProblem, config: Sm90GroupedWgradConfig) -> float:
    """Rows that strips bring, and what it costs that few of them are under way."""
    return _brought(problem, config) + (MOST_STAGES - config.stages) * STAGE_COST


def refusal(
    problem: DirectProblem, config: Sm90GroupedWgradConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if _rows_of_a(problem, config) > MOST_BOX:
        return Refusal(f"TMA does not load {_rows_of_a(problem, config)} rows at once")
    return target.shared_refusal(shared_bytes(problem, config), config.blocks[1])


def kernels(
    contraction: Contraction,
    epilogue: Epilogue,
    config: Sm90GroupedWgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of one config, whose blocks add up their accumulators; or why it is not legal."""
    read = reading(contraction, epilogue, groups_of, "B")
    if isinstance(read, Refusal):
        return read
    problem, packed = read
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    schedule = {
        "rows": config.rows,
        "stages": config.stages,
        "threads": (CONSUMER_WARPS + 1) * WARP,
        "producer_warps": 1,
        "splits": _splits(problem, config),
        "read_once": int(grouped_wgrad.is_read_once(problem, packed)),
        "shared_bytes": shared_bytes(problem, config),
    }
    of_all = packed.groups * CHANNELS
    rows = _map(
        problem,
        Pointer("a"),
        of_all,
        problem.rows.extent,
        problem.cols.extent,
        (problem.cols.a_stride, problem.rows.a_stride, problem.a_image),
        _rows_of_a(problem, config),
    )
    gradients = _map(
        problem,
        Pointer("c"),
        of_all,
        problem.row_count,
        problem.col_count,
        (problem.cols.c_stride, problem.rows.c_stride, problem.c_image),
        rows_of_c(problem, config),
    )
    return launch_reduction(
        "sm90_grouped_wgrad/kernel.cuh",
        "Sm90GroupedWgrad",
        problem,
        epilogue,
        asdict(packed),
        schedule,
        (rows, gradients),
        packed.groups,
        config.blocks[1],
        SUMS * ACCUMULATOR_BYTES,
    )


def _map(
    problem: DirectProblem,
    operand: Pointer,
    channels: int,
    rows: int,
    cols: int,
    strides: tuple[int, int, int],
    box_rows: int,
) -> TensorMap:
    """The map by which TMA brings a strip's rows of an operand."""
    return TensorMap(
        operand,
        problem.contraction.a.type,
        (channels, cols, rows, problem.images.value),
        map_strides(strides),
        (CHANNELS, pitch_of(problem), box_rows, 1),
        64,
    )
