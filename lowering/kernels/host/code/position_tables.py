"""The addresses of the two operands at every position that one tap of a filter meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Value, integers
from convir.lowering.kernels.host.code.tiles import SLACK

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Phase
    from convir.lowering.kernels.host.code.builder import Module

_FIELDS = 3


def pixels_of_tap(axis: Axis, tap: int) -> range:
    """The output pixels along `axis` at which `tap` reads a position of A."""
    first, last = axis.tap_rows[tap], axis.extent - 1 - axis.tap_rows[tap]
    step = axis.step
    if step < 0:  # the same output pixels, counted from the other end of A
        first, last, step = last, first, -step
    if step == 0:
        return range(axis.size if min(first, last) >= 0 else 0)
    start = max(0, -(first // step))
    return range(start, max(start, min(axis.size, last // step + 1)))


def gather_positions(module: Module, phase: Phase, element_bytes: int) -> Function:
    """The function that lists the output pixels of [`begin`, `end`) that tap number `tap` meets.

    It writes the addresses of A's row and of C's position to `a_rows` and `c_rows`, and how many
    there are to `count`. Output pixels that read padding are left out.
    """
    f = Function(
        "gather_positions",
        (
            (I64, "tap"),
            (I64, "begin"),
            (I64, "end"),
            (PTR, "a"),
            (PTR, "c"),
            (PTR, "a_rows"),
            (PTR, "c_rows"),
            (PTR, "count"),
        ),
    )
    taps = [_tap_fields(f, module, phase, axis) for axis in range(len(phase.axes))]
    inner = phase.axes[-1]
    (low, high, shift) = taps[-1]
    begin, end = f.argument("begin"), f.argument("end")
    a_step = inner.step * inner.row_stride * element_bytes
    c_step = inner.out_stride * element_bytes
    a_lanes = integers([lane * a_step for lane in range(SLACK)])
    c_lanes = integers([lane * c_step for lane in range(SLACK)])
    a_base, c_base = (
        f.emit(I64, "base", f"ptrtoint {f.argument(name)} to i64") for name in ("a", "c")
    )
    a_base = f.add(a_base, f.mul(shift, inner.row_stride * element_bytes), "a.shifted")
    if phase.out_offset:
        c_base = f.add(c_base, phase.out_offset * element_bytes, "c.first")
    first = f.div(begin, inner.size, "outer.first")
    last = f.add(f.div(f.sub(end, 1), inner.size), 1, "outer.last")
    with f.loop("outer", first, last, carried=[Value(I64, "0")], runs=True) as outer:
        a_row, c_row, inside = a_base, c_base, Value("i1", "true")
        position = outer.index
        for number in reversed(range(len(phase.axes) - 1)):
            axis = phase.axes[number]
            place = f.rem(position, axis.size, "place") if number else position
            position = f.div(position, axis.size, "left") if number else position
            axis_low, axis_high, axis_shift = taps[number]
            for test in (f.compare("sge", place, axis_low), f.compare("slt", place, axis_high)):
                inside = f.emit("i1", "inside", f"and {inside}, {test.text}")
            read = f.add(f.mul(place, axis.step), axis_shift, "read")
            a_row = f.add(a_row, f.mul(read, axis.row_stride * element_bytes), "a.row")
            c_row = f.add(c_row, f.mul(place, axis.out_stride * element_bytes), "c.row")
        start = f.mul(outer.index, inner.size, "run.start")
        run_low = f.maximum(low, f.sub(begin, start), "run.low")
        run_high = f.minimum(high, f.sub(end, start), "run.high")
        run_high = f.select(inside, run_high, run_low, "run.high")
        (cursor,) = outer.carried
        with f.loop("run", run_low, run_high, SLACK) as run:
            at = f.add(cursor, f.sub(run.index, run_low), "at")
            for table, row, step, lanes in (
                ("a_rows", a_row, a_step, a_lanes),
                ("c_rows", c_row, c_step, c_lanes),
            ):
                start = f.splat(f.add(row, f.mul(run.index, step)), SLACK)
                addresses = f.emit(lanes.type, "addresses", f"add {lanes}, {start.text}")
                f.store(addresses, f.element(f.argument(table), at, 8), 8)
        length = f.maximum(f.sub(run_high, run_low), 0, "run.length")
        outer.carry(f.add(cursor, length, "cursor"))
    f.store(outer.results[0], f.argument("count"), 8)
    return f


def _tap_fields(
    f: Function, module: Module, phase: Phase, number: int
) -> tuple[Value, Value, Value]:
    """Along axis `number`: the output pixels [low, high) that the tap meets, and its shift in A."""
    axis = phase.axes[number]
    numbers: list[int] = []
    for tap, shift in enumerate(axis.tap_rows):
        met = pixels_of_tap(axis, tap)
        numbers += [met.start, met.stop, shift]
    table = module.table(f"axis{number}_taps", numbers)
    faster = 1
    for other in phase.axes[number + 1 :]:
        faster *= len(other.tap_rows)
    tap = f.rem(f.div(f.argument("tap"), faster), len(axis.tap_rows), "axis.tap")
    line = f.element(table, tap, 8 * _FIELDS, "axis.line")
    low, high, shift = (
        f.load(I64, f.offset(line, 8 * field), 8, name)
        for field, name in enumerate(("low", "high", "shift"))
    )
    return low, high, shift
