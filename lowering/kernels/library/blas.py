"""`gemm` on the host: a product by the BLAS that NumPy links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import Float32Type, Float64Type

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import GEMM
from convir.lowering.kernels.host.family import Family, OnlyConfig
from convir.lowering.kernels.library.gemm_call import GemmCall, match_gemm

if TYPE_CHECKING:
    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget

CONFIG: Final = OnlyConfig(GEMM)

CALL_US = 5.0
"""Of the call, which is made in Python, and of leaving a chain of launches for it."""

PRODUCT_US = 0.2
"""Of each further matrix of a batch."""

SHARE = 0.5
"""Of the peak of multiply-adds that large products reach; tiles that are not filled take as long
as full ones, but for vectors."""


@dataclass(frozen=True)
class HostGemm:
    """A product and the type of its elements."""

    call: GemmCall
    element_bits: int


def _read(body: KernelBody, cpu: CpuTarget) -> HostGemm | Refusal:
    del cpu
    for element_type in {
        getattr(each, "element_type", None) for each in body.function.function_type.inputs
    }:
        if not isinstance(element_type, Float32Type | Float64Type):
            return Refusal(f"the host's BLAS has no {element_type}")
    call = match_gemm(body.function)
    if isinstance(call, Refusal):
        return call
    (result,) = body.function.function_type.outputs
    is_wide = isinstance(getattr(result, "element_type", None), Float64Type)
    return HostGemm(call, 64 if is_wide else 32)


def predict(product: HostGemm, cpu: CpuTarget) -> float:
    """µs on one thread."""
    layout, lanes = product.call.layout, cpu.lanes(product.element_bits)
    m, n = (1 if size == 1 else -(-size // lanes) * lanes for size in (layout.m, layout.n))
    products = layout.batch * m * n * layout.k
    a_cycle = cpu.multiply_adds * lanes * SHARE
    elements = layout.batch * (layout.m * (layout.k + layout.n) + layout.k * layout.n)
    traffic = cpu.traffic_us(elements * product.element_bits / 8)
    calls = CALL_US + PRODUCT_US * (layout.batch - 1)
    return calls + max(products / a_cycle / cpu.clock_mhz, traffic)


BLAS = Family(
    name=GEMM,
    sees=HostGemm,
    config=OnlyConfig,
    reads=_read,
    plan=lambda product, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda product, config, cpu: predict(product, cpu),
    launches=lambda product, config, cpu: product.call,
    is_total=True,
)
