"""Residue arithmetic of a window over a scattered dimension, on plain integers.

A contraction reads position `stride * y + dilation * r + constant` of a dimension, for y in
[0, outputs) and r in [0, taps). Element i of a dense source, for i in [0, size), lies at
`offset + spacing * i` of it, and everything between is zero. A product meets an element only where

    stride * y + dilation * r + constant ≡ offset   (mod spacing)

which y solves in residue classes, the phases: the y of one phase have the same taps r in common,
evenly spaced, and read the source without holes, at `base + source_stride * j +
source_dilation * u` for their j-th output and u-th tap. Only padding beyond the ends is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from convir.dialects.conv.lattice_points import Rectangle


@dataclass(frozen=True)
class Phase:
    """The outputs of one residue class, and the taps that meet elements there."""

    first: int
    """The first output; the next ones follow every `ScatteredWindow.period`."""
    count: int
    """How many outputs there are, at least 1."""
    first_tap: int
    """The first tap; the next ones follow every `ScatteredWindow.tap_period`."""
    taps: int
    """How many taps there are; 0 if every tap of these outputs meets a hole."""
    base: int
    """The source element that the first output reads with the first tap; may lie outside."""


@dataclass(frozen=True)
class ScatteredWindow:
    """A window over one scattered dimension."""

    outputs: int
    taps: int
    stride: int
    """Positions between two outputs, at least 1."""
    dilation: int
    """Positions between two taps, at least 1."""
    constant: int
    """The position that the first output reads with the first tap."""
    offset: int
    """The position of the first element."""
    spacing: int
    """Positions between two elements, at least 1."""
    size: int
    """The number of elements."""

    @property
    def period(self) -> int:
        """How far apart the outputs of one phase are; also how many phases there can be."""
        return self.spacing // gcd(self.stride, self.spacing)

    @property
    def tap_period(self) -> int:
        """How far apart the taps of one phase are."""
        return self.spacing // gcd(self.dilation, self.spacing)

    @property
    def source_stride(self) -> int:
        """Elements between two outputs of one phase."""
        return self.stride * self.period // self.spacing

    @property
    def source_dilation(self) -> int:
        """Elements between two taps of one phase."""
        return self.dilation * self.tap_period // self.spacing

    @property
    def phase_count(self) -> int:
        """How many phases there are, those without taps among them."""
        return min(self.period, self.outputs)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """All phases, by their first output, those without taps among them."""
        return tuple(self._phase(first) for first in range(self.phase_count))

    @property
    def margins(self) -> tuple[int, int]:
        """How many zeros all phases together read before the first and after the last element."""
        read = [self.span(phase) for phase in self.phases if phase.taps]
        low = max((-span.start for span in read), default=0)
        high = max((span.stop - self.size for span in read), default=0)
        return max(0, low), max(0, high)

    @property
    def products(self) -> int:
        """Pairs of an output and a tap that are left, those on the margins included."""
        return sum(phase.count * phase.taps for phase in self.phases)

    @property
    def products_on_elements(self) -> int:
        """Pairs of an output and a tap that meet an element."""
        return sum(
            self._reads(phase).points_within(-phase.base, self.size - phase.base)
            for phase in self.phases
        )

    def span(self, phase: Phase) -> range:
        """The elements from the first to the last one that a phase with taps reads."""
        reach = self.source_stride * (phase.count - 1) + self.source_dilation * (phase.taps - 1)
        return range(phase.base, phase.base + reach + 1)

    def _reads(self, phase: Phase) -> Rectangle:
        return Rectangle(phase.count, self.source_stride, phase.taps, self.source_dilation)

    def _phase(self, first: int) -> Phase:
        count = -(-(self.outputs - first) // self.period)
        start = self.stride * first + self.constant - self.offset
        # The first tap solves dilation * tap = -start (mod spacing), if any does.
        whole, rest = divmod(-start, gcd(self.dilation, self.spacing))
        step = self.source_dilation  # prime to the period
        tap = whole * pow(step, -1, self.tap_period) % self.tap_period
        if rest or tap >= self.taps:
            return Phase(first, count, 0, 0, 0)
        taps = -(-(self.taps - tap) // self.tap_period)
        return Phase(first, count, tap, taps, (start + self.dilation * tap) // self.spacing)
