"""From accumulators in scratch memory to C: its layout and its type.

Where C holds channels contiguous in the type of the arithmetic, tiles store straight into it.
Otherwise an item's accumulators go to scratch memory that stays in the cache, `[row][column]`, and
from there to C in one pass: through what follows the contraction, rounded once, and transposed
where output pixels are the neighbours.
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
    Module,
    Value,
    integers,
    zero,
)
from convir.lowering.kernels.host.code.elements.storage import storage_of
from convir.lowering.kernels.host.code.transpose import transpose

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Channels
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.elements.storage import Storage
    from convir.lowering.kernels.host.code.fused_store import FusedStore


@dataclass(frozen=True)
class Epilogue:
    """Writes the function that stores an item's accumulators."""

    lanes: Lanes
    layout: Channels
    line_bytes: int
    """Bytes of a row of scratch memory."""
    accumulate: bool
    fused: FusedStore | None = None
    rest: int | None = None
    """Columns behind whole vectors, where an item has all of them or none; None where their number
    may be any."""

    @property
    def storage(self) -> Storage:
        """How C is written."""
        if self.fused is not None and not self.accumulate:
            return self.fused.storage
        return storage_of(self.lanes, self.layout.type)

    def function(self, module: Module) -> Function:
        """Store `out_channels` columns of `count` rows, each to the address that `outs` has for it.

        Scratch memory has room for whole vectors in every row.
        """
        f = Function(
            "finish",
            (
                (f"{PTR} noalias", "scratch"),
                (f"{PTR} noalias", "outs"),
                (I64, "count"),
                (I64, "out_channels"),
                *(self.fused.parameters if self.fused is not None else ()),
            ),
        )
        if self.layout.stride == 1:
            self._rows(f)
        else:
            self._columns(f)
        return module.add(f)

    def _rows(self, f: Function) -> None:
        """Channels are contiguous: whole vectors, then the columns that are left."""
        lanes, out_channels = self.lanes, f.argument("out_channels")
        whole = f.mul(f.div(out_channels, lanes.count), lanes.count, "whole")
        with f.loop("row", 0, f.argument("count"), runs=True) as row:
            source = f.element(f.argument("scratch"), row.index, self.line_bytes)
            target = self._out(f, row.index)
            with f.loop("vector", 0, whole, lanes.count) as v:
                self._move(f, source, target, v.index, lanes.count)
            if self.rest is None:
                with f.loop("rest", whole, out_channels) as rest:
                    self._move(f, source, target, rest.index, 0)
            elif self.rest:
                with f.when(f.compare("slt", whole, out_channels), "rest"):
                    self._move(f, source, target, whole, self.rest)

    def _columns(self, f: Function) -> None:
        """Output pixels may be neighbours: as many of them as lanes are transposed at a time."""
        lanes, out_channels, count = (
            self.lanes.count,
            f.argument("out_channels"),
            f.argument("count"),
        )
        whole = f.mul(f.div(count, lanes), lanes, "whole")
        with f.loop("rows", 0, whole, lanes) as rows:
            together = self._are_contiguous(f, rows.index)
            with f.when(together, "run"):
                self._squares(f, rows.index)
            with f.when(f.emit(I1, "apart", f"xor {together}, true"), "apart"):
                self._apart(f, rows.index)
        with f.loop("column", 0, out_channels) as column, f.loop("row", whole, count) as row:
            self._one(f, row.index, column.index)

    def _are_contiguous(self, f: Function, row: Value) -> Value:
        """Whether the addresses of as many rows as lanes, `row` the first, follow each other."""
        lanes = self.lanes.count
        steps = integers([lane * self.storage.bytes for lane in range(lanes)])
        place = f.element(f.argument("outs"), row, POINTER_BYTES)
        outs = f.load(steps.type, place, POINTER_BYTES, "outs")
        first = f.splat(f.load(I64, place, POINTER_BYTES, "first"), lanes)
        expected = f.emit(steps.type, "expected", f"add {steps}, {first.text}")
        same = f.compare("eq", outs, expected)
        bits = f.emit(f"i{lanes}", "bits", f"bitcast {same} to i{lanes}")
        return f.emit(I1, "together", f"icmp eq {bits}, -1")

    def _squares(self, f: Function, row: Value) -> None:
        lanes, size, out_channels = self.lanes, self.lanes.bytes, f.argument("out_channels")
        source = f.element(f.argument("scratch"), row, self.line_bytes)
        target = self._out(f, row)
        column_bytes = self.layout.stride * self.storage.bytes
        whole = f.mul(f.div(out_channels, lanes.count), lanes.count, "whole.columns")
        with f.loop("column", 0, whole, lanes.count) as column:
            at = f.element(source, column.index, size)
            loaded = [
                f.load(lanes.type, f.offset(at, line * self.line_bytes), size)
                for line in range(lanes.count)
            ]
            out = f.element(target, column.index, column_bytes)
            for number, line in enumerate(transpose(f, loaded)):
                place = f.offset(out, number * column_bytes)
                self._store_positions(f, line, f.add(column.index, number), place, lanes.count)
        with f.loop("rest", whole, out_channels) as rest:
            gathered = zero(lanes.type)
            at = f.element(source, rest.index, size)
            for line in range(lanes.count):
                one = f.load(lanes.scalar, f.offset(at, line * self.line_bytes), size)
                gathered = f.emit(
                    lanes.type, "gathered", f"insertelement {gathered}, {one}, i64 {line}"
                )
            place = f.element(target, rest.index, column_bytes)
            self._store_positions(f, gathered, rest.index, place, lanes.count)

    def _apart(self, f: Function, row: Value) -> None:
        """Output pixels that are no neighbours, as those of a phase: one after the other of one
        column, as those of another may fall into the same places of the cache."""
        with f.loop("column", 0, f.argument("out_channels")) as column:
            for line in range(self.lanes.count):
                self._one(f, f.add(row, line), column.index)

    def _one(self, f: Function, row: Value, column: Value) -> None:
        size = self.lanes.bytes
        source = f.element(f.argument("scratch"), row, self.line_bytes)
        total = f.load(self.lanes.scalar, f.element(source, column, size), size)
        column_bytes = self.layout.stride * self.storage.bytes
        place = f.element(self._out(f, row), column, column_bytes)
        self._store_positions(f, total, column, place, 0)

    def _move(self, f: Function, source: Value, target: Value, column: Value, active: int) -> None:
        """Neighbouring columns of one row, or one column if `active` is 0."""
        kind = self.lanes.type if active else self.lanes.scalar
        size = self.lanes.bytes
        # Behind the columns that exist there is room for a vector.
        total = f.load(kind, f.element(source, column, size), size)
        place = f.element(target, column, self.storage.bytes)
        if self.fused is not None:
            behind = self.fused.behind(f, place)
            total = self.fused.of_channels(f, total, column, active, behind)
        self._store(f, total, place, active)

    def _store_positions(
        self, f: Function, total: Value, column: Value, place: Value, active: int
    ) -> None:
        """Neighbouring output pixels of one column, or one position if `active` is 0."""
        if self.fused is not None:
            total = self.fused.of_positions(f, total, column, active, place)
        self._store(f, total, place, active)

    def _store(self, f: Function, total: Value, place: Value, active: int) -> None:
        if self.accumulate:
            before = (
                self.storage.load(f, place, active)
                if active
                else self.storage.load_scalar(f, place)
            )
            total = self.lanes.add(f, before, total)
        if active:
            self.storage.store(f, total, place, active)
        else:
            self.storage.store_scalar(f, total, place)

    def _out(self, f: Function, row: Value) -> Value:
        return f.load(PTR, f.element(f.argument("outs"), row, POINTER_BYTES), 8, "out")
