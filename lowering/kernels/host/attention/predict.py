"""What attention takes: its products, and the passes over its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.implicit_gemm.predict import predict as predict_product
from convir.lowering.kernels.host.reduction.predict import predict as predict_rows

if TYPE_CHECKING:
    from convir.lowering.kernels.host.attention.problem import Attention
    from convir.lowering.kernels.host.target import CpuTarget


def predict(problem: Attention, cpu: CpuTarget) -> float:
    """µs on one thread."""
    products = predict_product(problem.scores, cpu) + predict_product(problem.values, cpu)
    return products + predict_rows(problem.rows, cpu) - 2 * cpu.launch
