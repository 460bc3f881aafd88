"""The table of row addresses that a block of output positions is computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import I64, PTR, Function, Value, integers
from convir.lowering.llvm.contraction.microkernel import POINTER_BYTES
from convir.lowering.llvm.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.builder import Module
    from convir.lowering.llvm.contraction.spec import HostContraction

SLACK = 8
"""Addresses are written so many at a time; each line of a table has room for the excess."""

_PHASE_FIELDS = ("first_tap", "taps", "out_offset")
_AXIS_FIELDS = ("size", "step", "extent", "row_stride", "out_stride", "taps", "first_row")


class PhaseTables:
    """Every phase as a line of numbers, so that one loop serves all of them.

    Offsets and strides are in bytes; `first_tap` counts the taps of earlier phases, `first_row`
    indexes the table of tap rows.
    """

    def __init__(self, module: Module, spec: HostContraction) -> None:
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
        self.tap_rows = module.table("tap_rows", tap_rows or [0])

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


def fill_tables(tables: PhaseTables, zero_row: Value, spill_row: Value, width: int) -> Function:
    """The function that fills the tables for the positions [`begin`, `end`) of one phase.

    Rows up to the next full tile, `padded`, read zeros and are stored to a row nobody reads.
    """
    f = Function(
        "fill_tables",
        (
            (PTR, "line"),
            (I64, "begin"),
            (I64, "end"),
            (I64, "padded"),
            (PTR, "a"),
            (PTR, "c"),
            (PTR, "rows"),
            (PTR, "outs"),
        ),
    )
    line, begin, end = f.argument("line"), f.argument("begin"), f.argument("end")
    inner = tables.rank - 1

    def number(name: str, axis: int | None = None) -> Value:
        return tables.field(f, line, name, axis)

    out = f.offset(f.argument("c"), number("out_offset"), "c.phase")
    size, step, stride = number("size", inner), number("step", inner), number("row_stride", inner)
    extents = f.splat(number("extent", inner), SLACK, "extents")
    lane = integers(range(SLACK))
    position_lanes = f.emit(lane.type, "positions", f"mul {lane}, {f.splat(step, SLACK).text}")
    step_bytes = f.mul(step, stride, "step.bytes")
    row_lanes = f.emit(lane.type, "rows.lane", f"mul {lane}, {f.splat(step_bytes, SLACK).text}")
    out_stride = number("out_stride", inner)
    out_lanes = f.emit(lane.type, "outs.lane", f"mul {lane}, {f.splat(out_stride, SLACK).text}")
    nowhere = f.splat(_address(f, zero_row), SLACK, "nowhere")
    bases = _address(f, f.argument("a"))
    outs_base = _address(f, out)

    # Runs of neighbours along the innermost axis, SLACK of them at a time.
    start = f.div(begin, size, "outer.first")
    stop = f.add(f.div(f.sub(end, 1), size), 1, "outer.last")
    with f.loop("outer", start, stop, runs=True) as outer:
        at = f.mul(outer.index, size, "run.start")
        low = f.select(f.compare("sgt", begin, at), f.sub(begin, at), 0, "low")
        high = f.minimum(f.sub(end, at), size, "high")
        position, outside = outer.index, outs_base
        positions: list[Value] = []
        for axis in reversed(range(inner)):
            axis_size = number("size", axis)
            place = f.rem(position, axis_size, "place") if axis else position
            position = f.div(position, axis_size, "left") if axis else position
            positions.insert(0, place)
            outside = f.add(outside, f.mul(place, number("out_stride", axis)), "out.outer")
        with f.loop("run", low, high, SLACK, runs=True) as run:
            table_row = f.sub(f.add(at, run.index), begin, "table.row")
            first_out = f.add(outside, f.mul(run.index, out_stride), "out.first")
            _store_lanes(f, f.argument("outs"), table_row, first_out, out_lanes)
            place = f.mul(run.index, step, "place.inner")
            _fill_taps(
                f, tables, line, positions, place, bases, table_row, width,
                (position_lanes, row_lanes, extents, nowhere), stride,
            )  # fmt: skip
    with f.loop("pad", f.sub(end, begin), f.argument("padded")) as pad:
        f.store(_address(f, spill_row), f.element(f.argument("outs"), pad.index, 8), 8)
        with f.loop("pad.tap", 0, number("taps")) as tap:
            cell = f.add(f.mul(tap.index, width), pad.index, "cell")
            f.store(_address(f, zero_row), f.element(f.argument("rows"), cell, 8), 8)
    return f


def _fill_taps(
    f: Function,
    tables: PhaseTables,
    line: Value,
    positions: list[Value],
    inner_position: Value,
    base: Value,
    table_row: Value,
    width: int,
    lanes: tuple[Value, Value, Value, Value],
    inner_stride: Value,
) -> None:
    position_lanes, row_lanes, extents, nowhere = lanes
    inner = tables.rank - 1

    def tap_row(axis: int, tap: Value) -> Value:
        first = tables.field(f, line, "first_row", axis)
        return f.load(I64, f.element(tables.tap_rows, f.add(first, tap), 8), 8, "tap.row")

    def nest(axis: int, address: Value, inside: Value, tap: Value) -> None:
        count = tables.field(f, line, "taps", axis)
        with f.loop(f"tap{axis}.", 0, count) as loop:
            number = f.add(f.mul(tap, count), loop.index, "tap.number")
            shift = tap_row(axis, loop.index)
            if axis < inner:
                step = tables.field(f, line, "step", axis)
                position = f.add(f.mul(positions[axis], step), shift, "position")
                extent = tables.field(f, line, "extent", axis)
                here = f.compare("ult", position, extent)
                both = f.emit("i1", "inside", f"and {inside}, {here.text}")
                stride = tables.field(f, line, "row_stride", axis)
                nest(axis + 1, f.add(address, f.mul(position, stride)), both, number)
                return
            first = f.add(inner_position, shift, "first")
            position = f.emit(
                position_lanes.type,
                "position",
                f"add {position_lanes}, {f.splat(first, SLACK).text}",
            )
            here = f.compare("ult", position, extents)
            both = f.emit(here.type, "inside", f"and {here}, {f.splat(inside, SLACK).text}")
            start = f.add(address, f.mul(first, inner_stride), "row.first")
            rows = f.emit(row_lanes.type, "row", f"add {row_lanes}, {f.splat(start, SLACK).text}")
            cell = f.add(f.mul(number, width), table_row, "cell")
            place = f.element(f.argument("rows"), cell, POINTER_BYTES)
            f.store(f.select(both, rows, nowhere, "row"), place, POINTER_BYTES)

    nest(0, base, Value("i1", "true"), Value(I64, "0"))


def _store_lanes(f: Function, table: Value, row: Value, first: Value, lanes: Value) -> None:
    addresses = f.emit(lanes.type, "outs", f"add {lanes}, {f.splat(first, SLACK).text}")
    f.store(addresses, f.element(table, row, POINTER_BYTES), POINTER_BYTES)


def _address(f: Function, pointer: Value) -> Value:
    return f.emit(I64, "address", f"ptrtoint {pointer} to i64")
