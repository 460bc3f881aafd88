"""LLVM IR that adds a convolution to sums: some channels by some vectors of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import Value, float_constant, zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.llvm.contraction.builder import Function
    from convir.lowering.llvm.contraction.builder import Operand as Integer
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.planar.program import Term

_STRAIGHT = 128
"""Multiply-adds that are written without a loop: it would cost less than a tenth of them."""

_SHIFTING_BITS = 512
"""Vectors that one instruction cuts out of two neighbours, at any lane."""


@dataclass(frozen=True)
class TermCode:
    """Adds one term to the sums of one tile."""

    f: Function
    lanes: Lanes
    term: Term
    channels: int
    """Of the tile, all of one group."""
    vectors: int
    active: Value | None
    """Which lanes of the only vector are frames; None if all are."""
    row_stride: Integer
    """Bytes between rows."""
    reach: Integer
    """Bytes between taps."""

    def add(self, row: Value, weights: Value, sums: Sequence[Value]) -> Sequence[Value]:
        """The sums, `[channel][vector]`, with all products.

        Args:
            row: where the first tap of the group's first row reads the tile's first frame.
            weights: those of the tile's first channel.
            sums: what there is already; zeros that are constants are not added to.
        """
        f, term = self.f, self.term
        step = term.taps * self.lanes.bytes
        if term.depth * term.taps * self._work <= _STRAIGHT or term.depth == 1:
            for d in range(term.depth):
                here = f.offset(row, f.mul(self.row_stride, d)) if d else row
                sums = self._along_taps(here, f.offset(weights, d * step), sums)
            return sums
        with f.loop("depth", 0, term.depth, carried=(row, weights, *sums), runs=True) as loop:
            row, weights, *carried = loop.carried
            totals = self._along_taps(row, weights, carried)
            loop.carry(f.offset(row, self.row_stride), f.offset(weights, step), *totals)
        return loop.results[2:]

    @property
    def _work(self) -> int:
        """Multiply-adds of one tap of one row."""
        return self.channels * self.vectors

    def _along_taps(self, row: Value, weights: Value, sums: Sequence[Value]) -> Sequence[Value]:
        """The sums with all taps of a row."""
        f, taps = self.f, self.term.taps
        shifts = self.lanes.cpu.vector_bits == _SHIFTING_BITS and self.vectors > 1
        if self.term.reach is not None and shifts:
            return self._near_taps(row, weights, self.term.reach, sums)
        unrolled = max(1, min(taps, _STRAIGHT // self._work))
        turns, rest = divmod(taps, unrolled)
        if turns == 1:
            return self._taps(row, weights, taps, sums)[0]
        with f.loop("taps", 0, turns, carried=(row, weights, *sums), runs=True) as loop:
            row, weights, *carried = loop.carried
            totals, after = self._taps(row, weights, unrolled, carried)
            loop.carry(after, f.offset(weights, unrolled * self.lanes.bytes), *totals)
        row, weights, *sums = loop.results
        return self._taps(row, weights, rest, sums)[0]

    def _taps(
        self, row: Value, weights: Value, taps: int, sums: Sequence[Value]
    ) -> tuple[Sequence[Value], Value]:
        """The sums with some taps of a row, and where the next one reads."""
        for tap in range(taps):
            inputs = [self._load(row, v) for v in range(self.vectors)]
            sums = self._products(weights, tap, inputs, sums)
            row = self.f.offset(row, self.reach, "tap")
        return sums, row

    def _near_taps(
        self, row: Value, weights: Value, reach: int, sums: Sequence[Value]
    ) -> Sequence[Value]:
        """The sums with all taps of a row, which share its vectors.

        What the last tap reads is loaded. Of each other tap every other vector is cut out of that,
        those between them are loaded too: loads at any offset cross cache lines and take twice as
        long, while shuffles take turns with multiply-adds.
        """
        f, lanes, taps = self.f, self.lanes, self.term.taps
        last = f.offset(row, (taps - 1) * reach * lanes.bytes, "last")
        loaded = [self._load(last, v) for v in range(self.vectors)]
        for tap in reversed(range(taps)):
            inputs: list[Value] = []
            for v in range(self.vectors):
                place, lane = divmod(v * lanes.count - (taps - 1 - tap) * reach, lanes.count)
                if place < 0 or (lane and v % 2 == 0):
                    inputs.append(self._load(f.offset(row, tap * reach * lanes.bytes), v))
                elif lane == 0:
                    inputs.append(loaded[place])
                else:
                    picked = range(lane, lane + lanes.count)
                    inputs.append(f.shuffle(loaded[place], loaded[place + 1], picked, "shifted"))
            sums = self._products(weights, tap, inputs, sums)
        return sums

    def _products(
        self, weights: Value, tap: int, inputs: Sequence[Value], sums: Sequence[Value]
    ) -> Sequence[Value]:
        """The sums with one tap of a row, whose vectors are `inputs`."""
        totals: list[Value] = []
        for channel in range(self.channels):
            weight = self._weight(weights, channel, tap)
            for v, x in enumerate(inputs):
                total = sums[channel * self.vectors + v]
                if total == zero(total.type):
                    totals.append(self.f.float_binary("fmul", weight, x, "product"))
                else:
                    totals.append(self.lanes.multiply_add(self.f, weight, x, total))
        return totals

    def _weight(self, weights: Value, channel: int, tap: int) -> Value:
        term, lanes = self.term, self.lanes
        if isinstance(term.weights, float):
            return float_constant(term.weights, lanes.type)
        place = (channel * term.depth * term.taps + tap) * lanes.bytes
        return lanes.broadcast(self.f, self.f.offset(weights, place, "weight"))

    def _load(self, row: Value, v: int) -> Value:
        address = self.f.offset(row, v * self.lanes.count * self.lanes.bytes)
        if self.active is None:
            return self.lanes.load(self.f, address, self.lanes.count)
        return self.lanes.load_masked(self.f, address, self.active)
