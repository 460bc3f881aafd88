"""What a depthwise convolution of channels last takes: its taps in tiles of pixels, its traffic."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.depthwise_channels_last.blocking import cut_channels_last
from convir.lowering.kernels.host.implicit_gemm.predict import PACK_CYCLES
from convir.lowering.kernels.host.operand_stages import OperandStages
from convir.lowering.kernels.host.traffic import operand_bytes

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.target import CpuTarget

LINE_CYCLES = 4.0
"""Of a tile and a line of A that it reads, beside multiply-adds and loads."""
STORE_CYCLES = 3.0
"""Of a vector of results."""
ITEM_CYCLES = 15.0
"""Of a line of results, and of each of its taps along the other axes."""


def predict(spec: Contraction, cpu: CpuTarget, *, constant_weights: bool = False) -> float:
    """µs on one thread.

    Args:
        spec: the contraction.
        cpu: the processor.
        constant_weights: whether weights are packed once for all calls.
    """
    lanes = OperandStages(spec, cpu).lanes
    cuts = cut_channels_last(spec, lanes)
    if cuts is None:
        return inf
    (phase,) = spec.phases
    line = phase.axes[-1]
    taps = len(line.tap_rows)
    outer = prod(len(axis.tap_rows) for axis in phase.axes[:-1])
    vectors = cuts.panels.panel_out_channels // lanes.count
    loads = (cuts.span + taps) * vectors / 2
    of_line = max(cuts.pixels * taps * vectors / cpu.multiply_adds, loads) + LINE_CYCLES
    tile = outer * of_line + STORE_CYCLES * cuts.pixels * vectors
    tiles = -(-line.size // cuts.pixels) * cuts.panels.panels * cuts.lines
    cycles = tiles * tile + ITEM_CYCLES * cuts.lines * (1 + outer)
    launches = 1
    if not constant_weights:
        launches += 1
        cycles += PACK_CYCLES * spec.groups * phase.taps
    traffic = cpu.traffic_us(operand_bytes(spec))
    return launches * cpu.launch + max(cycles / cpu.clock_mhz, traffic)
