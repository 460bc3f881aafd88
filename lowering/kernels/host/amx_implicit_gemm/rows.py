"""Where registers of rows of A are loaded from: from A where rows lie evenly, else from copies.

`sources[tap][register]` is the address of the first of 16 rows, and the bytes from one to the next.
Rows of an image with channels last are as far from each other as their pixels, also from one line
to the next, unless some are padding: those are copied, with zeros for the padding. Rows whose
channels are no whole lines of registers are all copied, each with its taps behind each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import (
    I1,
    I64,
    POINTER_BYTES,
    PTR,
    Function,
    Value,
    integers,
    vector,
)
from convir.lowering.kernels.host.code.register_tile import SOURCE_BYTES
from convir.lowering.kernels.host.code.tile_registers import ROW_BYTES, ROWS

if TYPE_CHECKING:
    from convir.lowering.kernels.host.amx_implicit_gemm.blocking import RowBlocks
    from convir.lowering.kernels.host.code.tap_rows import TapRows

_LINE = vector("i8", ROW_BYTES)


@dataclass(frozen=True)
class RowSources:
    """Writes the function that finds, or copies, a block of the reduction of an item's rows."""

    blocks: RowBlocks
    taps: TapRows
    """Rows whose channels are no whole lines."""
    registers: int
    """Of an item's rows, at most."""
    zeros: Value
    """The address of zeros that padding points at."""

    @property
    def pitch(self) -> int:
        """Bytes between the sources of two taps."""
        return self.registers * SOURCE_BYTES

    def function(self) -> Function:
        """List the sources of `registers` registers of rows at the addresses `rows`: the channels
        of taps [`first`, `last`), of which those of steps [`begin`, `end`) are read. Copies go to
        `lines`. The first row is of output pixel `first_row`."""
        pointers = ("rows", "lines", "sources")
        numbers = ("registers", "first", "last", "begin", "end", "first_row")
        parameters = (
            *((f"{PTR} noalias", name) for name in pointers),
            *((I64, name) for name in numbers),
        )
        f = Function("find_rows", parameters)
        with f.loop("register", 0, f.argument("registers"), runs=True) as register:
            table = f.element(
                f.argument("rows"), register.index, ROWS * POINTER_BYTES, "table.part"
            )
            lines = f.element(
                f.argument("lines"), register.index, self.blocks.register_bytes, "register.lines"
            )
            source = f.element(f.argument("sources"), register.index, SOURCE_BYTES, "source")
            if self.blocks.whole:
                self._whole(f, table, lines, source)
            else:
                number = f.mul(register.index, ROWS)
                position = f.add(f.argument("first_row"), number, "position")
                self._joined(f, table, lines, source, position)
        return f

    def _whole(self, f: Function, table: Value, lines: Value, source: Value) -> None:
        """Taps whose channels are whole lines: a tap after the other."""
        first = f.argument("first")
        with f.loop("tap", first, f.argument("last")) as tap:
            line = f.element(table, tap.index, self.taps.table_width * POINTER_BYTES, "line")
            behind = f.sub(tap.index, first)
            place = f.element(source, behind, self.pitch, "tap.source")
            begin, end = (
                f.load(I64, f.offset(line, row * POINTER_BYTES), POINTER_BYTES, "row")
                for row in range(2)
            )
            distance = f.sub(end, begin, "distance")
            even = self._are_even(f, line, begin, distance)
            with f.when(even, "even"):
                f.store(begin, place, POINTER_BYTES)
                f.store(distance, f.offset(place, POINTER_BYTES), POINTER_BYTES)
            with f.when(f.emit(I1, "uneven", f"xor {even}, true"), "uneven"):
                copies = f.element(lines, behind, ROWS * self.taps.tap_bytes, "tap.lines")
                self._copy(f, line, copies)
                _list(f, place, copies, self.taps.tap_bytes)

    def _are_even(self, f: Function, line: Value, begin: Value, distance: Value) -> Value:
        """Whether all rows of a register are `distance` bytes from the one before."""
        lanes = integers(range(ROWS))
        far = f.emit(lanes.type, "far", f"mul {lanes}, {f.splat(distance, ROWS).text}")
        expected = f.emit(lanes.type, "expected", f"add {far}, {f.splat(begin, ROWS).text}")
        found = f.load(lanes.type, line, POINTER_BYTES, "found")
        same = f.compare("eq", found, expected)
        bits = f.emit(f"i{ROWS}", "bits", f"bitcast {same} to i{ROWS}")
        return f.emit(I1, "even", f"icmp eq {bits}, -1")

    def _copy(self, f: Function, line: Value, copies: Value) -> None:
        """The steps of a block of all rows of a register."""
        begin, end = f.argument("begin"), f.argument("end")
        with f.loop("row", 0, ROWS, runs=True) as row:
            place = f.element(line, row.index, POINTER_BYTES)
            source = f.load(PTR, place, POINTER_BYTES, "row.address")
            target = f.element(copies, row.index, self.taps.tap_bytes, "row.lines")
            if self.blocks.parts > 1:
                with f.loop("step", begin, end, runs=True) as step:
                    at = f.mul(step.index, ROW_BYTES)
                    _move(f, f.offset(source, at), f.offset(target, at))
            else:
                for step in range(self.blocks.tap_steps):
                    at = step * ROW_BYTES
                    _move(f, f.offset(source, at), f.offset(target, at))

    def _joined(
        self, f: Function, table: Value, lines: Value, source: Value, position: Value
    ) -> None:
        """Channels of all taps of a row behind each other, then zeros; the first row is of output
        pixel `position`."""
        pitch, taps = self.blocks.pitch, self.taps
        first = taps.place(f, position)
        with f.loop("row", 0, ROWS, carried=[first], runs=True) as row:
            (place,) = row.carried
            out = f.element(lines, row.index, pitch, "row.bytes")
            addresses = table, self.zeros
            taps.copy(f, addresses, row.index, f.argument("last"), out, place)
            row.carry(taps.next_place(f, place))
        _list(f, source, lines, pitch)


def _list(f: Function, place: Value, copies: Value, pitch: int) -> None:
    f.store(copies, place, POINTER_BYTES)
    f.store(pitch, f.offset(place, POINTER_BYTES), POINTER_BYTES)


def _move(f: Function, source: Value, target: Value) -> None:
    f.store(f.load(_LINE, source, 1, "lane"), target, 1)
