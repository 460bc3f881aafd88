"""What loops take: their operations one by one, and what is read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.cost import Cost, cost_of

if TYPE_CHECKING:
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.host.target import CpuTarget

OPERATIONS = 2.0
"""In a cycle: LLVM makes vectors of some loops, and waits for the accumulators of others."""


def predict(function: kernel.FuncOp, cpu: CpuTarget) -> float:
    """µs on one thread."""
    cost = sum((cost_of(op) for op in function.body.block.ops), Cost())
    computed = cost.flops / OPERATIONS / cpu.clock_mhz
    return cpu.launch + max(computed, cpu.traffic_us(cost.bytes))
