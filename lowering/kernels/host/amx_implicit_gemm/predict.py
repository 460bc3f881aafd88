"""What an implicit GEMM on tile registers takes: its steps, copies and stores, or its traffic."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_implicit_gemm import problem
from convir.lowering.kernels.host.amx_implicit_gemm.blocking import (
    TILE_COLUMNS,
    TILE_ROWS,
    block_tiles,
    steps_of,
)
from convir.lowering.kernels.host.amx_implicit_gemm.groups import groups_together
from convir.lowering.kernels.host.code.groups_together import with_groups_together
from convir.lowering.kernels.host.code.tile_registers import COLUMNS
from convir.lowering.kernels.host.traffic import COPY_CYCLES, elements, operand_bytes

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

STEP_CYCLES = 90.0
"""Of a step of a tile of two by two registers, loads from the second-level cache included: four
products of 16 cycles, if nothing waits."""
NARROW_STEP_CYCLES = 50.0
"""The same of a tile of one register of columns."""
LINE_CYCLES = 1.5
"""Of a line of a row that is copied for the registers."""
STORE_CYCLES = 6.0
"""Of 16 sums on their way to C."""
ITEM_CYCLES = 400.0
"""Of an item of work, beside its tiles and the rows of its tables."""
ADDRESS_CYCLES = 1.0
"""Of a position and tap: its place in a row table."""
PACK_CYCLES = 0.5
"""Of an element of B that is moved to its panel."""


def predict(spec: Contraction, cpu: CpuTarget, *, constant_weights: bool = False) -> float:
    """µs on one thread; infinite where tile registers do not compute it.

    Args:
        spec: the contraction.
        cpu: the processor.
        constant_weights: whether weights are packed once for all calls.
    """
    if problem.refusal(spec, cpu) is not None:
        return inf
    given, spec = spec, with_groups_together(spec, groups_together(spec))
    try:
        cuts = block_tiles(spec, spec.in_channels)
    except ValueError:  # It is not legal: the launch says why.
        return inf
    narrow = cuts.last_out_channels <= COLUMNS
    panel = (cuts.panels - narrow) * STEP_CYCLES + narrow * NARROW_STEP_CYCLES
    cycles = ITEM_CYCLES * cuts.items_per_group
    for phase, bounds, steps in zip(spec.phases, cuts.bounds, steps_of(spec), strict=True):
        tiles = sum(-(-(end - begin) // TILE_ROWS) for begin, end in pairwise(bounds))
        cycles += tiles * steps * (panel + cuts.column_parts * TILE_ROWS * LINE_CYCLES)
        cycles += phase.pixels * phase.taps * ADDRESS_CYCLES * cuts.column_parts
        cycles += phase.pixels * cuts.panels * TILE_COLUMNS / COLUMNS * STORE_CYCLES
    cycles *= cuts.groups
    launches = 1
    a, b, _ = elements(given)
    if not constant_weights:
        launches += 1
        cycles += PACK_CYCLES * b
    if spec.a.stride != 1:
        launches += 1
        cycles += COPY_CYCLES * a
    traffic = cpu.traffic_us(operand_bytes(given))
    return launches * cpu.launch + max(cycles / cpu.clock_mhz, traffic)
