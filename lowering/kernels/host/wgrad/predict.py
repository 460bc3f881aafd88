"""What a gradient of weights takes: cycles of its tiles and copies, or its memory traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.traffic import COPY_CYCLES, copied_elements, operand_bytes
from convir.lowering.kernels.host.wgrad.blocking import copied_type, lanes_of, tile_cycles
from convir.lowering.kernels.host.wgrad.joined_taps import joined_taps

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget


def predict(spec: Contraction, cpu: CpuTarget) -> float:
    """µs on one thread."""
    joined = joined_taps(spec, cpu)
    copied = 0.0 if joined is None else joined.copied
    spec = spec if joined is None else joined.spec
    (phase,) = spec.phases
    lanes = lanes_of(spec, cpu)
    cycles = phase.pixels * phase.taps * tile_cycles(spec, lanes)
    cycles += COPY_CYCLES * (copied + copied_elements(spec, copied_type(spec, lanes)))
    return cpu.launch + max(cycles / cpu.clock_mhz, cpu.traffic_us(operand_bytes(spec)))
