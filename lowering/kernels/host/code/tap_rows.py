"""Rows of A with the channels of all taps behind each other, as few channels are multiplied best.

Rows are copied from the addresses of a table. Taps that are neighbours in A, as those along the
innermost axis of an image with channels last, are a run: the table has the address of the first,
whether it lies inside of A or not, and a run is moved at once where all of it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import (
    I1,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Value,
    value,
    vector,
    zero,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.host.code.builder import Operand

_LINE = vector("i8", LINE_BYTES)


@dataclass(frozen=True)
class TapRows:
    """Writes what copies the taps of one row."""

    tap_bytes: int
    """Of a row's channels."""
    table_width: int
    """Rows in a line of the row table."""
    axis: Axis | None
    """The innermost one, if its taps are runs."""

    @staticmethod
    def of(spec: Contraction, table_width: int) -> TapRows:
        """The rows of `spec`, whose channels are contiguous."""
        tap_bytes = spec.in_channels * STORAGE_BYTES[spec.a.type]
        axis = spec.phases[0].axes[-1] if has_runs(spec) else None
        return TapRows(tap_bytes, table_width, axis)

    @property
    def run(self) -> int:
        """Taps of a run."""
        return 1 if self.axis is None else len(self.axis.tap_rows)

    @property
    def before(self) -> int:
        """Bytes of A before its beginning from which addresses in the table are counted: as many
        pixels as the first tap of a run may lie outside."""
        return 0 if self.axis is None else max(0, -self.axis.tap_rows[0]) * self.tap_bytes

    @property
    def zero_bytes(self) -> int:
        """The size of the row of zeros, which a run may be read from."""
        return self.run * self.tap_bytes

    def listed(self, spec: Contraction) -> Contraction:
        """What the row table is of: a tap for each run, which is inside along the innermost axis
        wherever it is."""
        if self.axis is None:
            return spec
        (phase,) = spec.phases
        first = self.axis.tap_rows[0]
        reach = (self.axis.size - 1) * self.axis.step + max(0, first) + 1
        inner = replace(self.axis, tap_rows=(max(0, first),), tap_weights=(0,), extent=reach)
        return replace(spec, phases=(replace(phase, axes=(*phase.axes[:-1], inner)),))

    def place(self, f: Function, position: Value) -> Value:
        """Of an output pixel its place along the innermost axis."""
        return value(0) if self.axis is None else f.rem(position, self.axis.size, "place")

    def next_place(self, f: Function, place: Value) -> Value:
        """Of the following output pixel."""
        if self.axis is None:
            return place
        following = f.add(place, 1, "following")
        return f.select(f.compare("eq", following, self.axis.size), 0, following, "place.next")

    def copy(
        self,
        f: Function,
        table: tuple[Value, Value],
        row: Value,
        taps: Operand,
        to: Value,
        place: Value,
    ) -> None:
        """Copy the taps of one row, and zeros behind them up to a line more.

        Args:
            f: the function.
            table: the table of addresses, and the address of zeros.
            row: the number of the row in the table.
            taps: lines of the table, each a tap or a run.
            to: where the row is copied.
            place: where its output pixel is along the innermost axis.
        """
        lines, zeros = table
        line_bytes = self.table_width * POINTER_BYTES
        run_bytes = self.run * self.tap_bytes

        def each(copy_run: Callable[[Value, Value], None]) -> None:
            with f.loop("tap", 0, taps) as tap:
                line = f.element(lines, tap.index, line_bytes, "line")
                cell = f.element(line, row, POINTER_BYTES)
                address = f.load(PTR, cell, POINTER_BYTES, "row.address")
                copy_run(address, f.element(to, tap.index, run_bytes, "run.bytes"))

        if self.axis is None:
            each(lambda address, target: _move(f, address, target, run_bytes))
        else:
            first = f.add(f.mul(place, self.axis.step), self.axis.tap_rows[0], "first.pixel")
            last = f.compare("sle", first, self.axis.extent - self.run)
            inside = f.emit(I1, "inside", f"and {f.compare('sge', first, 0)}, {last.text}")
            with f.when(inside, "together"):
                each(lambda address, target: _move(f, address, target, run_bytes))
            with f.when(f.emit(I1, "outside", f"xor {inside}, true"), "apart"):
                each(lambda address, target: self._clipped(f, address, target, first, zeros))
        end = f.offset(to, f.mul(taps, run_bytes), "row.end")
        f.store(zero(_LINE), end, 1)

    def _clipped(
        self, f: Function, address: Value, target: Value, first: Value, zeros: Value
    ) -> None:
        """A run of which some taps are padding along the innermost axis."""
        assert self.axis is not None
        nowhere = f.emit(I1, "nowhere", f"icmp eq {address}, {zeros.text}")
        with f.loop("tap.of", 0, self.run, runs=True) as tap:
            pixel = f.add(first, tap.index, "pixel")
            inside = f.compare("ult", pixel, self.axis.extent)
            outside = f.emit(I1, "outside", f"xor {inside}, true")
            empty = f.emit(I1, "empty", f"or {outside}, {nowhere.text}")
            own = f.element(address, tap.index, self.tap_bytes, "own")
            source = f.select(empty, zeros, own, "source")
            _move(f, source, f.element(target, tap.index, self.tap_bytes), self.tap_bytes)


def _move(f: Function, source: Value, target: Value, count: int) -> None:
    """`count` bytes: vectors as wide as there are bytes, of which the last one may begin inside of
    the one before."""
    width = min(LINE_BYTES, 1 << count.bit_length() - 1)
    kind = vector("i8", width)
    starts = [*range(0, count - width, width), count - width]
    loaded = [f.load(kind, f.offset(source, start), 1, "part") for start in starts]
    for start, part in zip(starts, loaded, strict=True):
        f.store(part, f.offset(target, start), 1)


def has_runs(spec: Contraction) -> bool:
    """Whether the taps along the innermost axis are neighbours in A."""
    if len(spec.phases) != 1:
        return False
    axis = spec.phases[0].axes[-1]
    count = len(axis.tap_rows)
    neighbours = count > 1 and axis.tap_rows == tuple(
        range(axis.tap_rows[0], axis.tap_rows[0] + count)
    )
    dense = spec.a.stride == 1 and axis.row_stride == spec.in_channels
    return neighbours and dense and axis.step > 0
