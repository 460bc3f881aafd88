"""`sm90_fused_dgrad`: phases of a backward data convolution as columns of one product, on Hopper.

Where columns are few, loading rows of A takes longer than multiplying them. Phases read the same
rows, each with its own taps: here a tile of rows is loaded once for all of them, and all of B stays
in shared memory. The kernel is in `kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.epilogue_operands import linear_operands
from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, TensorMap
from convir.lowering.kernels.cuda.sizes import Sizes
from convir.lowering.kernels.cuda.sm90_fused_dgrad.config import (
    CONSUMERS,
    ROWS,
    STORE_CHANNELS,
    THREADS,
    FusedDgradConfig,
)
from convir.lowering.kernels.cuda.sm90_fused_dgrad.problem import (
    ROW_BYTES,
    FusedDgradProblem,
    problem_of,
)
from convir.lowering.kernels.cuda.sm90_fused_dgrad.source import SYMBOL, source_of
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import BLOCK_K
from convir.lowering.kernels.cuda.tensor_maps import im2col_map, stride_bytes

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

STAGES = (8, 7, 6, 5, 4, 3)

_ATOM_BYTES, _CHUNK_BYTES, _BARRIER_BYTES = 1024, 16, 8


def shared_bytes(problem: FusedDgradProblem, config: FusedDgradConfig) -> int:
    """Dynamic shared memory of a block."""
    staged = CONSUMERS * ROWS * (config.store_channels * 2 + _CHUNK_BYTES)
    stages = CONSUMERS * config.stages * ROWS * ROW_BYTES
    barriers = (2 * CONSUMERS * config.stages + 1) * _BARRIER_BYTES
    return _ATOM_BYTES + stages + problem.weight_bytes + staged + barriers


def refusal(problem: FusedDgradProblem, config: FusedDgradConfig, target: Target) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    if problem.run * problem.out_channels % config.store_channels:
        return Refusal("staged output channels belong to different output pixels")
    return target.shared_refusal(shared_bytes(problem, config))


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[FusedDgradConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, the most stages first."""
    problem = fused_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    configs = [
        FusedDgradConfig(stages, store, gpu.multiprocessors)
        for store in STORE_CHANNELS
        for stages in STAGES
    ]
    legal = [c for c in configs if refusal(problem, c, gpu) is None]
    if not legal:
        return Refusal(f"its weights leave no stages in {gpu.shared_bytes} bytes of shared memory")
    return tuple(legal)


def kernels(
    spec: Contraction,
    epilogue: Epilogue,
    config: FusedDgradConfig,
    target: Target,
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = fused_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    shared = shared_bytes(problem, config)
    tiles = -(-problem.pixels // ROWS)
    kernel = CudaKernel(
        source_of(spec, epilogue, problem, config, shared),
        SYMBOL,
        (min(-(-tiles // CONSUMERS), config.blocks), 1, 1),
        (THREADS, 1, 1),
        shared,
        (
            Pointer("c"),
            *(Pointer("epilogue", i) for i in range(len(epilogue.operands))),
            *Sizes.of({"images": problem.images}).arguments,
            _weight_map(spec, problem),
            im2col_map(Pointer("a"), spec.a.type, spec.in_channels, problem.rows, BLOCK_K, ROWS),
        ),
    )
    return KernelPlan((kernel,))


def fused_problem(spec: Contraction, epilogue: Epilogue) -> FusedDgradProblem | Refusal:
    """What the family sees of a contraction and its epilogue, or why it does not take them."""
    operands = linear_operands(spec, epilogue)
    if isinstance(operands, Refusal):
        return operands
    problem = problem_of(spec)
    return problem if isinstance(problem, Refusal) else replace(problem, operands=operands)


def _weight_map(spec: Contraction, problem: FusedDgradProblem) -> TensorMap:
    """`BLOCK_K` input channels of a matrix of B: all its columns, or a block of them."""
    b = spec.b
    tap_bytes = stride_bytes(problem.tap_stride, b.type)
    if problem.filter_by_in_channel:
        sizes = (spec.in_channels, problem.matrix_count, problem.out_channels)
        strides = (tap_bytes, stride_bytes(b.out_channel_stride, b.type))
        return TensorMap(
            Pointer("b"), b.type, sizes, strides, (BLOCK_K, 1, problem.out_channels), swizzle=128
        )
    sizes = (problem.out_channels, problem.matrix_count, spec.in_channels)
    strides = (tap_bytes, stride_bytes(b.in_channel_stride, b.type))
    if problem.out_channels % 64 == 0:
        return TensorMap(Pointer("b"), b.type, sizes, strides, (64, 1, BLOCK_K), swizzle=128)
    return TensorMap(Pointer("b"), b.type, sizes, strides, (32, 1, BLOCK_K), swizzle=64)
