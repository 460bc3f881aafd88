"""A kernel as loop nests on a GPU: one launch per nest, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.cuda.kernel_plan import CudaKernel, KernelPlan, Pointer
from convir.lowering.cuda.nests import lower_for_gpu
from convir.lowering.cuda.print_loops import print_kernel, symbol_of
from convir.lowering.loops.nests import range_size

if TYPE_CHECKING:
    from convir.dialects import kernel

THREADS = 256
"""Threads of a block of a generated kernel: enough warps to hide loads, few enough registers."""
MAX_BLOCKS = 1 << 13
"""A grid of so many blocks fills any GPU many times over; more iterations are strided."""


def plan_loops(callee: kernel.FuncOp, *, restrict: bool, aligned: bool = True) -> KernelPlan:
    """The launches that compute `callee` as loops; nests that write nothing have none.

    Args:
        callee: the kernel.
        restrict: whether no two of its buffers overlap.
        aligned: whether every buffer begins at a multiple of 16 bytes.

    Raises:
        PassFailedException: the body has no loops, or the loops no CUDA code.
    """
    inputs = [Pointer("input", i) for i in range(len(callee.function_type.inputs))]
    outputs = [Pointer("output", i) for i in range(len(callee.function_type.outputs))]
    nests = [nest for nest in lower_for_gpu(callee, aligned=aligned) if range_size(nest.loops)]
    return KernelPlan(
        tuple(
            CudaKernel(
                source=f"// {nest.note}\n{print_kernel(nest.loops, restrict=restrict)}",
                symbol=symbol_of(nest.loops),
                grid=(min(-(-range_size(nest.loops) // THREADS), MAX_BLOCKS), 1, 1),
                block=(THREADS, 1, 1),
                arguments=(*inputs, *outputs),
            )
            for nest in nests
        )
    )
