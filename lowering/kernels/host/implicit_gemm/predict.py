"""What an implicit GEMM takes: cycles of its tiles, tables and copies, or its memory traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.lanes import Lanes
from convir.lowering.kernels.host.code.tiles import MAX_ROWS, choose, cycles_of
from convir.lowering.kernels.host.implicit_gemm.blocking import MIN_ITEMS, reads_in_place, shape_of
from convir.lowering.kernels.host.traffic import (
    COPY_CYCLES,
    copied_elements,
    elements,
    operand_bytes,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

ITEM_CYCLES = 80.0
"""Of an item of work, beside its tiles and the rows of its tables."""
ADDRESS_CYCLES = 1.0
"""Of a position and tap: its place in a row table."""
PACK_CYCLES = 0.5
"""Of an element of B that is moved to its panel, or one of C that comes out of a tile's columns."""


def predict(spec: Contraction, cpu: CpuTarget) -> float:
    """µs on one thread, the weights packed in each call."""
    lanes, shape = Lanes(spec.element, cpu), shape_of(spec)
    tile = choose(shape, lanes.count, cpu, MAX_ROWS)
    cycles = cycles_of(shape, tile, lanes.count)
    cycles += ITEM_CYCLES * MIN_ITEMS
    cycles += ADDRESS_CYCLES * spec.groups * sum(p.pixels * p.taps for p in spec.phases)
    _, b, c = elements(spec)
    if not reads_in_place(spec, lanes.count, lanes.bytes):
        cycles += PACK_CYCLES * b
    if spec.c.stride != 1:
        cycles += PACK_CYCLES * c
    cycles += COPY_CYCLES * copied_elements(spec)
    return cpu.launch + max(cycles / cpu.clock_mhz, cpu.traffic_us(operand_bytes(spec)))
