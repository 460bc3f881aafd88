"""`wgmma`: contractions with dense 16-bit channels by Hopper's tensor cores and TMA.

Kernels are persistent and have warp roles; the store of a tile is the scatter, zero-filled outputs
included. They are in `kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import (
    CudaKernel,
    Im2colMap,
    KernelPlan,
    Pointer,
    TensorMap,
)
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
    Sm90ImplicitGemmProblem,
    channels_of_stage,
    sm90_problem,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.source import SYMBOL, source_of
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
    of_splits = [Pointer("workspace"), Pointer("state")] if workspace else []
    maps = [_row_map(spec, problem, i, config) for i in range(len(problem.maps))]
    operands = [Pointer("epilogue", i) for i in range(len(epilogue.operands))]
    images = Sizes.of({"images": problem.images}).arguments
    kernel = CudaKernel(
        source_of(spec, epilogue, problem, config),
        SYMBOL,
        (blocks, 1, 1),
        (THREADS, 1, 1),
        shared_bytes(problem, config),
        (Pointer("c"), *operands, *images, *of_splits, _weight_map(spec, problem, config), *maps),
        is_cooperative=config.splits > 1,
        spill_bytes=TF32_SPILL_BYTES if spec.tf32 else 0,
    )
    return KernelPlan((kernel,), workspace, state)


def _row_map(
    spec: Contraction, problem: Sm90ImplicitGemmProblem, index: int, config: Sm90ImplicitGemmConfig
) -> TensorMap | Im2colMap:
    rows, a = problem.maps[index], spec.a
    in_channels_ = channels_of_stage(a.type)
    if not rows.slides:
        sizes, box = (spec.in_channels, rows.rows), (in_channels_, config.block_m)
        strides = (stride_bytes(rows.row_stride, a.type),)
        return TensorMap(Pointer("a"), a.type, sizes, strides, box, 128, is_tf32=spec.tf32)
    return im2col_map(Pointer("a"), a.type, spec.in_channels, rows, in_channels_, config.block_m)


def _weight_map(
    spec: Contraction, problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig
) -> TensorMap:
    b = spec.b
    in_channels_ = channels_of_stage(b.type)
    tap_bytes = stride_bytes(problem.tap_stride, b.type)
    if problem.filter_by_in_channel:
        sizes = (spec.in_channels, problem.matrices, problem.out_channels)
        strides = (tap_bytes, stride_bytes(b.out_channel_stride, b.type))
        box = (in_channels_, 1, config.block_n)
    else:
        sizes = (problem.out_channels, problem.matrices, spec.in_channels)
        strides = (tap_bytes, stride_bytes(b.in_channel_stride, b.type))
        box = (in_channels_, 1, in_channels_)
    return TensorMap(Pointer("b"), b.type, sizes, strides, box, 128, is_tf32=spec.tf32)
