"""`sm90_wgrad`: gradients of dense 16-bit weights by Hopper's tensor cores and TMA.

Both operands are read as they lie: those whose channels are innermost by wgmma's MN-major mode,
those whose pixels are by its K-major one. The kernel is in `mainloop.cuh`; see `README.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import (
    POINTER_ALIGNMENT,
    CudaKernel,
    Im2colMap,
    KernelPlan,
    Pointer,
    TensorMap,
)
from convir.lowering.kernels.cuda.sm90_wgrad.config import (
    CHUNK,
    Sm90WgradConfig,
    refusal,
    schedule_of,
)
from convir.lowering.kernels.cuda.sm90_wgrad.planes import LINE_BYTES
from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem, wgrad_problem
from convir.lowering.kernels.cuda.sm90_wgrad.source import SYMBOL, source_of
from convir.lowering.kernels.cuda.tensor_maps import im2col_map, promotion_of
from convir.lowering.kernels.cuda.tile_schedule.partition import DATA_PARALLEL, SPLIT_K

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Channels, Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule
    from convir.lowering.kernels.target import Target


FEW_TILES = 4
"""Tiles whose units are taken to read a position together."""


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: Sm90WgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = wgrad_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    schedule = schedule_of(problem, config)
    is_clustered = config.cluster > 1
    reads_once = _reads_once(problem, schedule)
    source, scalars = source_of(
        spec,
        epilogue,
        problem,
        config,
        reads_once=reads_once,
        interleaves_splits=reads_once and config.partition.kind == SPLIT_K,
    )
    kernel = CudaKernel(
        source,
        SYMBOL,
        (blocks_of(schedule, config), 1, 1),
        (config.threads, 1, 1),
        config.shared_bytes,
        (
            Pointer("b"),
            Pointer("workspace"),
            Pointer("state"),
            *((Pointer("a"), Pointer("c")) if problem.is_split else ()),
            *scalars,
            _gradient_map(spec, problem, target),
            _row_map(spec, problem, target),
        ),
        is_cooperative=schedule.has_shares and not is_clustered,
    )
    # A cluster needs neither; a pointer points somewhere all the same.
    workspace = state = POINTER_ALIGNMENT
    if not is_clustered:
        # Warpgroups of a block have counters of their own.
        workspace = max(workspace, schedule.workspace_bytes(config.block_m * config.block_n))
        state = max(state, schedule.flag_bytes * config.consumer_warpgroups)
    return KernelPlan((kernel,), (workspace,), (state,))


def blocks_of(schedule: Schedule, config: Sm90WgradConfig) -> int:
    """Blocks of a launch: those that run at a time go round whole tiles."""
    is_whole = config.partition.kind == DATA_PARALLEL
    return min(schedule.units, schedule.concurrent) if is_whole else schedule.units


def _reads_once(problem: WgradProblem, schedule: Schedule) -> bool:
    """Whether rows of a plain matrix are read by few tiles, all of them at about the same time."""
    return (
        problem.is_matrix and schedule.tiles <= FEW_TILES and schedule.units <= schedule.concurrent
    )


def _gradient_map(spec: Contraction, problem: WgradProblem, target: Target) -> TensorMap:
    """64 channels of the output pixels of C that a step has."""
    channels = spec.groups * spec.out_channels
    if problem.planes is not None:
        promotion = promotion_of(_bytes_of(spec.c, channels * problem.pixels.value), target)
        return problem.planes.c.tensor_map(
            Pointer("c"), spec.c.type, CHUNK, promotion, is_tf32=problem.is_tf32
        )
    row_bytes = _bytes_of(spec.c, problem.row_stride)
    return TensorMap(
        Pointer("c"),
        spec.c.type,
        (channels, problem.pixels.value),
        (row_bytes,),
        (LINE_BYTES // problem.nbytes, problem.block_k),
        LINE_BYTES,
        _bytes_of(spec.c, problem.row_offset),
        is_tf32=problem.is_tf32,
        promotion=promotion_of(problem.pixels.value * row_bytes, target),
    )


def _row_map(spec: Contraction, problem: WgradProblem, target: Target) -> TensorMap | Im2colMap:
    """64 channels of the pixels of A that a step's output pixels have at a tap."""
    rows = problem.rows
    if problem.planes is not None and problem.planes.a is not None:
        promotion = promotion_of(_bytes_of(spec.a, rows.rows * rows.row_stride), target)
        return problem.planes.a.tensor_map(
            Pointer("a"), spec.a.type, CHUNK, promotion, is_tf32=problem.is_tf32
        )
    promotion = promotion_of(_bytes_of(spec.a, rows.rows * rows.row_stride), target)
    channels, copied = spec.groups * spec.in_channels, LINE_BYTES // problem.nbytes
    if not rows.slides:
        sizes, strides, box = (
            (channels, rows.rows),
            (_bytes_of(spec.a, rows.row_stride),),
            (copied, problem.block_k),
        )
        return TensorMap(
            Pointer("a"),
            spec.a.type,
            sizes,
            strides,
            box,
            LINE_BYTES,
            is_tf32=problem.is_tf32,
            promotion=promotion,
        )
    found = im2col_map(
        Pointer("a"), spec.a.type, channels, rows, copied, problem.block_k, promotion
    )
    return replace(found, is_tf32=problem.is_tf32)


def _bytes_of(channels: Channels, elements: int) -> int:
    return elements * STORAGE_BYTES[channels.type]
