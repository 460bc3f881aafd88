"""Phases of a contraction that are columns of one product."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase

PIECE_CHANNELS = 32
"""Phases are joined if their columns are a multiple of this, which tiles are divided by."""


def in_pieces(contraction: Contraction) -> tuple[Contraction, tuple[int, ...]]:
    """Phases that differ in their weights alone as columns of one product, and their pieces.

    So a transposed convolution without overlap is one GEMM whose store shuffles pixels.
    """
    out_channels, step = contraction.out_channels, contraction.b.out_channel_stride
    phases = sorted(contraction.phases, key=_first_weight)
    first = phases[0]
    same = all(_without_weights(phase) == _without_weights(first) for phase in phases)
    weights = [_first_weight(phase) - _first_weight(first) for phase in phases]
    in_order = weights == [i * out_channels * step for i in range(len(phases))]
    if not same or first.taps != 1 or not in_order or out_channels % PIECE_CHANNELS:
        return contraction, (0,)
    pieces = tuple(phase.out_offset - first.out_offset for phase in phases)
    return replace(contraction, phases=(first,), out_channels=out_channels * len(phases)), pieces


def _first_weight(phase: Phase) -> int:
    return sum(axis.tap_weights[0] for axis in phase.axes if axis.tap_weights)


def _without_weights(phase: Phase) -> list[Axis]:
    return [replace(axis, tap_weights=axis.tap_rows) for axis in phase.axes]
