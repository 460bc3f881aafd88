"""Partial results of a gradient of weights, added up and stored where B has them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import I64, PTR, Function, Module, Value
from convir.lowering.llvm.contraction.row_kernel import KERNEL_PARAMETERS
from convir.lowering.llvm.contraction.storage import Storage
from convir.lowering.llvm.contraction.tiles import GroupTile
from convir.lowering.llvm.contraction.transpose import pieces

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.spec import HostContraction
    from convir.lowering.llvm.contraction.weight_blocking import WeightBlocking

ENTRY = "add_parts"
"""The kernel's name; its arguments are the addresses of the partial results and of B."""


@dataclass(frozen=True)
class PartialResults:
    """Writes the kernel that adds up the parts, always in the same order."""

    spec: HostContraction
    lanes: Lanes
    cuts: WeightBlocking
    part_bytes: int
    """Size of one part, `[group][tap][row][column]`."""

    def write(self, module: Module) -> None:
        """Add the function `add_parts` to `module`: an item is a row of one tap."""
        spec, cuts, lanes = self.spec, self.cuts, self.lanes
        storage, size = Storage(lanes, spec.b.type), lanes.bytes
        (phase,) = spec.phases
        weights = [
            sum(tap) * storage.bytes for tap in product(*(axis.tap_weights for axis in phase.axes))
        ]
        taps = module.table("tap_weights", weights)
        row_stride, column_stride = spec.b.depth_stride, spec.b.column_stride
        if cuts.columns_are_depth:
            row_stride, column_stride = column_stride, row_stride
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        args = f.argument("args")
        parts, b = f.load(PTR, args, 8, "parts"), f.load(PTR, f.offset(args, 8), 8, "b")
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            row = f.rem(item.index, cuts.rows, "row")
            matrix = f.div(item.index, cuts.rows, "matrix")
            tap, group = f.rem(matrix, phase.taps, "tap"), f.div(matrix, phase.taps, "group")
            target = f.element(b, group, spec.b.group_stride * storage.bytes)
            target = f.offset(target, f.load(I64, f.element(taps, tap, 8), 8, "weight"))
            target = f.element(target, row, row_stride * storage.bytes, "b.row")
            source = f.element(parts, item.index, cuts.padded_columns * size, "part")
            if isinstance(cuts.tile, GroupTile):
                self._add_groups(f, source, target, storage, cuts.tile)
            elif column_stride == 1:
                self._add_vectors(f, source, target, storage)
            else:
                self._add_scattered(f, source, target, storage, column_stride)
        module.add(f)

    def _add_vectors(self, f: Function, source: Value, target: Value, storage: Storage) -> None:
        lanes = self.lanes
        for piece in pieces(self.cuts.columns, lanes.count):
            with f.loop("vector", piece.first, piece.end, runs=True) as v:
                at = f.element(source, v.index, lanes.count * lanes.bytes)
                place = f.element(target, v.index, lanes.count * storage.bytes)
                total = self._add_up(f, lanes.type, at)
                if self.spec.accumulate:
                    before = storage.load(f, place, piece.active)
                    total = f.float_binary("fadd", before, total, "after")
                storage.store(f, total, place, piece.active)

    def _add_scattered(
        self, f: Function, source: Value, target: Value, storage: Storage, stride: int
    ) -> None:
        with f.loop("column", 0, self.cuts.columns, runs=True) as column:
            at = f.element(source, column.index, self.lanes.bytes)
            place = f.element(target, column.index, stride * storage.bytes)
            self._store_one(f, self._add_up(f, self.lanes.scalar, at), place, storage)

    def _add_groups(
        self, f: Function, source: Value, target: Value, storage: Storage, tile: GroupTile
    ) -> None:
        """Groups lie in the vectors that they shared."""
        b, lanes = self.spec.b, self.lanes
        together = tile.groups_per_vector(lanes.count)
        with (
            f.loop("member", 0, self.spec.groups, runs=True) as group,
            f.loop("column", 0, tile.width, runs=True) as column,
        ):
            lane = f.mul(f.div(group.index, together), lanes.count, "vector")
            lane = f.add(lane, f.mul(f.rem(group.index, together), tile.width))
            at = f.element(source, f.add(lane, column.index, "lane"), lanes.bytes)
            place = f.element(target, group.index, b.group_stride * storage.bytes)
            place = f.element(place, column.index, b.column_stride * storage.bytes)
            self._store_one(f, self._add_up(f, lanes.scalar, at), place, storage)

    def _store_one(self, f: Function, total: Value, place: Value, storage: Storage) -> None:
        if self.spec.accumulate:
            before = storage.load_scalar(f, place)
            total = f.float_binary("fadd", before, total, "after")
        storage.store_scalar(f, total, place)

    def _add_up(self, f: Function, type_: str, place: Value) -> Value:
        """The sum over all parts of what lies at `place` in the first."""
        first = f.load(type_, place, self.lanes.bytes)
        with f.loop("split", 1, self.cuts.splits, carried=[first]) as add:
            other = f.load(type_, f.element(place, add.index, self.part_bytes), self.lanes.bytes)
            add.carry(f.float_binary("fadd", add.carried[0], other, "total"))
        return add.results[0]
