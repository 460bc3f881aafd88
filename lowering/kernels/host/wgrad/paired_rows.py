"""Output pixels of bf16 in pairs, as `vdpbf16ps` multiplies them along the reduction.

A tap's output pixels are taken by two; a pixel of zeros follows an odd number of them. Elements
that tiles broadcast are joined to words of two pixels, `[pair][row]`, once for all panels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, LINE_BYTES, PTR, Function
from convir.lowering.kernels.host.code.elements.pairs import joined

if TYPE_CHECKING:
    from convir.lowering.kernels.host.code.builder import Module, Operand, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

BF16_BYTES = 2


@dataclass(frozen=True)
class PairedRows:
    """The words of an item's rows."""

    lanes: Lanes
    rows: int
    """Of the operand that is broadcast: elements of an output pixel."""
    item_rows: int
    """Of an item, at most."""
    columns: int
    """Of the operand in vectors: elements of an output pixel."""
    block: int
    """Output pixels, at most."""
    table: int
    """Of the two tables of addresses, which one has the rows."""

    @property
    def pitch(self) -> int:
        """Bytes between two pairs: whole vectors may begin before the item's rows, or end behind
        them."""
        return (self.item_rows + 2 * self.lanes.count) * self.lanes.bytes

    @property
    def bytes(self) -> int:
        """Of all pairs."""
        return -(-self.block // 2) * self.pitch + LINE_BYTES

    def first(self, f: Function, first_row: Operand) -> Value:
        """The row that the words of a pair begin with."""
        return f.mul(first_row, 0 if self.rows < self.lanes.count else 1, "first.word")

    def begin(self, module: Module, f: Function) -> JoinedRows:
        """Make room for the words in `f`, at its beginning."""
        words = f.offset(f.stack(self.bytes, LINE_BYTES, "words"), LINE_BYTES)
        longest = max(self.rows, self.columns) * BF16_BYTES
        zeros = module.zeros("zero_pixel", longest, LINE_BYTES)
        return JoinedRows(self.function(module), words, zeros, self.table)

    def function(self, module: Module) -> Function:
        """Join the rows [`first`, `last`) of `count` pairs, whose addresses are in `table`.

        The last vector ends with the last row: where rows are no whole vectors it begins before.
        """
        lanes = self.lanes
        numbers = ((I64, name) for name in ("count", "first", "last"))
        f = Function("join_rows", ((PTR, "table"), (PTR, "words"), *numbers))
        first, last = f.argument("first"), f.argument("last")
        with f.loop("pair", 0, f.argument("count")) as pair:
            halves = pair_of(f, f.argument("table"), pair.index)
            line = f.element(f.argument("words"), pair.index, self.pitch, "line")
            if self.rows < lanes.count:
                f.store(self._words(f, halves, 0, self.rows), line, lanes.bytes)
            else:
                with f.loop("row", first, last, lanes.count) as row:
                    at = f.minimum(row.index, f.sub(last, lanes.count), "at")
                    at = f.maximum(at, 0)
                    place = f.element(line, f.sub(at, first), lanes.bytes)
                    f.store(self._words(f, halves, at, lanes.count), place, lanes.bytes)
        return module.add(f)

    def _words(
        self, f: Function, halves: tuple[Value, Value], first: Operand, active: int
    ) -> Value:
        return joined_vector(f, self.lanes, halves, f.mul(first, BF16_BYTES), active)


@dataclass(frozen=True)
class JoinedRows:
    """The words of an item in memory, and what writes them."""

    function: Function
    words: Value
    zeros: Value
    table: int

    def join(
        self, f: Function, tables: tuple[Value, Value], count: Value, rows: tuple[Value, Value]
    ) -> tuple[Value, tuple[Value, ...]]:
        """Join the rows [`rows[0]`, `rows[1]`) of `count` output pixels, whose addresses are in
        `tables`; an odd number is followed by zeros.

        Returns:
            The number of pairs, and the tables with the words in the place of one.
        """
        for table in tables:
            f.store(self.zeros, f.element(table, count, 8), 8)
        pairs = f.div(f.add(count, 1), 2, "pairs")
        f.call(self.function, tables[self.table], self.words, pairs, *rows)
        read = (self.words if number == self.table else each for number, each in enumerate(tables))
        return pairs, tuple(read)


def pair_of(f: Function, table: Value, pair: Value) -> tuple[Value, Value]:
    """The addresses of both output pixels of a pair."""
    line = f.element(table, pair, 16)
    return f.load(PTR, line, 8, "low"), f.load(PTR, f.offset(line, 8), 8, "high")


def joined_vector(
    f: Function, lanes: Lanes, halves: tuple[Value, Value], offset: Operand, active: int
) -> Value:
    """The words of `active` elements, `offset` bytes behind both addresses of a pair."""
    low, high = (lanes.load_words(f, f.offset(half, offset), active) for half in halves)
    return joined(f, lanes, low, high)
