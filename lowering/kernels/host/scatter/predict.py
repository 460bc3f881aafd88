"""What a scatter takes: the source is read and the result written, once each."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.kernels.host.scatter.problem import Scatter
    from convir.lowering.kernels.host.target import CpuTarget


def predict(scatter: Scatter, cpu: CpuTarget) -> float:
    """µs on one thread."""
    elements = prod(scatter.source) + prod(scatter.result)
    return cpu.launch + cpu.traffic_us(elements * scatter.element_bytes)
