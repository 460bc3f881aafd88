"""`wgmma`: contractions with dense 16-bit channels by Hopper's tensor cores and TMA.

Kernels are persistent and have warp roles; the store of a tile is the scatter, holes included.
They are in `kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.launch import (
    CudaKernel,
    Im2colMap,
    KernelPlan,
    Pointer,
    TensorMap,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import (
    THREADS,
    WgmmaConfig,
    depths_of_stage,
    refusal,
    shared_bytes,
)
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import WgmmaProblem, wgmma_problem
from convir.lowering.kernels.cuda.sm90_implicit_gemm.source import SYMBOL, source_of
from convir.lowering.kernels.cuda.tensor_maps import im2col_map, stride_bytes
from convir.lowering.kernels.target import DEFAULT_TARGET, Target

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue


TF32_SPILL_BYTES = 8
"""One register, stored and loaded, around the loops of some tiles whose results are f32."""


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: WgmmaConfig,
    target: Target = DEFAULT_TARGET,
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = wgmma_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    rows = sum(-(-phase.positions // config.block_m) for phase in problem.phases)
    tiles = rows * -(-problem.columns // config.block_n)
    maps = [_row_map(spec, problem, i, config) for i in range(len(problem.maps))]
    operands = [Pointer("epilogue", i) for i in range(len(epilogue.operands))]
    kernel = CudaKernel(
        source_of(spec, epilogue, problem, config),
        SYMBOL,
        (min(tiles, config.blocks), 1, 1),
        (THREADS, 1, 1),
        shared_bytes(problem, config),
        (Pointer("c"), *operands, _weight_map(spec, problem, config), *maps),
        spill_bytes=TF32_SPILL_BYTES if spec.tf32 else 0,
    )
    return KernelPlan((kernel,))


def _row_map(
    spec: Contraction, problem: WgmmaProblem, index: int, config: WgmmaConfig
) -> TensorMap | Im2colMap:
    rows, a = problem.maps[index], spec.a
    depths = depths_of_stage(a.type)
    if not rows.slides:
        sizes, box = (spec.depth, rows.rows), (depths, config.block_m)
        strides = (stride_bytes(rows.row_stride, a.type),)
        return TensorMap(Pointer("a"), a.type, sizes, strides, box, 128, is_tf32=spec.tf32)
    return im2col_map(Pointer("a"), a.type, spec.depth, rows, depths, config.block_m)


def _weight_map(spec: Contraction, problem: WgmmaProblem, config: WgmmaConfig) -> TensorMap:
    b = spec.b
    depths = depths_of_stage(b.type)
    tap_bytes = stride_bytes(problem.tap_stride, b.type)
    if problem.weights_by_depth:
        sizes = (spec.depth, problem.matrices, problem.columns)
        strides = (tap_bytes, stride_bytes(b.column_stride, b.type))
        box = (depths, 1, config.block_n)
    else:
        sizes = (problem.columns, problem.matrices, spec.depth)
        strides = (tap_bytes, stride_bytes(b.depth_stride, b.type))
        box = (depths, 1, depths)
    return TensorMap(Pointer("b"), b.type, sizes, strides, box, 128, is_tf32=spec.tf32)
