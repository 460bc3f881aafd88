"""What an implicit GEMM takes: cycles of its tiles, tables and copies, or its memory traffic."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.tiles import cycles_of
from convir.lowering.kernels.host.implicit_gemm.blocking import block, shape_of
from convir.lowering.kernels.host.implicit_gemm.joined_taps import JoinedTaps, takes_joined_taps
from convir.lowering.kernels.host.operand_stages import OperandStages
from convir.lowering.kernels.host.traffic import (
    COPY_CYCLES,
    elements,
    operand_bytes,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking
    from convir.lowering.kernels.host.target import CpuTarget

ITEM_CYCLES = 80.0
"""Of an item of work, beside its tiles and the rows of its tables."""
ADDRESS_CYCLES = 1.0
"""Of a position and tap: its place in a row table."""
JOIN_CYCLES = 1.0
"""Of a position and tap that is copied behind the tap before."""
PACK_CYCLES = 0.5
"""Of an element of B that is moved to its panel, or one of C that comes out of a tile's columns."""


def predict(spec: Contraction, cpu: CpuTarget, *, constant_weights: bool = False) -> float:
    """µs on one thread.

    Args:
        spec: the contraction.
        cpu: the processor.
        constant_weights: whether weights are packed once for all calls.
    """
    try:
        read, lanes, cuts, is_copied = _read(spec, cpu)
    except ValueError:  # It is not legal: the launch says why.
        return inf
    cycles = cycles_of(shape_of(read), cuts.tile, lanes.count)
    cycles += ITEM_CYCLES * cuts.items_per_group * cuts.groups
    cycles += ADDRESS_CYCLES * cuts.groups * sum(p.pixels * p.taps for p in spec.phases)
    if read.taps != spec.taps:
        cycles += JOIN_CYCLES * sum(p.pixels * p.taps for p in spec.phases)
    launches = 1
    a, b, c = elements(spec)
    if not cuts.in_place and not constant_weights:
        launches += 1
        cycles += PACK_CYCLES * b
    if spec.c.stride != 1:
        cycles += PACK_CYCLES * c
    if is_copied:
        launches += 1
        cycles += COPY_CYCLES * a
    traffic = cpu.traffic_us(operand_bytes(spec))
    return launches * cpu.launch + max(cycles / cpu.clock_mhz, traffic)


def _read(spec: Contraction, cpu: CpuTarget) -> tuple[Contraction, Lanes, Blocking, bool]:
    """The contraction that tiles compute, on which lanes, by which cuts, and whether A is copied.

    Raises:
        ValueError: it is not legal.
    """
    if takes_joined_taps(spec, cpu):
        stages = OperandStages(spec, cpu, copied_as="bf16", joins=False)
        is_copied = stages.readable_rows() != "a"
        joined = JoinedTaps.of(stages.spec, cpu)
        if joined is not None:
            return joined.spec, joined.lanes, joined.cuts, is_copied
    stages = OperandStages(spec, cpu)
    is_copied = stages.readable_rows() != "a"
    return stages.spec, stages.lanes, block(stages.spec, stages.lanes), is_copied
