"""What a fused chain takes: multiply-adds of full vectors, and rows that come and go once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.elements.lanes import Lanes

if TYPE_CHECKING:
    from convir.lowering.bodies.planar.read import PlanarKernel
    from convir.lowering.kernels.host.fused_chain.config import SumTile
    from convir.lowering.kernels.host.target import CpuTarget

LATENCY_CHAINS = 8
"""Independent multiply-adds that keep the arithmetic busy."""
ENTRY_CYCLES = 60.0
"""Of a stage, before its first row: addresses and loop bounds."""
STORE_CYCLES = 1.0
"""Of a vector that is stored, beside what its elementwise ops take."""


def predict(kernel: PlanarKernel, tile: SumTile, cpu: CpuTarget) -> float:
    """µs on one thread."""
    lanes, binding = Lanes("f32", cpu), kernel.binding
    vectors = -(-binding.frames // lanes.count)
    cycles = 0.0
    for stage in kernel.program.stages:
        busy = min(1.0, min(tile.sums, stage.channels * tile.vectors) / LATENCY_CHAINS)
        products = stage.multiply_adds * vectors / (cpu.multiply_adds * busy)
        cycles += ENTRY_CYCLES + products + STORE_CYCLES * stage.channels * vectors
    return cpu.launch + binding.images * cycles / cpu.clock_mhz
