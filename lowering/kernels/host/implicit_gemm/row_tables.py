"""The tables of addresses that a block of output pixels is computed from.

`rows[tap][position]` is the address of the row of A that a tap reads, or of zeros where that lies
outside of A; `outs[position]` is where the position's columns go. Both are filled for runs of
neighbours along the innermost axis, several addresses at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import (
    I1,
    I64,
    POINTER_BYTES,
    PTR,
    Function,
    Value,
    integers,
)
from convir.lowering.kernels.host.code.tiles import SLACK

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.builder import Module, Operand

_PHASE_FIELDS = ("first_tap", "taps", "out_offset")
_AXIS_FIELDS = ("size", "step", "extent", "row_stride", "out_stride", "taps", "first_row")


class PhaseTables:
    """Every phase as a line of numbers, so that one loop serves all of them.

    Offsets and strides are in bytes; `first_tap` counts the taps of earlier phases, `first_row`
    indexes the table of tap rows.
    """

    def __init__(self, module: Module, spec: Contraction) -> None:
        self.rank = len(spec.phases[0].axes)
        self._width = len(_PHASE_FIELDS) + self.rank * len(_AXIS_FIELDS)
        row_bytes, out_bytes = STORAGE_BYTES[spec.a.type], STORAGE_BYTES[spec.c.type]
        numbers: list[int] = []
        tap_rows: list[int] = []
        first_tap = 0
        for phase in spec.phases:
            numbers += [first_tap, phase.taps, phase.out_offset * out_bytes]
            first_tap += phase.taps
            for axis in phase.axes:
                numbers += [
                    axis.size,
                    axis.step,
                    axis.extent,
                    axis.row_stride * row_bytes,
                    axis.out_stride * out_bytes,
                    len(axis.tap_rows),
                    len(tap_rows),
                ]
                tap_rows += axis.tap_rows
        self._phases = module.table("phases", numbers)
        self._tap_rows = module.table("tap_rows", tap_rows or [0])

    def line(self, f: Function, phase: Value) -> Value:
        """The address of the numbers of phase `phase`."""
        return f.element(self._phases, phase, self._width * 8, "phase.line")

    def field(self, f: Function, line: Value, name: str, axis: int | None = None) -> Value:
        """One number of a phase, or of one of its axes."""
        if axis is None:
            place = _PHASE_FIELDS.index(name)
        else:
            place = len(_PHASE_FIELDS) + axis * len(_AXIS_FIELDS) + _AXIS_FIELDS.index(name)
        return f.load(I64, f.offset(line, place * 8), 8, name)

    def tap_row(self, f: Function, line: Value, axis: int, tap: Value) -> Value:
        """The position of A that tap number `tap` along `axis` reads at output pixel 0."""
        place = f.add(self.field(f, line, "first_row", axis), tap)
        return f.load(I64, f.element(self._tap_rows, place, 8), 8, "tap.row")


class OutLister:
    """Writes the function that fills `outs` for some output pixels of one phase."""

    POINTERS = ("line", "c", "outs")
    NUMBERS = ("begin", "end")

    def __init__(self, tables: PhaseTables, name: str = "list_outs") -> None:
        """Begin the function.

        Args:
            tables: the numbers of all phases.
            name: its name.
        """
        self._tables = tables
        self._inner = tables.rank - 1
        pointers, numbers = self.POINTERS, self.NUMBERS
        parameters = (*((PTR, name) for name in pointers), *((I64, name) for name in numbers))
        self._f = Function(name, parameters)

    def function(self) -> Function:
        """Fill the table for the output pixels [`begin`, `end`)."""
        f = self._f
        begin, end, size = f.argument("begin"), f.argument("end"), self._axis("size")
        out_lanes = self._lanes(self._axis("out_stride"))
        out_base = f.add(_address(f, f.argument("c")), self._number("out_offset"), "out.base")
        first = f.div(begin, size, "outer.first")
        last = f.add(f.div(f.sub(end, 1), size), 1, "outer.last")
        with f.loop("outer", first, last, runs=True) as outer:
            start = f.mul(outer.index, size, "start")
            low = f.maximum(f.sub(begin, start), 0, "low")
            high = f.minimum(f.sub(end, start), size, "high")
            places = self._outer_places(outer.index)
            out = out_base
            for axis, place in enumerate(places):
                out = f.add(out, f.mul(place, self._axis("out_stride", axis)), "out.outer")
            with f.loop("run", low, high, SLACK, runs=True) as run:
                cell = f.sub(f.add(start, run.index), begin, "cell")
                here = f.add(out, f.mul(run.index, self._axis("out_stride")), "out.run")
                self._store(self._along(here, out_lanes), "outs", cell)
                self._visit(places, run.index, cell)
        return f

    def _visit(self, places: list[Value], position: Value, cell: Value) -> None:
        """What else is done for a run of output pixels."""

    def _outer_places(self, number: Value) -> list[Value]:
        """The position along each axis but the innermost."""
        f = self._f
        places: list[Value] = []
        for axis in reversed(range(1, self._inner)):
            size = self._axis("size", axis)
            places.insert(0, f.rem(number, size, "place"))
            number = f.div(number, size, "left")
        return [number, *places] if self._inner else []

    def _lanes(self, stride: Value) -> Value:
        """0, stride, 2 · stride, …"""
        f, numbers = self._f, integers(range(SLACK))
        return f.emit(numbers.type, "lanes", f"mul {numbers}, {f.splat(stride, SLACK).text}")

    def _along(self, first: Value, lanes: Value) -> Value:
        """`first` plus each of `lanes`."""
        f = self._f
        return f.emit(lanes.type, "along", f"add {lanes}, {f.splat(first, SLACK).text}")

    def _store(self, addresses: Value, table: str, cell: Value) -> None:
        f = self._f
        f.store(addresses, f.element(f.argument(table), cell, POINTER_BYTES), POINTER_BYTES)

    def _number(self, name: str) -> Value:
        return self._tables.field(self._f, self._f.argument("line"), name)

    def _axis(self, name: str, axis: int | None = None) -> Value:
        """A number of `axis`, the innermost if None."""
        number = self._inner if axis is None else axis
        return self._tables.field(self._f, self._f.argument("line"), name, number)


class TableFiller(OutLister):
    """Writes the function that fills both tables for some output pixels of one phase."""

    POINTERS = ("line", "a", "c", "rows", "outs")
    NUMBERS = ("begin", "end", "padded")

    def __init__(self, tables: PhaseTables, width: int, zero_row: Value, spill_row: Value) -> None:
        """Begin the function.

        Args:
            tables: the numbers of all phases.
            width: output pixels in a line of the row table, slack included.
            zero_row: the address of zeros.
            spill_row: the address of a row that nobody reads.
        """
        super().__init__(tables, "fill_tables")
        f = self._f
        self._width = width
        self._spilled, self._nothing = _address(f, spill_row), _address(f, zero_row)
        # What every run needs, in all lanes.
        self._nowhere = f.splat(self._nothing, SLACK, "nowhere")
        self._extents = f.splat(self._axis("extent"), SLACK, "extents")
        self._read_lanes = self._lanes(self._axis("step"))
        self._row_lanes = self._lanes(f.mul(self._axis("step"), self._axis("row_stride")))

    def function(self) -> Function:
        """Fill the tables for the output pixels [`begin`, `end`).

        Output pixels from there up to `padded`, a whole number of tiles, read zeros and are stored
        to the spill row.
        """
        f = super().function()
        self._fill_padding()
        return f

    def _visit(self, places: list[Value], position: Value, cell: Value) -> None:
        self._fill_taps(places, position, cell)

    def _fill_taps(self, places: list[Value], position: Value, cell: Value) -> None:
        """The rows of all taps for the run of output pixels that begins at `position`."""
        f = self._f
        first_read = f.mul(position, self._axis("step"), "first.read")
        base = _address(f, f.argument("a"))

        def nest(axis: int, row: Value, inside: Value, number: Operand) -> None:
            count = self._axis("taps", axis)
            with f.loop(f"tap{axis}.", 0, count) as tap:
                shift = self._tables.tap_row(f, f.argument("line"), axis, tap.index)
                number = f.add(f.mul(number, count), tap.index, "tap.number")
                if axis == self._inner:
                    self._fill_tap(f.add(first_read, shift), row, inside, (number, cell))
                    return
                step, extent = self._axis("step", axis), self._axis("extent", axis)
                read = f.add(f.mul(places[axis], step), shift, "read")
                here = f.compare("ult", read, extent)
                inside = f.emit(I1, "inside", f"and {inside}, {here.text}")
                row = f.add(row, f.mul(read, self._axis("row_stride", axis)), "row.outer")
                nest(axis + 1, row, inside, number)

        nest(0, base, Value(I1, "true"), 0)

    def _fill_tap(
        self, read: Value, base: Value, inside: Value, place: tuple[Value, Value]
    ) -> None:
        """One tap: its rows from position `read` of A on, or zeros."""
        f = self._f
        reads = self._along(read, self._read_lanes)
        here = f.compare("ult", reads, self._extents)
        valid = f.emit(here.type, "valid", f"and {here}, {f.splat(inside, SLACK).text}")
        start = f.add(base, f.mul(read, self._axis("row_stride")), "row.first")
        rows = f.select(valid, self._along(start, self._row_lanes), self._nowhere, "rows")
        tap, cell = place
        self._store(rows, "rows", f.add(f.mul(tap, self._width), cell, "row.cell"))

    def _fill_padding(self) -> None:
        f = self._f
        count = f.sub(f.argument("end"), f.argument("begin"), "count")
        with f.loop("pad", count, f.argument("padded")) as pad:
            self._store(self._spilled, "outs", pad.index)
            with f.loop("pad.tap", 0, self._number("taps")) as tap:
                cell = f.add(f.mul(tap.index, self._width), pad.index, "pad.cell")
                self._store(self._nothing, "rows", cell)


def _address(f: Function, pointer: Value) -> Value:
    return f.emit(I64, "address", f"ptrtoint {pointer} to i64")
