"""The kernel of a gradient of weights: for each tap a product that is reduced over positions.

    for item:                          a part of the positions, of the taps, and a panel, of a group
      for block of positions:  for tap:  list the positions that the tap meets, pack their vectors
        for tile of rows:        microkernel: an outer product a position

Parts of the positions have partial results of their own, which `add_parts` adds up in a fixed
order, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import I64, PTR, Function, Module, Value, zero
from convir.lowering.llvm.contraction.position_tables import SLACK, gather_positions
from convir.lowering.llvm.contraction.row_kernel import KERNEL_PARAMETERS
from convir.lowering.llvm.contraction.storage import Storage
from convir.lowering.llvm.contraction.tiles import BroadcastTile
from convir.lowering.llvm.contraction.transpose import pieces

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.spec import HostContraction
    from convir.lowering.llvm.contraction.weight_blocking import WeightBlocking

ENTRY = "contract_weights"
"""The kernel's name; its arguments are the addresses of A, C and the partial results."""

ADD_ENTRY = "add_parts"
"""The second kernel's name; its arguments are the addresses of the partial results and of B."""

_LINE_BYTES = 64
_POINTER_BYTES = 8


@dataclass(frozen=True)
class WeightKernel:
    """Writes the kernels of one gradient of weights for one CPU."""

    spec: HostContraction
    lanes: Lanes
    cuts: WeightBlocking

    @property
    def items(self) -> int:
        """How many items of work `contract_weights` has."""
        cuts = self.cuts
        return cuts.splits * self.spec.groups * cuts.tap_parts * cuts.panels

    @property
    def add_items(self) -> int:
        """How many items of work `add_parts` has: one per group, tap and row."""
        return self.spec.groups * self.spec.taps * self.cuts.rows

    @property
    def part_bytes(self) -> int:
        """Size of one partial result, `[group][tap][row][column]`."""
        return self.add_items * self.cuts.padded_columns * self.lanes.bytes

    @property
    def workspace_bytes(self) -> int:
        """Size of all partial results."""
        return self.cuts.splits * self.part_bytes

    def write(self, module: Module) -> None:
        """Add both kernels to `module`."""
        gather = module.add(gather_positions(module, self.spec.phases[0], self.lanes.bytes))
        module.add(self._entry(module, gather))
        module.add(self._add_entry(module))

    def _entry(self, module: Module, gather: Function) -> Function:
        spec, cuts, size = self.spec, self.cuts, self.lanes.bytes
        (phase,) = spec.phases
        panel_columns = cuts.tile.columns(self.lanes.count)
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        table_bytes = (cuts.block + SLACK) * _POINTER_BYTES
        tables = tuple(f.stack(table_bytes, _LINE_BYTES, name) for name in ("a.rows", "c.rows"))
        count_slot = f.stack(8, 8, "count.slot")
        panel = f.stack(cuts.block * panel_columns * size, _LINE_BYTES, "panel")
        a, c, parts = (
            f.load(PTR, f.offset(f.argument("args"), 8 * i), 8, name)
            for i, name in enumerate(("a", "c", "parts"))
        )
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            number = f.rem(item.index, cuts.panels, "panel.number")
            rest = f.div(item.index, cuts.panels, "rest")
            tap_part = f.rem(rest, cuts.tap_parts, "tap.part")
            rest = f.div(rest, cuts.tap_parts, "rest")
            group = f.rem(rest, spec.groups, "group")
            split = f.div(rest, spec.groups, "split")
            first_tap = f.div(f.mul(tap_part, phase.taps), cuts.tap_parts, "first.tap")
            next_part = f.mul(f.add(tap_part, 1), phase.taps)
            last_tap = f.div(next_part, cuts.tap_parts, "last.tap")
            begin = f.div(f.mul(split, phase.positions), cuts.splits, "begin")
            end = f.div(f.mul(f.add(split, 1), phase.positions), cuts.splits, "end")
            a_group = f.offset(a, f.mul(group, spec.a.group_stride * size), "a.group")
            c_group = f.offset(c, f.mul(group, spec.c.group_stride * size), "c.group")
            part = f.offset(parts, f.mul(split, self.part_bytes), "part")
            with f.loop("block", begin, end, cuts.block, runs=True) as block:
                block_end = f.minimum(f.add(block.index, cuts.block), end, "block.end")
                again = f.select(f.compare("sgt", block.index, begin), 1, 0, "again")
                with f.loop("tap", first_tap, last_tap, runs=True) as tap:
                    f.call(
                        gather, tap.index, block.index, block_end, a_group, c_group, *tables,
                        count_slot,
                    )  # fmt: skip
                    count = f.load(I64, count_slot, 8, "count")
                    taps_before = f.add(f.mul(group, phase.taps), tap.index)
                    matrix = cuts.rows * cuts.padded_columns * size
                    result = f.offset(part, f.mul(taps_before, matrix), "result")
                    self._panels(module, f, tables, panel, number, count, result, again)
        return f

    def _panels(
        self,
        module: Module,
        f: Function,
        tables: tuple[Value, ...],
        panel: Value,
        number: Value,
        count: Value,
        result: Value,
        again: Value,
    ) -> None:
        """Do the panel `number`: with the code of full panels, or of the last one."""
        cuts, lanes = self.cuts, self.lanes
        full = cuts.tile.columns(lanes.count)
        last_columns = cuts.columns - (cuts.panels - 1) * full
        last = cuts.tile.narrowed(last_columns, lanes.count)
        shapes = [(last, last_columns, "eq")]
        if cuts.panels > 1:
            shapes.append((cuts.tile, full, "ne"))
        for tile, columns, test in shapes:
            label = "last" if test == "eq" else "full"
            do = module.add(self._panel(module, tile, columns, label))
            with f.when(f.compare(test, number, cuts.panels - 1), label):
                f.call(do, *tables, panel, number, count, result, again)

    def _panel(self, module: Module, tile: BroadcastTile, columns: int, label: str) -> Function:
        """The function that packs one panel and runs over its tiles."""
        cuts, lanes = self.cuts, self.lanes
        f = Function(
            f"panel_{label}",
            (
                (PTR, "a_rows"),
                (PTR, "c_rows"),
                (PTR, "panel"),
                (I64, "number"),
                (I64, "count"),
                (PTR, "result"),
                (I64, "add"),
            ),
        )
        broadcast, vectors = f.argument("c_rows"), f.argument("a_rows")
        if not cuts.columns_are_depth:
            broadcast, vectors = vectors, broadcast
        vector_bytes = lanes.count * lanes.bytes
        first = f.mul(f.argument("number"), cuts.tile.vectors * vector_bytes, "first.byte")
        if cuts.packs:
            with f.loop("position", 0, f.argument("count")) as position:
                row = f.load(PTR, f.element(vectors, position.index, 8), 8, "row")
                line = f.element(f.argument("panel"), position.index, tile.vectors * vector_bytes)
                row = f.offset(row, first)
                for v in range(tile.vectors):
                    loaded = lanes.load(
                        f, f.offset(row, v * vector_bytes), columns - v * lanes.count
                    )
                    f.store(loaded, f.offset(line, v * vector_bytes), vector_bytes)
            vectors = f.argument("panel")
        result = f.offset(f.argument("result"), first)
        high, low = divmod(cuts.rows, tile.rows)
        for count, height, base in ((high, tile.rows, 0), (1 if low else 0, low, high * tile.rows)):
            if count == 0:
                continue
            shape = BroadcastTile(height, tile.vectors)
            run = module.add(self._tile(f"outer_{label}{height}", shape, columns))
            with f.loop("tile", 0, count, runs=True) as loop:
                row = f.add(f.mul(loop.index, height), base, "row.number")
                out = f.element(result, row, cuts.padded_columns * lanes.bytes, "out")
                offset = f.mul(row, lanes.bytes, "row.bytes")
                count_, add = f.argument("count"), f.argument("add")
                f.call(run, broadcast, offset, vectors, first, count_, out, add)
        return f

    def _tile(self, name: str, tile: BroadcastTile, columns: int) -> Function:
        """The innermost loop: `count` positions, one outer product each.

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
                (f"{PTR} noalias", "out"),
                (I64, "add"),
            ),
        )
        vector_bytes = lanes.count * lanes.bytes
        zeros = [zero(lanes.type)] * (tile.rows * tile.vectors)
        with f.loop("position", 0, f.argument("count"), carried=zeros) as position:
            row = f.load(PTR, f.element(f.argument("rows"), position.index, 8), 8, "row")
            row = f.offset(row, f.argument("offset"))
            loaded = self._vectors(f, tile, columns, position.index)
            sums: list[Value] = []
            for r in range(tile.rows):
                x = lanes.broadcast(f, f.offset(row, r * lanes.bytes))
                before = position.carried[r * tile.vectors :]
                sums += [
                    lanes.multiply_add(f, x, w, total)
                    for w, total in zip(loaded, before, strict=False)
                ]
            position.carry(*sums)
        places = [
            f.offset(
                f.argument("out"),
                r * self.cuts.padded_columns * lanes.bytes + v * vector_bytes,
            )
            for r in range(tile.rows)
            for v in range(tile.vectors)
        ]
        with f.when(f.compare("ne", f.argument("add"), 0), "adding"):
            for total, place in zip(position.results, places, strict=True):
                before = f.load(lanes.type, place, lanes.bytes, "before")
                f.store(f.float_binary("fadd", before, total, "after"), place, lanes.bytes)
        with f.when(f.compare("eq", f.argument("add"), 0), "storing"):
            for total, place in zip(position.results, places, strict=True):
                f.store(total, place, lanes.bytes)
        return f

    def _vectors(
        self, f: Function, tile: BroadcastTile, columns: int, position: Value
    ) -> list[Value]:
        lanes, vectors = self.lanes, f.argument("vectors")
        vector_bytes = lanes.count * lanes.bytes
        if self.cuts.packs:
            line = f.element(vectors, position, tile.vectors * vector_bytes, "line")
            places = [f.offset(line, v * vector_bytes) for v in range(tile.vectors)]
            return [f.load(lanes.type, place, vector_bytes, "w") for place in places]
        line = f.offset(
            f.load(PTR, f.element(vectors, position, 8), 8, "line"), f.argument("first")
        )
        return [
            lanes.load(f, f.offset(line, v * vector_bytes), columns - v * lanes.count, "w")
            for v in range(tile.vectors)
        ]

    def _add_entry(self, module: Module) -> Function:
        """Add up the parts of one row of one tap, and store it where B has it."""
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
        f = Function(ADD_ENTRY, KERNEL_PARAMETERS, external=True)
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
            if column_stride == 1:
                self._add_vectors(f, source, target, storage)
            else:
                self._add_scattered(f, source, target, storage, column_stride)
        return f

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
            total = self._add_up(f, self.lanes.scalar, at)
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
