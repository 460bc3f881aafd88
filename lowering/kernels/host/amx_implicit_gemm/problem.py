"""Which contractions tile registers compute, and how long a row of theirs is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

MAX_ROW_BYTES = 8192
"""Of a row that is copied tap by tap, because its channels are no whole row of a register: so many
bytes of each of 32 rows wait in the second-level cache."""


def refusal(spec: Contraction, cpu: CpuTarget) -> Refusal | None:
    """Why tile registers do not compute C of `spec`; None if they do."""
    if not cpu.tiles:
        return Refusal(f"{cpu.name} has no tile registers")
    types = {spec.a.type, spec.b.type}
    if spec.result != "C" or types not in ({"bf16"}, {"i8"}):
        return Refusal("tile registers multiply bf16 and bytes")
    if spec.groups > 1 and spec.in_channels == spec.out_channels == 1:
        return Refusal("depthwise convolutions have one product a row and register")
    row = max(phase.taps for phase in spec.phases) * spec.in_channels * STORAGE_BYTES[spec.a.type]
    if spec.in_channels * STORAGE_BYTES[spec.a.type] % 64 and row > MAX_ROW_BYTES:
        return Refusal(f"rows of {row} bytes that are no whole rows of registers are too long")
    return None
