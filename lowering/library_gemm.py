"""Which kernels are worth a call of the device's BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.library.gemm_call import match_gemm

if TYPE_CHECKING:
    from convir.dialects import kernel

GEMM_MIN_FLOPS = 1 << 15
"""Below this a library call costs more than the loops do: its set-up is some 10 µs."""


def gemm_refusal(function: kernel.FuncOp) -> Refusal | None:
    """Why a kernel is no call of a library's GEMM; None if it is."""
    call = match_gemm(function)
    if isinstance(call, Refusal):
        return call
    layout = call.layout
    flops = 2 * layout.batch * layout.m * layout.n * layout.k
    if flops < GEMM_MIN_FLOPS:
        return Refusal(f"{flops} FLOPs do not pay for a library call")
    return None
