"""What a gradient of weights on tile registers takes: its cycles, or its memory traffic."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_wgrad.blocking import cut_weights
from convir.lowering.kernels.host.amx_wgrad.groups import groups_together
from convir.lowering.kernels.host.amx_wgrad.launch import joined_taps, refusal
from convir.lowering.kernels.host.code.groups_together import with_groups_together
from convir.lowering.kernels.host.traffic import COPY_CYCLES, copied_elements, operand_bytes

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget


def predict(spec: Contraction, cpu: CpuTarget) -> float:
    """µs on one thread; infinite where tile registers do not compute it."""
    if refusal(spec, cpu) is not None:
        return inf
    try:
        joined = joined_taps(spec)
        given = spec if joined is None else joined.spec
        read = with_groups_together(given, groups_together(given))
        cycles = cut_weights(read).cycles * read.groups
    except ValueError:  # It is not legal: the launch says why.
        return inf
    copied = 0 if joined is None else joined.copied
    cycles += COPY_CYCLES * (copied_elements(spec, "bf16") + copied)
    return 2 * cpu.launch + max(cycles / cpu.clock_mhz, cpu.traffic_us(operand_bytes(spec)))
