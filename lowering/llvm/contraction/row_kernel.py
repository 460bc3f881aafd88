"""The whole kernel of a contraction: items, phases, blocks of depth, panels and tiles.

for item:                       a piece of the positions of every phase, of one group
  for phase:                    fill the row tables of the piece
    for block of depths:        for panel of columns:  for tile of rows:   microkernel
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import I64, PTR, Function, Module, Value
from convir.lowering.llvm.contraction.microkernel import (
    POINTER_BYTES,
    PanelShape,
    tile_function,
)
from convir.lowering.llvm.contraction.row_tables import PhaseTables, fill_tables

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.blocking import Blocking
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.spec import HostContraction

KERNEL_PARAMETERS = ((PTR, "args"), (I64, "begin"), (I64, "end"), (I64, "worker"))
"""What a thread pool calls a kernel with."""

ENTRY = "contract"
"""The kernel's name."""

_LINE_BYTES = 64


@dataclass(frozen=True)
class RowKernel:
    """Writes the kernel of one contraction for one CPU."""

    spec: HostContraction
    lanes: Lanes
    cuts: Blocking

    @property
    def items(self) -> int:
        """How many items of work there are."""
        return self.cuts.items_per_group * self.spec.groups

    def write(self, module: Module) -> None:
        """Add the function `contract` to `module`.

        Its arguments are the addresses of A, of the packed weights and of C.
        """
        lanes, cuts = self.lanes, self.cuts
        tables = PhaseTables(module, self.spec, lanes.bytes)
        zero_row = module.zeros("zero_row", self.spec.depth * lanes.bytes, _LINE_BYTES)
        spill_row = module.zeros("spill_row", self.spec.columns * lanes.bytes, _LINE_BYTES)
        bounds = module.table("bounds", [bound for line in cuts.bounds for bound in line])
        fill = module.add(fill_tables(tables, zero_row, spill_row, cuts.table_width))
        piece = module.add(self._piece(tables, fill, self._tiles(module)))
        module.add(self._entry(tables, bounds, piece))

    def _tiles(self, module: Module) -> tuple[Function, Function]:
        """The functions of a full panel and of the last one, which may be the same."""
        cuts, depth = self.cuts, self.spec.depth
        full = PanelShape(cuts.tile, cuts.panel_columns, depth, cuts.table_width)
        last = PanelShape(cuts.last_tile, cuts.last_columns, depth, cuts.table_width)
        last_tile = module.add(tile_function("tile_last", last, self.lanes))
        if cuts.panels == 1 or last == full:
            return last_tile, last_tile
        return module.add(tile_function("tile", full, self.lanes)), last_tile

    def _piece(
        self, tables: PhaseTables, fill: Function, tiles: tuple[Function, Function]
    ) -> Function:
        """The function of one piece of one phase, for one group and some panels."""
        spec, cuts, lanes = self.spec, self.cuts, self.lanes
        f = Function(
            "piece",
            (
                (PTR, "line"),
                (I64, "first_row"),
                (I64, "last_row"),
                (PTR, "a"),
                (PTR, "packed"),
                (PTR, "c"),
                (I64, "first_panel"),
                (I64, "last_panel"),
                (PTR, "rows"),
                (PTR, "outs"),
            ),
        )
        line, rows, outs = f.argument("line"), f.argument("rows"), f.argument("outs")
        height = cuts.tile.rows
        first, last = f.argument("first_row"), f.argument("last_row")
        count = f.sub(last, first, "count")
        padded = f.mul(f.div(f.add(count, height - 1), height), height, "padded")
        f.call(fill, line, first, last, padded, f.argument("a"), f.argument("c"), rows, outs)
        taps = tables.field(f, line, "taps")
        panel_bytes = f.mul(taps, cuts.panel_elements * lanes.bytes, "panel.bytes")
        whole = cuts.panels if tiles[0] is tiles[1] else cuts.panels - 1
        with f.loop("depth", 0, spec.depth, cuts.depth_block, runs=True) as depth:
            depth_end = f.minimum(f.add(depth.index, cuts.depth_block), spec.depth, "depth.end")
            again = f.compare("ne", depth.index, 0)
            add = Value(I64, "1") if spec.accumulate else f.select(again, 1, 0, "add")

            def panel(number: Value, tile: Function) -> None:
                weights = f.offset(f.argument("packed"), f.mul(number, panel_bytes), "panel")
                column = f.mul(number, cuts.panel_columns * lanes.bytes, "column")
                with f.loop("row", 0, count, height, runs=True) as row:
                    bytes_ = f.mul(row.index, POINTER_BYTES)
                    at, out = f.offset(rows, bytes_), f.offset(outs, bytes_)
                    f.call(tile, at, taps, depth.index, depth_end, weights, out, column, add)

            full_end = f.minimum(f.argument("last_panel"), whole, "full.end")
            with f.loop("panel", f.argument("first_panel"), full_end) as loop:
                panel(loop.index, tiles[0])
            if whole < cuts.panels:
                with f.when(f.compare("sgt", f.argument("last_panel"), whole), "narrow"):
                    panel(Value(I64, str(whole)), tiles[1])
        return f

    def _entry(self, tables: PhaseTables, bounds: Value, piece: Function) -> Function:
        spec, cuts, size = self.spec, self.cuts, self.lanes.bytes
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        taps = max(1, *(phase.taps for phase in spec.phases), 1)
        rows = f.stack(taps * cuts.table_width * POINTER_BYTES, _LINE_BYTES, "rows")
        outs = f.stack(cuts.table_width * POINTER_BYTES, _LINE_BYTES, "outs")
        a, packed, c = (
            f.load(PTR, f.offset(f.argument("args"), 8 * i), 8, name)
            for i, name in enumerate(("a", "packed", "c"))
        )
        tap_bytes = cuts.tap_elements * size
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            group = f.div(item.index, cuts.items_per_group, "group")
            within = f.rem(item.index, cuts.items_per_group, "within")
            chunk = f.div(within, cuts.column_parts, "chunk")
            part = f.rem(within, cuts.column_parts, "part")
            first_panel = f.div(f.mul(part, cuts.panels), cuts.column_parts, "first.panel")
            next_part = f.mul(f.add(part, 1), cuts.panels)
            last_panel = f.div(next_part, cuts.column_parts, "last.panel")
            a_group = f.offset(a, f.mul(group, spec.row_group_stride * size), "a.group")
            c_group = f.offset(c, f.mul(group, spec.out_group_stride * size), "c.group")
            packed_group = f.offset(packed, f.mul(group, spec.taps * tap_bytes), "packed.group")
            with f.loop("phase", 0, len(spec.phases), runs=True) as phase:
                line = tables.line(f, phase.index)
                place = f.add(f.mul(phase.index, cuts.chunks + 1), chunk, "bound")
                bound = f.element(bounds, place, 8)
                first_row = f.load(I64, bound, 8, "first.row")
                last_row = f.load(I64, f.offset(bound, 8), 8, "last.row")
                todo = f.compare("slt", first_row, last_row)
                if spec.accumulate:
                    works = f.compare("ne", tables.field(f, line, "taps"), 0)
                    todo = f.emit("i1", "todo", f"and {todo}, {works.text}")
                with f.when(todo, "some"):
                    first_tap = tables.field(f, line, "first_tap")
                    weights = f.offset(packed_group, f.mul(first_tap, tap_bytes), "packed.phase")
                    f.call(
                        piece, line, first_row, last_row, a_group, weights, c_group,
                        first_panel, last_panel, rows, outs,
                    )  # fmt: skip
        return f
