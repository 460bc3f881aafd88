"""Which kernels are worth a call of the device's BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_wgrad.config import FAMILY as WGMMA_WGRAD
from convir.lowering.kernels.library.gemm_call import match_gemm

if TYPE_CHECKING:
    from convir.dialects import kernel

GEMM_MIN_FLOPS = 1 << 15
"""Below this a library call costs more than the loops do: its set-up is some 10 µs."""
FEW_RESULTS, MANY_TERMS = 1 << 14, 1 << 14
"""A library divides the sums of so few results less well than a template that is made for it; see
`lowering/kernels/cuda/sm90_wgrad/README.md`."""
SMALL_PRODUCT = 1 << 28
"""Multiplications that are over before a library's kernel has begun and ended; see there too."""


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


def divides_sums(config: str) -> bool:
    """Whether a config's template divides sums for products that are `template_first`."""
    return config.startswith(f"{WGMMA_WGRAD} ")


def template_first(function: kernel.FuncOp) -> str | None:
    """Why a template that divides sums is preferred to a library for one product; None if not."""
    call = match_gemm(function)
    if isinstance(call, Refusal) or call.layout.batch > 1:
        return None
    layout = call.layout
    results, terms = layout.m * layout.n, layout.k
    if results <= FEW_RESULTS and terms >= MANY_TERMS:
        return "few results are sums of many terms"
    return "it has few multiplications" if results * terms <= SMALL_PRODUCT else None
