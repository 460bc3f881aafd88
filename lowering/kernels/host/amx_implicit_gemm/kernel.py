"""The whole kernel of a contraction on tile registers: items, phases, blocks, panels and tiles.

for item:                        a piece of the output pixels of every phase, of one group
  for phase:                     fill the row tables of the piece
    for block of the reduction:    copy the piece's rows
      for panel of columns:          for tile of rows:   sums += rows · weights
    from the sums to C
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.amx_implicit_gemm.blocking import (
    TILE_COLUMNS,
    TILE_ROWS,
    row_blocks,
    steps_of,
)
from convir.lowering.kernels.host.amx_implicit_gemm.rows import RowSources
from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Value,
    value,
)
from convir.lowering.kernels.host.code.entry import CONTRACT, KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.fused_store import FusedStore
from convir.lowering.kernels.host.code.register_tile import SOURCE_BYTES, TileShape, tile_function
from convir.lowering.kernels.host.code.tap_rows import TapRows
from convir.lowering.kernels.host.code.tile_registers import ROWS, WORD_BYTES, TileRegisters
from convir.lowering.kernels.host.implicit_gemm.row_tables import PhaseTables, TableFiller
from convir.lowering.kernels.host.implicit_gemm.store import Epilogue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.amx_implicit_gemm.blocking import RowBlocks
    from convir.lowering.kernels.host.code.builder import Module, Operand
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking

_OPERANDS = ("a", "b", "c")
"""The first arguments of a kernel."""


@dataclass(frozen=True)
class PackedPlaces:
    """Where packed weights lie."""

    group_bytes: int
    phases: tuple[tuple[int, int], ...]
    """For each phase the byte of its group where it begins, and the bytes between two panels."""
    last_line_bytes: int
    """Bytes of a line of the last panel."""


@dataclass(frozen=True)
class TileKernel:
    """Writes the kernel of one contraction for one CPU."""

    spec: Contraction
    lanes: Lanes
    cuts: Blocking
    places: PackedPlaces
    epilogue: FusedEpilogue | None = None

    @property
    def fused(self) -> FusedStore | None:
        """What writes the epilogue, if there is one."""
        if self.epilogue is None:
            return None
        return FusedStore(self.lanes, self.spec, self.epilogue)

    @property
    def blocks(self) -> RowBlocks:
        """The blocks of the reduction."""
        return row_blocks(self.spec)

    @property
    def _taps(self) -> TapRows:
        """Rows whose channels are no whole lines."""
        return TapRows.of(self.spec, self.cuts.table_width)

    @property
    def _listed(self) -> Contraction:
        """What the row table is of."""
        return self.spec if self.blocks.whole else self._taps.listed(self.spec)

    @property
    def _registers(self) -> int:
        """Registers of an item's rows."""
        return self.cuts.table_width // ROWS

    @property
    def items(self) -> int:
        """How many items of work there are."""
        return self.cuts.items_per_group * self.cuts.groups

    @property
    def _sums_pitch(self) -> int:
        # Rows of sums that are an odd number of lines apart share no sets of the caches.
        return self.cuts.scratch_out_channels * WORD_BYTES + LINE_BYTES

    def write(self, module: Module) -> None:
        """Add the function `contract` to `module`.

        Its arguments are the addresses of A, of the packed weights, of C, and of the operands of
        the epilogue.
        """
        cuts, spec = self.cuts, self.spec
        tables = PhaseTables(module, self._listed)
        taps = self._taps
        zero_row = module.filled("zero_row", taps.zero_bytes, LINE_BYTES, spec.fill)
        spill_row = module.zeros(
            "spill_row", cuts.out_channels * STORAGE_BYTES[spec.c.type], LINE_BYTES
        )
        bounds = module.table("bounds", [bound for line in cuts.bounds for bound in line])
        per_phase = [
            number
            for (start, panel), steps in zip(self.places.phases, steps_of(spec), strict=True)
            for number in (start, panel, steps)
        ]
        weights = module.table("phase_weights", per_phase)
        configuration = TileRegisters.configuration(module)
        fill = module.add(TableFiller(tables, cuts.table_width, zero_row, spill_row).function())
        rest = cuts.out_channels % self.lanes.count
        store = Epilogue(self.lanes, spec.c, self._sums_pitch, spec.accumulate, self.fused, rest)
        finish = store.function(module)
        copy = module.add(RowSources(self.blocks, taps, self._registers, zero_row).function())
        panels = self._panels(module)
        piece = module.add(self._piece(tables, (fill, copy, finish), panels))
        module.add(self._entry(tables, bounds, weights, configuration, piece))

    def _panels(self, module: Module) -> tuple[Function, Function]:
        """The functions that multiply all rows of an item with a full panel and with the last."""
        cuts = self.cuts
        full = self._panel(module, "full", 2, TILE_COLUMNS * WORD_BYTES)
        vectors = -(-cuts.last_out_channels // (TILE_COLUMNS // 2))
        if vectors == 2:
            return full, full
        return full, self._panel(module, "last", vectors, self.places.last_line_bytes)

    def _panel(self, module: Module, label: str, vectors: int, line_bytes: int) -> Function:
        """The function of one panel: tiles of two registers of rows, the last one maybe of one."""
        tiles = [
            module.add(
                tile_function(
                    f"tile_{label}{rows}",
                    TileShape(rows, vectors, line_bytes, self._sums_pitch),
                    self.lanes,
                )
            )
            for rows in (1, 2)
        ]
        numbers = ("count", "taps", "begin", "end", "add")
        f = Function(
            f"panel_{label}",
            ((PTR, "sources"), (PTR, "weights"), (PTR, "sums"), *((I64, n) for n in numbers)),
        )
        count, add = f.argument("count"), f.argument("add")
        pitch = self._registers * SOURCE_BYTES
        # A rest of more than one register of rows is a tile as well.
        whole = f.div(f.add(count, TILE_ROWS - 1 - ROWS), TILE_ROWS, "whole")

        def tile(number: Value, function: Function) -> None:
            sources = f.element(f.argument("sources"), number, 2 * SOURCE_BYTES, "tile.rows")
            sums = f.element(f.argument("sums"), number, TILE_ROWS * self._sums_pitch, "tile.sums")
            f.call(
                function, sources, f.argument("weights"), sums, f.argument("taps"), pitch,
                f.argument("begin"), f.argument("end"), add,
            )  # fmt: skip

        with f.loop("tile", 0, whole) as loop:
            tile(loop.index, tiles[1])
        with f.when(f.compare("slt", f.mul(whole, TILE_ROWS), count), "rest"):
            tile(whole, tiles[0])
        return module.add(f)

    def _piece(
        self,
        tables: PhaseTables,
        parts: tuple[Function, Function, Function],
        panels: tuple[Function, Function],
    ) -> Function:
        """The function of one piece of one phase, for one group and some panels."""
        spec, cuts, blocks, fused = self.spec, self.cuts, self.blocks, self.fused
        fill, copy, finish = parts
        pointers = ("a", "b", "c", "rows", "outs", "lines", "sources", "sums")
        numbers = ("panel_bytes", "steps", "first_row", "last_row", "first_panel", "last_panel")
        f = Function(
            "piece",
            (
                (PTR, "line"),
                *((PTR, name) for name in pointers),
                *((I64, name) for name in numbers),
                *(fused.parameters if fused is not None else ()),
            ),
        )
        line, rows, outs = f.argument("line"), f.argument("rows"), f.argument("outs")
        first_panel, last_panel = f.argument("first_panel"), f.argument("last_panel")
        first, last = f.argument("first_row"), f.argument("last_row")
        count = f.sub(last, first, "count")
        tiles = f.div(f.add(count, TILE_ROWS - 1), TILE_ROWS, "tiles")
        column_bytes = TILE_COLUMNS * spec.c.stride * STORAGE_BYTES[spec.c.type]
        c = f.element(f.argument("c"), first_panel, column_bytes, "c.part")
        padded = f.mul(tiles, TILE_ROWS, "padded")
        a = f.argument("a")
        if not blocks.whole:
            a = f.offset(a, -self._taps.before, "a.before")
        f.call(fill, line, a, c, rows, outs, first, last, padded)
        taps = tables.field(f, line, "taps")
        # Without a tap there is one block of no steps: its sums are zeros.
        number = f.maximum(f.div(f.add(taps, blocks.taps - 1), blocks.taps), 1, "tap.blocks")
        whole = cuts.panels if panels[0] is panels[1] else cuts.panels - 1

        with f.loop("block", 0, f.mul(number, blocks.parts), runs=True) as block:
            tap = f.mul(f.div(block.index, blocks.parts), blocks.taps, "tap")
            end_tap = f.minimum(f.add(tap, blocks.taps), taps, "tap.end")
            before, begin, end = self._steps(f, block.index, tap)
            sources = f.argument("sources")
            registers = f.div(f.add(count, ROWS - 1), ROWS, "registers")
            f.call(
                copy, rows, f.argument("lines"), sources, registers, tap, end_tap, begin, end, first
            )  # fmt: skip
            read = f.sub(end_tap, tap, "taps.read") if blocks.whole else value(1)
            add = f.select(f.compare("ne", block.index, 0), 1, 0, "add")

            def panel(number: Value, function: Function, lane_bytes: int) -> None:
                weights = f.offset(
                    f.argument("b"), f.mul(number, f.argument("panel_bytes")), "panel"
                )
                weights = f.element(weights, before, ROWS * lane_bytes, "panel.block")
                column = f.mul(f.sub(number, first_panel), TILE_COLUMNS * WORD_BYTES, "column")
                sums = f.offset(f.argument("sums"), column, "panel.sums")
                f.call(function, sources, weights, sums, count, read, begin, end, add)

            end_panel = f.minimum(last_panel, whole, "full.end")
            with f.loop("panel", first_panel, end_panel) as loop:
                panel(loop.index, panels[0], TILE_COLUMNS * WORD_BYTES)
            if whole < cuts.panels:
                with f.when(f.compare("sgt", last_panel, whole), "narrow"):
                    panel(Value(I64, str(whole)), panels[1], self.places.last_line_bytes)
        end_column = f.minimum(f.mul(last_panel, TILE_COLUMNS), cuts.out_channels, "last.column")
        channel = f.mul(first_panel, TILE_COLUMNS, "first.channel")
        columns = f.sub(end_column, channel, "columns")
        beside: list[Value] = []
        if fused is not None:
            beside = fused.moved(f, fused.arguments(f), channel)
        f.call(finish, f.argument("sums"), outs, count, columns, *beside)
        return f

    def _steps(self, f: Function, block: Value, tap: Value) -> tuple[Operand, Operand, Operand]:
        """Of a block: the steps before it, and where it begins and ends in a tap."""
        blocks = self.blocks
        if not blocks.whole:
            return 0, 0, f.argument("steps")
        before = f.mul(tap, blocks.tap_steps, "before")
        if blocks.parts == 1:
            return before, 0, blocks.tap_steps
        begin = f.mul(f.rem(block, blocks.parts), blocks.part_steps, "begin")
        end = f.minimum(f.add(begin, blocks.part_steps), blocks.tap_steps, "end")
        return f.add(before, begin, "before"), begin, end

    def _entry(
        self,
        tables: PhaseTables,
        bounds: Value,
        weights: Value,
        configuration: Value,
        piece: Function,
    ) -> Function:
        spec, cuts = self.spec, self.cuts
        f = Function(CONTRACT, KERNEL_PARAMETERS, external=True)
        registers = TileRegisters(f, self.lanes.cpu)
        taps = max(1, *(phase.taps for phase in self._listed.phases))
        rows_of_item = cuts.table_width // TILE_ROWS * TILE_ROWS
        item_registers = rows_of_item // ROWS
        rows = f.stack(taps * cuts.table_width * POINTER_BYTES, LINE_BYTES, "rows")
        outs = f.stack(cuts.table_width * POINTER_BYTES, LINE_BYTES, "outs")
        lines = f.stack(item_registers * self.blocks.register_bytes, LINE_BYTES, "lines")
        sources = f.stack(self.blocks.taps * self._registers * SOURCE_BYTES, LINE_BYTES, "sources")
        sums = f.stack(rows_of_item * self._sums_pitch, LINE_BYTES, "sums")
        a, b, c = (
            f.load(PTR, f.offset(f.argument("args"), 8 * i), 8, name)
            for i, name in enumerate(_OPERANDS)
        )
        beside = self._beside(f, c)
        registers.configure(configuration)
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            group = f.div(item.index, cuts.items_per_group, "group")
            within = f.rem(item.index, cuts.items_per_group, "within")
            chunk = f.div(within, cuts.column_parts, "chunk")
            part = f.rem(within, cuts.column_parts, "part")
            first_panel = f.div(f.mul(part, cuts.panels), cuts.column_parts, "first.panel")
            next_part = f.mul(f.add(part, 1), cuts.panels)
            last_panel = f.div(next_part, cuts.column_parts, "last.panel")
            a_bytes = spec.a.group_stride * STORAGE_BYTES[spec.a.type]
            a_group = f.element(a, group, a_bytes, "a.group")
            c_bytes = spec.c.group_stride * STORAGE_BYTES[spec.c.type]
            c_group = f.element(c, group, c_bytes, "c.group")
            b_group = f.element(b, group, self.places.group_bytes, "b.group")
            of_group: Sequence[Value] = []
            if self.fused is not None:
                of_group = self.fused.moved(f, beside, f.mul(group, cuts.out_channels))
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
                    of_phase = f.element(weights, phase.index, 3 * 8, "phase.weights")
                    start, panel_bytes, steps = (
                        f.load(I64, f.offset(of_phase, 8 * i), 8, name)
                        for i, name in enumerate(("start", "panel.bytes", "steps"))
                    )
                    f.call(
                        piece, line, a_group, f.offset(b_group, start), c_group, rows, outs, lines,
                        sources, sums, panel_bytes, steps, first_row, last_row, first_panel,
                        last_panel, *of_group,
                    )  # fmt: skip
        registers.release()
        return f

    def _beside(self, f: Function, c: Value) -> list[Value]:
        """The operands of the epilogue, as functions that store take them."""
        if self.fused is None:
            return []
        return self.fused.of_launch(f, c)
