"""Partial results of a gradient of weights, added up and stored where B has them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, LINE_BYTES, PTR, Function, Module, Value
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.tiles import BroadcastTile, GroupTile
from convir.lowering.kernels.host.code.transpose import pieces

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.wgrad.blocking import WeightBlocking

ENTRY = "add_parts"
"""The kernel's name; its arguments are the addresses of the partial results and of B."""


SCRATCH_BYTES = 64 * 1024
"""Accumulators of a row on their way to B, if its columns are no neighbours there."""


@dataclass(frozen=True)
class PartialResults:
    """Writes the kernel that adds up the parts, always in the same order."""

    spec: Contraction
    lanes: Lanes
    cuts: WeightBlocking
    part_bytes: int
    """Size of one part, `[group][tap][row][column]`."""

    @property
    def items(self) -> int:
        """How many items of work there are: one per group and row."""
        return self.cuts.groups * self.cuts.rows

    @property
    def _strides(self) -> tuple[int, int]:
        """Elements of B between two rows, and between two columns of one group."""
        b = self.spec.b
        if self.cuts.lanes_are_in_channels:
            return b.out_channel_stride, b.in_channel_stride
        return b.in_channel_stride, b.out_channel_stride

    def write(self, module: Module) -> None:
        """Add the function `add_parts` to `module`."""
        spec, cuts, lanes = self.spec, self.cuts, self.lanes
        storage, size = Storage(lanes, spec.b.type), lanes.bytes
        (phase,) = spec.phases
        offsets = [
            sum(tap) * storage.bytes for tap in product(*(axis.tap_weights for axis in phase.axes))
        ]
        weights = module.table("tap_weights", offsets)
        direct = self._strides[1] == 1 and isinstance(cuts.tile, BroadcastTile)
        line_bytes = cuts.padded_out_channels * size
        together = 1 if direct else max(1, min(phase.taps, SCRATCH_BYTES // line_bytes))
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        parts, b = f.load(PTR, args, 8, "parts"), f.load(PTR, f.offset(args, 8), 8, "b")
        scratch = f.stack(8 if direct else together * line_bytes, LINE_BYTES, "scratch")
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            row, group = f.rem(item.index, cuts.rows, "row"), f.div(item.index, cuts.rows, "group")
            target = f.element(b, group, spec.b.group_stride * storage.bytes)
            target = f.element(target, row, self._strides[0] * storage.bytes, "b.row")
            first = f.mul(group, phase.taps * cuts.rows, "first.line")
            with f.loop("tap", 0, phase.taps, together, runs=True) as tap:
                end = f.minimum(f.add(tap.index, together), phase.taps, "tap.end")
                with f.loop("one", tap.index, end, runs=True) as one:
                    number = f.add(f.add(first, f.mul(one.index, cuts.rows)), row, "line.number")
                    source = f.element(parts, number, line_bytes, "part")
                    if direct:
                        offset = f.load(I64, f.element(weights, one.index, 8), 8, "weight")
                        self._add_vectors(f, source, f.offset(target, offset), storage)
                    else:
                        place = f.element(scratch, f.sub(one.index, tap.index), line_bytes)
                        self._add_line(f, source, place)
                if not direct:
                    self._scatter(f, scratch, target, weights, (tap.index, end), storage)
        module.add(f)

    def _add_vectors(self, f: Function, source: Value, target: Value, storage: Storage) -> None:
        """Columns are contiguous in B."""
        lanes = self.lanes
        for piece in pieces(self.cuts.out_channels, lanes.count):
            with f.loop("vector", piece.first, piece.end, runs=True) as v:
                at = f.element(source, v.index, lanes.count * lanes.bytes)
                place = f.element(target, v.index, lanes.count * storage.bytes)
                total = self._add_up(f, at)
                if self.spec.accumulate:
                    before = storage.load(f, place, piece.active)
                    total = f.float_binary("fadd", before, total, "after")
                storage.store(f, total, place, piece.active)

    def _add_line(self, f: Function, source: Value, line: Value) -> None:
        lanes = self.lanes
        with f.loop("vector", 0, self.cuts.padded_out_channels, lanes.count, runs=True) as v:
            total = self._add_up(f, f.element(source, v.index, lanes.bytes))
            f.store(total, f.element(line, v.index, lanes.bytes), lanes.bytes)

    def _scatter(
        self,
        f: Function,
        scratch: Value,
        target: Value,
        weights: Value,
        taps: tuple[Value, Value],
        storage: Storage,
    ) -> None:
        """Store the accumulators of a row, the taps of a column one after the other."""
        size, tile = self.lanes.bytes, self.cuts.tile
        with f.loop("column", 0, self.cuts.out_channels, runs=True) as column:
            lane, place = column.index, f.mul(column.index, self._strides[1] * storage.bytes)
            if isinstance(tile, GroupTile):
                lane, place = self._group_column(f, tile, column.index, storage)
            out = f.offset(target, place, "b.column")
            with f.loop("tap.of", *taps, runs=True) as tap:
                line = f.mul(f.sub(tap.index, taps[0]), self.cuts.padded_out_channels)
                at = f.element(scratch, f.add(line, lane, "lane"), size)
                total = f.load(self.lanes.scalar, at, size)
                offset = f.load(I64, f.element(weights, tap.index, 8), 8, "weight")
                at = f.offset(out, offset)
                if self.spec.accumulate:
                    before = storage.load_scalar(f, at)
                    total = f.float_binary("fadd", before, total, "after")
                storage.store_scalar(f, total, at)

    def _group_column(
        self, f: Function, tile: GroupTile, column: Value, storage: Storage
    ) -> tuple[Value, Value]:
        """Columns of several groups: the lane of column `column`, and its byte in B."""
        b, lanes = self.spec.b, self.lanes.count
        together = tile.groups_per_vector(lanes)
        group, within = f.div(column, tile.width, "member"), f.rem(column, tile.width, "within")
        vector = f.mul(f.div(group, together), lanes, "vector.lane")
        lane = f.add(f.mul(f.rem(group, together), tile.width), within)
        place = f.add(f.mul(group, b.group_stride), f.mul(within, b.out_channel_stride))
        return f.add(vector, lane, "lane"), f.mul(place, storage.bytes)

    def _add_up(self, f: Function, place: Value) -> Value:
        """The sum over all parts of the vector that lies at `place` in the first."""
        type_, size = self.lanes.type, self.lanes.bytes
        first = f.load(type_, place, size)
        with f.loop("split", 1, self.cuts.splits, carried=[first]) as add:
            other = f.load(type_, f.element(place, add.index, self.part_bytes), size)
            add.carry(f.float_binary("fadd", add.carried[0], other, "total"))
        return add.results[0]
