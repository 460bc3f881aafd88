"""What a contraction reads and writes of memory, each element once, in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

L2_LEAST, L2_MOST = 0.4, 1.2
"""Parts of the L2 cache: windows up to the first stay there, none of the second does."""
SECTOR = 32
"""Bytes that memory brings at least."""


@dataclass(frozen=True)
class Traffic:
    """Bytes."""

    a: float
    b: float
    c: float
    operands: float = 0.0
    """What the epilogue reads besides."""
    result: str = "C"
    accumulate: bool = False
    windows: tuple[tuple[float, float], ...] = ()
    """Bytes of A between the first and the last tap along an axis, and how often their output
    pixels are read if the L2 cache has lost them in between."""
    sector_writes: float = 1.0
    """How often a sector of the result is written, where phases interleave in it."""

    @property
    def read(self) -> float:
        """What is read."""
        other = self.b if self.result == "C" else self.c
        again = self.written if self.accumulate else 0.0
        return self.a + other + self.operands + again

    def again(self, target: Target) -> float:
        """What is read again of A, as the L2 cache does not hold a window of it."""
        times = 1.0
        for nbytes, most in self.windows:
            times *= 1 + (most - 1) * _lost(nbytes, target)
        return self.a * (times - 1)

    @property
    def written(self) -> float:
        """What is written."""
        return self.c if self.result == "C" else self.b

    def apart(self, target: Target) -> float:
        """What is written again, and filled before, as sectors leave the L2 cache before all phases
        have written them, one phase after the other."""
        return (self.sector_writes - 1) * self.written * _lost(self.written, target)

    def time(self, target: Target) -> float:
        """µs that DRAM takes."""
        apart = self.apart(target)
        read = self.read + self.again(target) + apart
        return read / target.dram_read + (self.written + apart) / target.dram_write


KEPT_PROBLEMS = 256
"""Of how many problems it is remembered: all configs of a problem are predicted one after the
other."""


def _lost(nbytes: float, target: Target) -> float:
    """The part of so many bytes that the L2 cache has lost when they are touched again."""
    lost = (nbytes / target.l2_bytes - L2_LEAST) / (L2_MOST - L2_LEAST)
    return min(1.0, max(0.0, lost))


@lru_cache(maxsize=KEPT_PROBLEMS)
def traffic_of(spec: Contraction, epilogue: Epilogue | None = None) -> Traffic:
    """What `spec` reads and writes."""
    a = _touched(spec) * STORAGE_BYTES[spec.a.type]
    a *= spec.in_channels * (1 if spec.shares_rows else spec.groups)
    taps = max(phase.taps for phase in spec.phases) if len(spec.phases) == 1 else spec.taps
    b = taps * spec.in_channels * spec.out_channels * spec.groups * STORAGE_BYTES[spec.b.type]
    results = sum(phase.pixels for phase in spec.phases) * spec.out_channels * spec.groups
    c = results * STORAGE_BYTES[spec.c.type]
    operands = 0.0
    if epilogue is not None:
        size = b / STORAGE_BYTES[spec.b.type] if spec.result == "B" else results
        for operand in epilogue.operands:
            varies = operand.follows_result or any(
                stride for phase in operand.phases for stride in phase.axis_strides
            )
            operands += STORAGE_BYTES[operand.type] * (size if varies else spec.out_channels)
    return Traffic(a, b, c, operands, spec.result, spec.accumulate, _windows(spec))


def sector_writes(spec: Contraction) -> float:
    """How often a sector of C is written, where blocks of several phases or groups each write some
    elements of it."""
    if spec.result == "B" or len(spec.phases) * spec.groups == 1:
        return 1.0
    size = STORAGE_BYTES[spec.c.type]
    run = size * (spec.out_channels if spec.c.stride == 1 else 1)
    pitch = size * min(phase.axes[-1].out_stride for phase in spec.phases)
    return max(1.0, min(pitch, SECTOR) / run)


def _windows(spec: Contraction) -> tuple[tuple[float, float], ...]:
    size = STORAGE_BYTES[spec.a.type]
    found: list[tuple[float, float]] = []
    for axes in zip(*(phase.axes for phase in spec.phases if phase.taps), strict=True):
        rows = [row for axis in axes for row in axis.tap_rows]
        span = max(rows) - min(rows)
        taps = max(len(axis.tap_rows) for axis in axes)
        if span and taps > 1:
            found.append((span * axes[0].row_stride * size, max(1.0, taps / axes[0].step)))
    return tuple(found)


def _touched(spec: Contraction) -> float:
    """Pixels of A that are read, neighbours in a sector with them."""
    reading = [phase for phase in spec.phases if phase.taps]
    if not reading:
        return 0.0
    dims = list(zip(*(phase.axes for phase in reading), strict=True))
    return float(prod(_touched_along(dim, STORAGE_BYTES[spec.a.type]) for dim in dims))


def _touched_along(axes: tuple[Axis, ...], nbytes: int) -> int:
    extent = max(axis.extent for axis in axes)
    step = axes[0].step
    first = max(0, min(min(axis.tap_rows) for axis in axes))
    last = min(extent - 1, max((a.size - 1) * a.step + max(a.tap_rows) for a in axes))
    span = max(1, last - first + 1)
    if axes[0].row_stride * nbytes < SECTOR or step == 1:
        return span
    residues = {row % step for axis in axes for row in axis.tap_rows}
    return max(1, -(-span * min(len(residues), step) // step))


@lru_cache(maxsize=KEPT_PROBLEMS)
def outside_of(spec: Contraction) -> float:
    """The part of the taps of all output pixels that lie outside of A."""
    inside = total = 0.0
    for phase in spec.phases:
        share = float(phase.pixels * phase.taps)
        total += share
        for axis in phase.axes:
            if axis.tap_rows:
                places = sum(_inside(axis, row) for row in axis.tap_rows)
                share *= places / (axis.size * len(axis.tap_rows))
        inside += share
    return 1 - inside / total if total else 0.0


def _inside(axis: Axis, row: int) -> int:
    """Output pixels whose tap at `row` lies inside."""
    first = max(0, -(row // axis.step))
    last = min(axis.size - 1, (axis.extent - 1 - row) // axis.step)
    return max(0, last - first + 1)
