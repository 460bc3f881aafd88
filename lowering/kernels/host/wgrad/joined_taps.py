"""Few input channels: the taps of a line of the filter are one tap of all their channels.

    B[ky, kx, c, n] += A[y + ky, x + kx, c] · C[y, x, n]     3 rows for each of 49 taps
    B[ky, (kx, c), n] += A[y + ky, (x + kx, c)] · C[y, x, n]    21 rows for each of 7 taps

Pixels of a line of A are contiguous, and so are the taps of a line of B. The rows of neighbouring
output pixels overlap. Lines are copied first, with zeros for the padding at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import Channels
from convir.lowering.kernels.host.code.operand_copy import Dimension
from convir.lowering.kernels.host.wgrad.blocking import lanes_of, tile_cycles

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.host.launch import Buffer
    from convir.lowering.kernels.host.operand_stages import OperandStages
    from convir.lowering.kernels.host.target import CpuTarget

GAIN = 0.6
"""Joined taps must take less than this part of the predicted cycles of single ones. A is copied for
them; at 0.66 (7x7, 3→64 in f32) they were no faster."""


@dataclass(frozen=True)
class JoinedTaps:
    """A gradient of weights over lines of taps."""

    spec: Contraction
    """On the copy of A."""
    lines: tuple[Dimension, ...]
    """Of A, slowest first."""
    elements: int
    """Of a line of A."""
    zeros: tuple[int, int]
    """Elements in front of a line of the copy, and behind it."""

    @property
    def copied(self) -> int:
        """Elements of A that are copied."""
        return self.elements * prod(dimension.size for dimension in self.lines)


def joined_taps(spec: Contraction, cpu: CpuTarget) -> JoinedTaps | None:
    """`spec`, whose result is B, over lines of taps; None where that cannot be or does not pay."""
    joined = lines_of_taps(spec)
    if joined is None or _cycles(joined.spec, cpu) > GAIN * _cycles(spec, cpu):
        return None
    return joined


def rows_of(stages: OperandStages, joined: JoinedTaps | None) -> Buffer:
    """The buffer of A for what `stages` compute: on lines of taps, or as `spec` has them.

    Raises:
        ValueError: A has to be copied, and the channels of its groups are not consecutive.
    """
    if joined is None:
        return stages.readable_rows()
    return stages.padded_lines(joined.spec, joined.lines, joined.elements, joined.zeros)


def _cycles(spec: Contraction, cpu: CpuTarget) -> float:
    """Of the tiles of an output pixel."""
    return spec.phases[0].taps * tile_cycles(spec, lanes_of(spec, cpu))


def lines_of_taps(spec: Contraction) -> JoinedTaps | None:
    """`spec`, whose result is B, over lines of taps; None where taps are no lines."""
    (phase,) = spec.phases
    *outer, line = phase.axes
    if spec.groups > 1 or spec.a.stride != 1 or spec.b.in_channel_stride != 1:
        return None
    if not _is_line(line, spec.in_channels):
        return None
    first, last = line.tap_rows[0], line.tap_rows[-1] + (line.size - 1) * line.step
    before, behind = max(0, -first), max(0, last - line.extent + 1)
    zeros = before * spec.in_channels, behind * spec.in_channels
    elements = line.extent * spec.in_channels
    pitches = [
        (elements + sum(zeros)) * prod(axis.extent for axis in outer[place + 1 :])
        for place in range(len(outer))
    ]
    axes = [replace(axis, row_stride=n) for axis, n in zip(outer, pitches, strict=True)]
    starts = before + line.extent + behind - len(line.tap_rows) + 1
    axes.append(
        replace(line, extent=starts, tap_rows=(first + before,), tap_weights=line.tap_weights[:1])
    )
    joined = replace(
        spec,
        phases=(replace(phase, axes=tuple(axes)),),
        in_channels=len(line.tap_rows) * spec.in_channels,
        a=Channels(spec.a.type),
    )
    lines = tuple(Dimension(axis.extent, axis.row_stride) for axis in outer)
    return JoinedTaps(joined, lines, elements, zeros)


def _is_line(axis: Axis, channels: int) -> bool:
    """Whether the pixels of an axis are contiguous, and so are its taps in A and in B."""
    taps = range(len(axis.tap_rows))
    return (
        len(taps) > 1
        and axis.step > 0
        and axis.row_stride == channels
        and axis.tap_rows == tuple(axis.tap_rows[0] + i for i in taps)
        and axis.tap_weights == tuple(axis.tap_weights[0] + i * channels for i in taps)
    )
