"""The innermost loops of a gradient of weights: for every position an outer product.

Accumulators hold a part of the result of one tap. After a block of output pixels they are stored,
added to what earlier output pixels left: where accumulators wait for the next block, or at last to
the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    PTR,
    Function,
    Module,
    Value,
    zero,
)
from convir.lowering.kernels.host.code.tiles import BroadcastTile, GroupTile
from convir.lowering.kernels.host.wgrad.paired_rows import BF16_BYTES, joined_vector, pair_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.wgrad.blocking import WeightBlocking
    from convir.lowering.kernels.host.wgrad.paired_rows import PairedRows


PANEL_PARAMETERS = (
    (PTR, "a_rows"),
    (PTR, "c_rows"),
    (PTR, "panel"),
    (I64, "number"),
    (I64, "count"),
    (PTR, "result"),
    (PTR, "waiting"),
    (I64, "first_tile"),
    (I64, "last_tile"),
    (I64, "add"),
    (I64, "finish"),
    (PTR, "a_ahead"),
    (PTR, "c_ahead"),
    (I64, "first_panel"),
    (I64, "last_panel"),
)
"""Of a panel's function: `count` addresses of A and of C, room for a packed panel, the panel's
number, the result of one tap, and the tiles of rows [`first_tile`, `last_tile`). Accumulators wait
in `waiting`, `[row][column of the panel]`: they are added to if `add` is not 0, and stored to the
result if `finish` is not 0. What the next block reads is asked for: its addresses are in `a_ahead`
and `c_ahead`, and the item has the panels [`first_panel`, `last_panel`)."""


@dataclass(frozen=True)
class OuterPanel:
    """Writes a panel of vectors of one operand times all elements of the other."""

    lanes: Lanes
    cuts: WeightBlocking
    tile: BroadcastTile
    out_channels: int
    """Columns of the panel that exist; a vector may reach past them."""
    pitch: int
    """Elements of the result between two rows."""
    paired: PairedRows | None
    """What is broadcast, where output pixels are multiplied in pairs: then the operand that is
    broadcast comes as its words instead of a table."""

    def write(self, module: Module, label: str) -> Function:
        """Add the function that packs one panel and runs over its tiles."""
        cuts, lanes, tile = self.cuts, self.lanes, self.tile
        f = Function(f"panel_{label}", PANEL_PARAMETERS)
        broadcast, vectors = f.argument("c_rows"), f.argument("a_rows")
        if not cuts.lanes_are_in_channels:
            broadcast, vectors = vectors, broadcast
        vector_bytes = lanes.count * lanes.bytes
        first = f.mul(f.argument("number"), cuts.tile.vectors * vector_bytes, "first.byte")
        if cuts.packs:
            with f.loop("position", 0, f.argument("count")) as position:
                line = f.element(f.argument("panel"), position.index, tile.vectors * vector_bytes)
                loaded_vectors = self._loaded(f, vectors, position.index, first)
                for v, loaded in enumerate(loaded_vectors):
                    f.store(loaded, f.offset(line, v * vector_bytes), vector_bytes)
            vectors = f.argument("panel")
        self._tiles(module, f, label, (broadcast, vectors, first))
        return module.add(f)

    def _loaded(
        self, f: Function, vectors: Value, position: Value, first: Value
    ) -> Iterator[Value]:
        """The vectors of a position, or of a pair of them, before they are packed."""
        lanes = self.lanes
        active = [self.out_channels - v * lanes.count for v in range(self.tile.vectors)]
        if self.paired is None:
            row = f.load(PTR, f.element(vectors, position, 8), 8, "row")
            row = f.offset(row, first)
            for v, count in enumerate(active):
                yield lanes.load(f, f.offset(row, v * lanes.count * lanes.bytes), count)
            return
        start = f.div(first, 2, "first.half")
        halves = pair_of(f, vectors, position)
        for v, count in enumerate(active):
            at = f.add(start, v * lanes.count * BF16_BYTES)
            yield joined_vector(f, lanes, halves, at, count)

    def _tiles(
        self, module: Module, f: Function, label: str, operands: tuple[Value, Value, Value]
    ) -> None:
        """Run over the tiles of rows; the last one may be less high."""
        cuts, lanes, tile = self.cuts, self.lanes, self.tile
        broadcast, vectors, first = operands
        result = f.offset(f.argument("result"), first)
        begin, end = f.argument("first_tile"), f.argument("last_tile")
        finish = f.compare("ne", f.argument("finish"), 0)
        pitch = f.select(finish, self.pitch * lanes.bytes, self._line_bytes, "pitch")
        high, low = divmod(cuts.rows, tile.rows)
        for low_, upto, height in ((0, high, tile.rows), (high, high + 1, low)):
            if low_ == upto or height == 0:
                continue
            run = module.add(
                self._tile(f"outer_{label}{height}", BroadcastTile(height, tile.vectors))
            )
            with f.loop("tile", f.maximum(begin, low_), f.minimum(end, upto)) as loop:
                row = f.mul(loop.index, tile.rows, "row.number")
                offset = f.mul(row, lanes.bytes, "row.bytes")
                if self.paired is not None:
                    words = self.paired.first(f, f.mul(begin, tile.rows))
                    offset = f.mul(f.sub(row, words), lanes.bytes, "word.bytes")
                waiting = f.sub(row, f.mul(begin, tile.rows), "waiting.row")
                waiting = f.element(f.argument("waiting"), waiting, self._line_bytes, "sums")
                out = f.element(result, row, self.pitch * lanes.bytes, "row")
                out = f.select(finish, out, waiting, "out")
                count, add = f.argument("count"), f.argument("add")
                ahead = self._ahead(f, loop.index, broadcast, offset)
                f.call(
                    run, broadcast, offset, vectors, first, count, waiting, out, pitch, add, *ahead
                )

    def _ahead(
        self, f: Function, tile: Value, broadcast: Value, offset: Value
    ) -> tuple[Value, Value]:
        """The table and the offset of the line that tile number `tile` of this panel asks for.

        The item's rows come first, then its columns; later tiles ask for what they read.
        """
        cuts, size = self.cuts, self.lanes.bytes // (1 if self.paired is None else 2)
        columns_bytes = self.cuts.tile.vectors * self.lanes.count * size
        rows, out_channels = f.argument("c_ahead"), f.argument("a_ahead")
        if not cuts.lanes_are_in_channels:
            rows, out_channels = out_channels, rows
        begin, end = f.argument("first_tile"), f.argument("last_tile")
        first_panel, last_panel = f.argument("first_panel"), f.argument("last_panel")
        tiles = f.sub(end, begin)
        before = f.mul(f.sub(f.argument("number"), first_panel), tiles)
        number = f.add(before, f.sub(tile, begin), "number.of.tile")
        row_lines = f.div(f.mul(tiles, self.tile.rows * size), LINE_BYTES, "row.lines")
        row_lines = f.add(row_lines, 1)
        column_lines = f.div(f.mul(f.sub(last_panel, first_panel), columns_bytes), LINE_BYTES)
        line = f.sub(number, row_lines, "column.line")
        of_rows = f.compare("slt", number, row_lines)
        more = f.compare("slt", line, column_lines)
        row_at = f.add(f.mul(begin, self.tile.rows * size), f.mul(number, LINE_BYTES))
        column_at = f.add(f.mul(first_panel, columns_bytes), f.mul(line, LINE_BYTES))
        # Words are no addresses: then the rows are asked for again.
        otherwise = broadcast if self.paired is None else rows
        table = f.select(of_rows, rows, f.select(more, out_channels, otherwise, "table"), "table")
        at = f.select(of_rows, row_at, f.select(more, column_at, offset, "ahead"), "ahead")
        return table, at

    @property
    def _line_bytes(self) -> int:
        """Of a row of accumulators that wait."""
        return self.cuts.tile.vectors * self.lanes.count * self.lanes.bytes

    def _tile(self, name: str, tile: BroadcastTile) -> Function:
        """The innermost loop: `count` output pixels, one outer product each.

        `vectors` is a packed panel, or the table of addresses of what lies `first` bytes ahead.
        """
        lanes = self.lanes
        f = Function(
            name,
            (
                (f"{PTR} noalias", "rows"),
                (I64, "offset"),
                (f"{PTR} noalias", "vectors"),
                (I64, "first"),
                (I64, "count"),
                (PTR, "before"),
                (PTR, "out"),
                (I64, "pitch"),
                (I64, "add"),
                (f"{PTR} noalias", "ahead"),
                (I64, "line"),
            ),
        )
        vector_bytes = lanes.count * lanes.bytes
        zeros = [zero(lanes.type)] * (tile.rows * tile.vectors)
        with f.loop("position", 0, f.argument("count"), carried=zeros) as position:
            row = self._row(f, position.index)
            row = f.offset(row, f.argument("offset"))
            for next_ in self._next(f, position.index):
                f.prefetch(f.offset(next_, f.argument("line")), level=2)
            loaded = self._vectors(f, position.index)
            sums: list[Value] = []
            for r in range(tile.rows):
                x = lanes.broadcast(f, f.offset(row, r * lanes.bytes))
                before = position.carried[r * tile.vectors :]
                sums += [
                    lanes.multiply_add(f, x, w, total)
                    for w, total in zip(loaded, before, strict=False)
                ]
            position.carry(*sums)
        places: list[Value] = []
        for r in range(tile.rows):
            line = f.offset(f.argument("out"), f.mul(f.argument("pitch"), r))
            places += [f.offset(line, v * vector_bytes) for v in range(tile.vectors)]
        before = [
            f.offset(f.argument("before"), r * self._line_bytes + v * vector_bytes)
            for r in range(tile.rows)
            for v in range(tile.vectors)
        ]
        _store(f, lanes, position.results, before, places)
        return f

    def _row(self, f: Function, position: Value) -> Value:
        """The address of what is broadcast at a position."""
        rows = f.argument("rows")
        if self.paired is not None:
            return f.element(rows, position, self.paired.pitch, "row")
        return f.load(PTR, f.element(rows, position, 8), 8, "row")

    def _next(self, f: Function, position: Value) -> tuple[Value, ...]:
        """The addresses that are asked for at a position."""
        ahead = f.argument("ahead")
        if self.paired is not None:
            return pair_of(f, ahead, position)
        return (f.load(PTR, f.element(ahead, position, 8), 8, "next"),)

    def _vectors(self, f: Function, position: Value) -> list[Value]:
        lanes, tile, vectors = self.lanes, self.tile, f.argument("vectors")
        vector_bytes = lanes.count * lanes.bytes
        if self.cuts.packs:
            line = f.element(vectors, position, tile.vectors * vector_bytes, "line")
            places = [f.offset(line, v * vector_bytes) for v in range(tile.vectors)]
            return [f.load(lanes.type, place, vector_bytes, "w") for place in places]
        line = f.offset(
            f.load(PTR, f.element(vectors, position, 8), 8, "line"), f.argument("first")
        )
        return [
            lanes.load(
                f, f.offset(line, v * vector_bytes), self.out_channels - v * lanes.count, "w"
            )
            for v in range(tile.vectors)
        ]


@dataclass(frozen=True)
class GroupPanel:
    """Writes a panel of vectors that hold the columns of several groups.

    Accumulators wait in the result.
    """

    lanes: Lanes
    cuts: WeightBlocking
    tile: GroupTile
    out_channels: int
    """Columns of all groups of the panel."""

    def write(self, module: Module, label: str) -> Function:
        """Add the function of one panel: for each position and vector one product a depth."""
        lanes, tile = self.lanes, self.tile
        f = Function(f"panel_{label}", PANEL_PARAMETERS)
        together = self.cuts.tile.out_channels(lanes.count) // tile.width
        a_bytes, c_bytes = (
            together * tile.in_channels * lanes.row_bytes,
            together * tile.width * lanes.row_bytes,
        )
        number = f.argument("number")
        a_first, c_first = f.mul(number, a_bytes, "a.first"), f.mul(number, c_bytes, "c.first")
        zeros = [zero(lanes.type)] * (tile.vectors * tile.in_channels)
        with f.loop("position", 0, f.argument("count"), carried=zeros) as position:
            a, c = (
                f.offset(f.load(PTR, f.element(f.argument(name), position.index, 8), 8), first)
                for name, first in (("a_rows", a_first), ("c_rows", c_first))
            )
            position.carry(*self._products(f, a, c, position.carried))
        vector_bytes = lanes.count * lanes.bytes
        first_lane = f.mul(number, self.cuts.tile.vectors * vector_bytes, "first.lane")
        result = f.offset(f.argument("result"), first_lane)
        line_bytes = self.cuts.padded_out_channels * lanes.bytes
        places = [
            f.offset(result, in_channels * line_bytes + v * vector_bytes)
            for v in range(tile.vectors)
            for in_channels in range(tile.in_channels)
        ]
        _store(f, lanes, position.results, places, places)
        return module.add(f)

    def _products(self, f: Function, a: Value, c: Value, totals: Sequence[Value]) -> list[Value]:
        lanes, tile = self.lanes, self.tile
        together = tile.groups_per_vector(lanes.count)
        sums: list[Value] = []
        for v in range(tile.vectors):
            groups = min(together, self.out_channels // tile.width - v * together)
            x, y = (
                lanes.load_part(
                    f, f.offset(base, v * together * size * lanes.row_bytes), groups * size
                )
                for base, size in ((a, tile.in_channels), (c, tile.width))
            )
            # Lanes past the last group hold accumulators that nobody reads.
            group_of = [min(lane // tile.width, groups - 1) for lane in range(lanes.count)]
            last = groups * tile.width - 1
            y = f.shuffle(y, y, [min(lane, last) for lane in range(lanes.count)], "y")
            for in_channels in range(tile.in_channels):
                spread = [group * tile.in_channels + in_channels for group in group_of]
                copies = f.shuffle(x, x, spread, "spread")
                total = totals[v * tile.in_channels + in_channels]
                sums.append(lanes.multiply_add(f, copies, y, total))
        return sums


def _store(
    f: Function,
    lanes: Lanes,
    totals: Sequence[Value],
    waiting: Sequence[Value],
    places: Sequence[Value],
) -> None:
    """Store `totals` to `places`, and what waits with them where there is something."""
    with f.when(f.compare("ne", f.argument("add"), 0), "adding"):
        for total, sums, place in zip(totals, waiting, places, strict=True):
            before = f.load(lanes.type, sums, lanes.bytes, "before")
            f.store(f.float_binary("fadd", before, total, "after"), place, lanes.bytes)
    with f.when(f.compare("eq", f.argument("add"), 0), "storing"):
        for total, place in zip(totals, places, strict=True):
            f.store(total, place, lanes.bytes)
