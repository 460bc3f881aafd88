"""`gemm` on the host: a product by the BLAS that NumPy links."""

from __future__ import annotations

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


def _read(body: KernelBody, cpu: CpuTarget) -> GemmCall | Refusal:
    del cpu
    for element_type in {
        getattr(each, "element_type", None) for each in body.function.function_type.inputs
    }:
        if not isinstance(element_type, Float32Type | Float64Type):
            return Refusal(f"the host's BLAS has no {element_type}")
    return match_gemm(body.function)


def predict(call: GemmCall, cpu: CpuTarget) -> float:
    """µs on one thread, for elements of f32."""
    layout = call.layout
    lanes = cpu.lanes(32)
    m, n = (1 if size == 1 else -(-size // lanes) * lanes for size in (layout.m, layout.n))
    products = layout.batch * m * n * layout.k
    a_cycle = cpu.multiply_adds * lanes * SHARE
    nbytes = 4 * layout.batch * (layout.m * (layout.k + layout.n) + layout.k * layout.n)
    calls = CALL_US + PRODUCT_US * (layout.batch - 1)
    return calls + max(products / a_cycle / cpu.clock_mhz, cpu.traffic_us(nbytes))


BLAS = Family(
    name=GEMM,
    sees=GemmCall,
    config=OnlyConfig,
    reads=_read,
    plan=lambda call, cpu: (CONFIG,),
    parse=CONFIG.parse,
    time=lambda call, config, cpu: predict(call, cpu),
    launches=lambda call, config, cpu: call,
)
