"""A kernel as loop nests on a GPU: one launch per nest, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.launch import CudaKernel, KernelPlan, Pointer, Scalar
from convir.lowering.loops.cuda.nests import lower_for_gpu
from convir.lowering.loops.cuda.print_loops import LOOP_THREADS, print_kernel, symbol_of
from convir.lowering.loops.cuda.teams import THREADS
from convir.lowering.loops.nests import range_size

if TYPE_CHECKING:
    from collections.abc import Collection

    from convir.dialects.kernel import ops as kernel
    from convir.lowering.loops.cuda.nests import Nest

MAX_BLOCKS = 1 << 13
"""A grid of so many blocks fills any GPU many times over; teams with more to do stride over it."""


def plan_loops(
    callee: kernel.FuncOp,
    *,
    restrict: bool,
    aligned: bool = True,
    reused: Collection[int] = (),
) -> KernelPlan:
    """The launches that compute `callee` as loops; nests that write nothing have none.

    Args:
        callee: the kernel.
        restrict: whether no two of its buffers overlap.
        aligned: whether every buffer begins at a multiple of 16 bytes.
        reused: the arguments whose memory is that of a result.

    Raises:
        PassFailedException: the body has no loops, or the loops no CUDA code.
    """
    inputs = [Pointer("input", i) for i in range(len(callee.function_type.inputs))]
    outputs = [Pointer("output", i) for i in range(len(callee.function_type.outputs))]
    parts = Pointer("workspace", 0)
    lowered = lower_for_gpu(callee, aligned=aligned, reused=reused)
    nests = [nest for nest in lowered if range_size(nest.loops)]
    # One buffer for all: the launches follow one another.
    sizes = [nest.parts_bytes for nest in nests if nest.parts_bytes]
    return KernelPlan(
        tuple(
            CudaKernel(
                source=_source(nest, symbol, restrict=restrict),
                symbol=symbol,
                grid=(_blocks(nest), 1, 1),
                block=(LOOP_THREADS if nest.team is None else THREADS, 1, 1),
                arguments=(
                    *inputs,
                    *outputs,
                    *([parts] if nest.parts_bytes else []),
                    Scalar(range_size(nest.loops)),
                ),
            )
            for nest, symbol in ((nest, symbol_of(nest.loops)) for nest in nests)
        ),
        workspace=(max(sizes),) if sizes else (),
    )


def _source(nest: Nest, symbol: str, *, restrict: bool) -> str:
    text = print_kernel(nest.loops, symbol, restrict=restrict, team=nest.team)
    return f"// {nest.note}\n{text}"


def _blocks(nest: Nest) -> int:
    if nest.team is None:
        return -(-range_size(nest.loops) // LOOP_THREADS)
    return min(-(-range_size(nest.loops) // nest.team.teams), MAX_BLOCKS)
