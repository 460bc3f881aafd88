"""`sm90_halo_implicit_gemm`: contractions of several taps from halos in shared memory, on Hopper.

Where columns are few, an implicit GEMM waits for rows of A, which it loads again for every tap.
Here the pixels that a tile reads are loaded once, and a tap is a shift of an address. The kernel is
in `kernel.cuh`; see `README.md`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal, cast

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import (
    CudaKernel,
    KernelPlan,
    Pointer,
    TensorMap,
    gains_as_dependent,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import ELEMENT_BYTES, PATCH
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.layout import (
    BOX_LINES,
    block_columns,
    column_tiles,
    layout_of,
    phase_columns,
    planes_of,
    refusal,
    shared_bytes,
    tiles_of,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import halo_problem
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.source import SYMBOL, source_of
from convir.lowering.kernels.cuda.tensor_maps import stride_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import HaloProblem
    from convir.lowering.kernels.target import Target

_Swizzle = Literal[32, 64, 128]


def kernels(
    spec: Contraction, epilogue: Epilogue, config: HaloConfig, target: Target
) -> KernelPlan | Refusal:
    """The launch of `config`."""
    problem = halo_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    refused = refusal(problem, config, target)
    if refused is not None:
        return refused
    parts = column_tiles(problem, config)
    tiles = problem.images.value * prod(tiles_of(problem, config))
    blocks = min(tiles, config.blocks // parts) * parts
    kernel = CudaKernel(
        source_of(spec, epilogue, problem, config),
        SYMBOL,
        (blocks, 1, 1),
        (config.threads, 1, 1),
        shared_bytes(problem, config),
        (
            Pointer("c"),
            *(Pointer("epilogue", i) for i in range(len(epilogue.operands))),
            problem.images,
            *([_result_map(spec, problem, config)] if planes_of(problem, config).lines else []),
            _weight_map(spec, problem, config),
            *_halo_maps(spec, problem, config),
        ),
        triggers_dependents=True,
        is_dependent=gains_as_dependent(blocks, target.multiprocessors, spec.flops),
    )
    return KernelPlan((kernel,))


def _halo_maps(spec: Contraction, problem: HaloProblem, config: HaloConfig) -> Iterator[TensorMap]:
    """For each plane of A a chunk of the input channels of a box of pixels."""
    layout, row_strides = layout_of(problem, config), problem.row_strides
    boxes = {
        p.first: box.pixels
        for each in layout.slices
        for p, box in zip(each, layout.boxes, strict=True)
    }
    pitch = (*problem.pitch, 1)
    strides = [stride * i for stride, i in zip(row_strides, pitch, strict=True)]
    for plane in layout.planes:
        skipped = sum(i * stride for i, stride in zip(plane.first, row_strides, strict=False))
        yield TensorMap(
            Pointer("a"),
            spec.a.type,
            (problem.in_channels, *plane.extents, problem.images.value),
            tuple(stride_bytes(stride, spec.a.type) for stride in strides),
            (config.chunk, *boxes[plane.first], 1),
            swizzle=cast("_Swizzle", config.row_bytes),
            offset=skipped * ELEMENT_BYTES,
        )


def _result_map(spec: Contraction, problem: HaloProblem, config: HaloConfig) -> TensorMap:
    """Boxes of C whose channels are planes: the lines of a warp, of as many as are staged."""
    ((sizes, offset),) = problem.phases
    _, *outer = problem.strides
    return TensorMap(
        Pointer("c"),
        spec.c.type,
        (sizes[0], problem.out_channels, *sizes[1:]),
        tuple(stride_bytes(stride, spec.c.type) for stride in (problem.channel_stride, *outer)),
        (PATCH, config.store_channels, BOX_LINES, 1, 1),
        offset=offset * ELEMENT_BYTES,
    )


def _weight_map(spec: Contraction, problem: HaloProblem, config: HaloConfig) -> TensorMap:
    """A chunk of a matrix of B: all columns of a phase, or as many as are contiguous."""
    b = spec.b
    tap_bytes = stride_bytes(problem.tap_stride, b.type)
    if problem.filter_by_in_channel:
        sizes = (problem.in_channels, problem.matrices, problem.out_channels)
        strides = (tap_bytes, stride_bytes(b.out_channel_stride, b.type))
        box, row_bytes = (config.chunk, 1, phase_columns(problem, config)), config.row_bytes
    else:
        width = block_columns(problem, config)
        sizes = (problem.out_channels, problem.matrices, problem.in_channels)
        strides = (tap_bytes, stride_bytes(b.in_channel_stride, b.type))
        box, row_bytes = (width, 1, config.chunk), 2 * width
    swizzle = cast("_Swizzle", row_bytes)
    return TensorMap(Pointer("b"), b.type, sizes, strides, box, swizzle=swizzle)
