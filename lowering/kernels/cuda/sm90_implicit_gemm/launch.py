"""`wgmma`: contractions with dense 16-bit channels by Hopper's tensor cores and TMA.

Kernels are persistent and have warp roles; the store of a tile is the scatter, zero-filled outputs
included. They are in `kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import (
    CudaKernel,
    Im2colMap,
    KernelPlan,
    Pointer,
    TensorMap,
    gains_as_dependent,
)
from convir.lowering.kernels.cuda.result_planes import BOX_ROWS
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import (
    THREADS,
    Sm90ImplicitGemmConfig,
    refusal,
    shared_bytes,
    split_schedule,
    tile_count,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import (
    ALIGNMENT,
    Sm90ImplicitGemmProblem,
    channels_of_stage,
    sm90_problem,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.source import (
    SPLIT_SYMBOL,
    SPLIT_THREADS,
    SYMBOL,
    source_of,
    split_source,
)
from convir.lowering.kernels.cuda.tensor_maps import im2col_map, stride_bytes

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target


TF32_SPILL_BYTES = 8
"""One register, stored and loaded, around the loops of some tiles whose results are f32."""


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: Sm90ImplicitGemmConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = sm90_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    workspace: tuple[int, ...] = ()
    state: tuple[int, ...] = ()
    blocks = min(tile_count(problem, config), config.blocks)
    if config.splits > 1:
        schedule = split_schedule(problem, config)
        if isinstance(schedule, Refusal):
            return schedule
        blocks = schedule.units
        workspace = (schedule.workspace_bytes(config.block_m * config.block_n),)
        # Warpgroups of a block have counters of their own.
        state = (schedule.flag_bytes * config.sharing,)
    of_splits = [Pointer("workspace"), Pointer("state")] if config.splits > 1 else []
    maps = [_row_map(spec, problem, i, config) for i in range(len(problem.maps))]
    operands = [Pointer("epilogue", i) for i in range(len(epilogue.operands))]
    images = Sizes.of({"images": problem.images}).arguments
    filters: tuple[CudaKernel, ...] = ()
    elements: tuple[Pointer, ...] = ()
    if problem.is_split:
        count = _filter_elements(spec, problem)
        workspace = (2 * count * STORAGE_BYTES[spec.b.type],)
        filters = (_split_kernel(count),)
        elements = (Pointer("a"), Pointer("b"))
    kernel = CudaKernel(
        source_of(spec, epilogue, problem, config),
        SYMBOL,
        (blocks, 1, 1),
        (THREADS, 1, 1),
        shared_bytes(problem, config),
        (
            Pointer("c"),
            *operands,
            *images,
            *of_splits,
            *elements,
            *([_result_map(spec, problem, config)] if problem.planes.lines else []),
            _weight_map(spec, problem, config),
            *maps,
        ),
        is_cooperative=config.splits > 1,
        triggers_dependents=True,
        is_dependent=config.splits == 1
        and gains_as_dependent(blocks, target.multiprocessors, spec.flops),
        spill_bytes=TF32_SPILL_BYTES if spec.tf32 else 0,
    )
    return KernelPlan((*filters, kernel), workspace, state)


def _result_map(
    spec: Contraction, problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig
) -> TensorMap:
    """Boxes of C whose channels are planes: the rows of a warp, of as many as are staged."""
    (phase,) = problem.phases
    images = phase.sizes[-1]
    return TensorMap(
        Pointer("c"),
        spec.c.type,
        (phase.pixels // images, problem.out_channels, images),
        tuple(stride_bytes(n, spec.c.type) for n in (spec.c.stride, phase.strides[-1])),
        (BOX_ROWS, config.store_channels, 1),
        swizzle=32,
        offset=phase.offset * STORAGE_BYTES[spec.c.type],
    )


def _filter_elements(spec: Contraction, problem: Sm90ImplicitGemmProblem) -> int:
    """Elements of B from the first to the last, as many as begin a half at a multiple of what TMA
    copies."""
    last = (spec.out_channels - 1) * spec.b.out_channel_stride
    last += (problem.matrices - 1) * problem.tap_stride + spec.in_channels
    return -(-last // ALIGNMENT) * ALIGNMENT


def _split_kernel(count: int) -> CudaKernel:
    """The launch that splits B into two halves of a workspace."""
    return CudaKernel(
        split_source(count),
        SPLIT_SYMBOL,
        (-(-count // SPLIT_THREADS), 1, 1),
        (SPLIT_THREADS, 1, 1),
        0,
        (Pointer("b"), Pointer("workspace")),
    )


def _row_map(
    spec: Contraction, problem: Sm90ImplicitGemmProblem, index: int, config: Sm90ImplicitGemmConfig
) -> TensorMap | Im2colMap:
    rows, a = problem.maps[index], spec.a
    in_channels_ = channels_of_stage(a.type)
    if not rows.slides:
        sizes, box = (spec.in_channels, rows.rows), (in_channels_, config.block_m)
        strides = (stride_bytes(rows.row_stride, a.type),)
        return TensorMap(Pointer("a"), a.type, sizes, strides, box, 128, is_tf32=spec.tf32)
    found = im2col_map(Pointer("a"), a.type, spec.in_channels, rows, in_channels_, config.block_m)
    return replace(found, is_tf32=spec.tf32)


def _weight_map(
    spec: Contraction, problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig
) -> TensorMap:
    b = spec.b
    in_channels_ = channels_of_stage(b.type)
    tap_bytes = stride_bytes(problem.tap_stride, b.type)
    if problem.is_split:
        half = _filter_elements(spec, problem) * STORAGE_BYTES[b.type]
        sizes = (spec.in_channels, problem.matrices, problem.out_channels, 2)
        strides = (tap_bytes, stride_bytes(b.out_channel_stride, b.type), half)
        box = (in_channels_, 1, config.block_n, 1)
        return TensorMap(Pointer("workspace"), b.type, sizes, strides, box, 128)
    if problem.filter_by_in_channel:
        sizes = (spec.in_channels, problem.matrices, problem.out_channels)
        strides = (tap_bytes, stride_bytes(b.out_channel_stride, b.type))
        box = (in_channels_, 1, config.block_n)
    else:
        sizes = (problem.out_channels, problem.matrices, spec.in_channels)
        strides = (tap_bytes, stride_bytes(b.in_channel_stride, b.type))
        box = (in_channels_, 1, in_channels_)
    return TensorMap(Pointer("b"), b.type, sizes, strides, box, 128, is_tf32=spec.tf32)
