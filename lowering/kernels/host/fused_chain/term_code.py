"""LLVM IR that adds a convolution to accumulators: some channels by some vectors of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Value, float_constant, vector, zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.planar.program import Term
    from convir.lowering.kernels.host.code.builder import Function
    from convir.lowering.kernels.host.code.builder import Operand as Integer
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

_STRAIGHT = 128
"""Multiply-adds that are written without a loop: it would cost less than a tenth of them."""

_SHIFTING_BITS = 512
"""Vectors that one instruction cuts out of two neighbours, at any lane."""


@dataclass(frozen=True)
class TermCode:
    """Adds one term to the accumulators of one tile."""

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
        """The accumulators, `[channel][vector]`, with all products.

        Args:
            row: where the first tap of the group's first row reads the tile's first frame.
            weights: those of the tile's first channel.
            accumulators: what there is already; zeros that are constants are not added to.
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
        """The accumulators with all taps of a row."""
        f, taps = self.f, self.term.taps
        if self._shifts and self.term.reach is not None:
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
        """The accumulators with some taps of a row, and where the next one reads."""
        for tap in range(taps):
            inputs = [self._load(row, v) for v in range(self.vectors)]
            sums = self._products(weights, tap, inputs, sums)
            row = self.f.offset(row, self.reach, "tap")
        return sums, row

    def _near_taps(
        self, row: Value, weights: Value, reach: int, sums: Sequence[Value]
    ) -> Sequence[Value]:
        """The accumulators with all taps of a row, which share its vectors.

        What the last tap reads is loaded. Vectors of other taps are cut out of that by shuffles,
        half as many as there are multiply-adds: a Zen 4 has two units for each, and one of them is
        the same. The rest are loaded too: at any offset they cross cache lines, and take nearly
        twice as long.
        """
        f, lanes, taps = self.f, self.lanes, self.term.taps
        last = f.offset(row, (taps - 1) * reach * lanes.bytes, "last")
        # LLVM shifts neighbours by `valignd` if they were loaded as integers; of floats it makes
        # `vpermt2ps`, which more than a few multiply-adds have to wait for.
        words = [self._load_words(last, v) for v in range(self.vectors)]
        loaded = [self._floats(vector) for vector in words]
        products = shuffles = 0
        for tap in reversed(range(taps)):
            inputs: list[Value] = []
            for v in range(self.vectors):
                place, lane = divmod(v * lanes.count - (taps - 1 - tap) * reach, lanes.count)
                products += 1
                if lane == 0 and place >= 0:
                    inputs.append(loaded[place])
                elif place < 0 or 2 * shuffles + 2 > products:
                    inputs.append(self._load(f.offset(row, tap * reach * lanes.bytes), v))
                else:
                    shuffles += 1
                    picked = range(lane, lane + lanes.count)
                    cut = f.shuffle(words[place], words[place + 1], picked, "shifted")
                    inputs.append(self._floats(cut))
            sums = self._products(weights, tap, inputs, sums)
        return sums

    def _products(
        self, weights: Value, tap: int, inputs: Sequence[Value], sums: Sequence[Value]
    ) -> Sequence[Value]:
        """The accumulators with one tap of a row, whose vectors are `inputs`."""
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
        address = self.f.offset(weights, place, "weight")
        if self._shifts:
            return lanes.broadcast_by_load(self.f, address)
        return lanes.broadcast(self.f, address)

    @property
    def _shifts(self) -> bool:
        """Whether taps share vectors."""
        wide = self.lanes.cpu.vector_bits == _SHIFTING_BITS
        return self.term.reach is not None and wide and self.vectors > 1

    def _load(self, row: Value, v: int) -> Value:
        address = self.f.offset(row, v * self.lanes.count * self.lanes.bytes)
        if self.active is None:
            return self.lanes.load(self.f, address, self.lanes.count)
        return self.lanes.load_masked(self.f, address, self.active)

    def _load_words(self, row: Value, v: int) -> Value:
        """A whole vector, as integers."""
        lanes = self.lanes
        address = self.f.offset(row, v * lanes.count * lanes.bytes)
        return self.f.load(vector("i32", lanes.count), address, lanes.bytes, "words")

    def _floats(self, words: Value) -> Value:
        return self.f.emit(self.lanes.type, "floats", f"bitcast {words} to {self.lanes.type}")
