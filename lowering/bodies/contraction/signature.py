"""Contractions as canonical text: equal texts, equal work; the key of tuning records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase


def signature_of(spec: Contraction, epilogue: str) -> str:
    """Sizes, types, layouts, strides and taps of `spec`, and what follows it.

    Args:
        spec: what is computed.
        epilogue: canonical text of what is applied to the accumulators.
    """
    a, b, c = spec.a, spec.b, spec.c
    adds = "+" if spec.accumulate else ""
    return " ".join(
        [
            f"{spec.result}{adds}={spec.element}",
            f"{spec.groups}x{spec.in_channels}x{spec.out_channels}",
            f"a={a.type}:{a.stride},{a.group_stride}",
            f"b={b.type}:{b.in_channel_stride},{b.out_channel_stride},{b.group_stride}",
            f"c={c.type}:{c.stride},{c.group_stride}",
            *(["tf32"] if spec.tf32 else []),
            *map(_phase, spec.phases),
            epilogue,
        ]
    )


def _phase(phase: Phase) -> str:
    return f"[{phase.out_offset}; {'; '.join(map(_axis, phase.axes))}]"


def _axis(axis: Axis) -> str:
    taps = "".join(
        f" {row}@{weight}" for row, weight in zip(axis.tap_rows, axis.tap_weights, strict=True)
    )
    return f"{axis.size}/{axis.out_stride} of {axis.extent}/{axis.row_stride} by {axis.step}:{taps}"
