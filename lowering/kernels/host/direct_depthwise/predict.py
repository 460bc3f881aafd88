"""What a depthwise convolution on planes takes: its taps, lines that are copied, its traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.traffic import elements, operand_bytes

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

TAP_CYCLES = 0.6
"""Of a vector and tap: a multiply-add, beside loads that several rows share."""
COPY_CYCLES = {1: 1.0, 2: 4.0}
"""Of a vector of A that is copied to scratch memory, for each plane of results, by the step along
the row: at step 2 even and odd columns are picked apart."""
ROW_CYCLES = 10.0
"""Of a row of results, and of a line that is copied, beside its vectors."""


def predict(spec: Contraction, cpu: CpuTarget) -> float:
    """µs on one thread."""
    (phase,) = spec.phases
    lanes = Lanes(spec.element, cpu).count
    row = phase.axes[-1].size
    rows = phase.pixels * spec.groups * spec.out_channels // max(1, row)
    a, _, _ = elements(spec)
    line = phase.axes[-1].extent
    lines = a * spec.out_channels // max(1, line)
    cycles = rows * (-(-row // lanes) * phase.taps * TAP_CYCLES + ROW_CYCLES)
    cycles += lines * (-(-line // lanes) * COPY_CYCLES[phase.axes[-1].step] + ROW_CYCLES)
    return cpu.launch + max(cycles / cpu.clock_mhz, cpu.traffic_us(operand_bytes(spec)))
