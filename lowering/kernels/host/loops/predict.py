"""What loops take: their operations one by one, and what is read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.cost import Cost, cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.ir import Operation

    from convir.lowering.kernels.host.target import CpuTarget

OPERATIONS = 1.5
"""In a cycle, of sums whose elements lie apart: each waits for its accumulator. Where results that
lie behind each other read elements that do, LLVM makes vectors, and they take less."""


def predict(ops: Iterable[Operation], cpu: CpuTarget) -> float:
    """µs on one thread of the ops of a kernel's body."""
    cost = sum(map(cost_of, ops), Cost())
    computed = cost.flops / OPERATIONS / cpu.clock_mhz
    return cpu.launch + max(computed, cpu.traffic_us(cost.bytes))
