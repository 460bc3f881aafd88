"""The whole kernel of a contraction: items, phases, blocks of depth, panels and tiles.

for item:                          a piece of the output pixels of every phase, of one group
  for phase:                       fill the row tables of the piece
    for block of input channels, of taps:   for panel of columns:  for tile of rows:   microkernel
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.host.code.builder import (
    I1,
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
    value,
)
from convir.lowering.kernels.host.code.entry import CONTRACT, KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.fused_store import FusedStore
from convir.lowering.kernels.host.code.tiles import BroadcastTile, GroupTile
from convir.lowering.kernels.host.implicit_gemm.blocking import FEW_CHUNKS, KEPT_SHARE, longest_of
from convir.lowering.kernels.host.implicit_gemm.broadcast_steps import (
    FEW_REGISTERS,
    steps_of_turn,
)
from convir.lowering.kernels.host.implicit_gemm.items import each_item
from convir.lowering.kernels.host.implicit_gemm.microkernel import (
    PanelShape,
    tile_function,
)
from convir.lowering.kernels.host.implicit_gemm.row_tables import (
    OutLister,
    PhaseTables,
    TableFiller,
)
from convir.lowering.kernels.host.implicit_gemm.store import Epilogue
from convir.lowering.kernels.host.implicit_gemm.zero_fills import ZeroFills, ZeroFillStores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.fused import FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.builder import Operand
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking
    from convir.lowering.kernels.host.implicit_gemm.joined_taps import JoinedTaps

_OPERANDS = ("a", "b", "c")
"""The first arguments of a kernel."""


@dataclass(frozen=True)
class _Block:
    """Taps and input channels that are reduced for all columns before those behind them."""

    first_tap: Value
    taps: Value
    begin: Value
    """The first input channel."""
    end: Value
    is_first: Value
    ends_taps: Value
    """Whether the next one has other input channels."""
    is_last: Value


@dataclass(frozen=True)
class RowKernel:
    """Writes the kernel of one contraction for one CPU."""

    spec: Contraction
    lanes: Lanes
    cuts: Blocking
    epilogue: FusedEpilogue | None = None
    joined: JoinedTaps | None = None
    """What copies the rows of an item, which are then rows of one tap."""

    @property
    def fused(self) -> FusedStore | None:
        """What writes the epilogue, if there is one."""
        if self.epilogue is None:
            return None
        return FusedStore(self.lanes, self.spec, self.epilogue)

    @property
    def zero_fills(self) -> ZeroFills | None:
        """The rows that are stored as zeros between tiles, if there are any."""
        return None if self.epilogue is not None else ZeroFills.of(self.spec, self.cuts)

    @property
    def items(self) -> int:
        """How many items of work there are."""
        return self.cuts.items_per_group * self.cuts.groups

    def write(self, module: Module) -> None:
        """Add the function `contract` to `module`.

        Its arguments are the addresses of A, of the packed weights or of B itself, of C, and of
        the operands of the epilogue.
        """
        lanes, cuts = self.lanes, self.cuts
        tables = PhaseTables(module, self._listed)
        row_elements = self.spec.in_channels * (self.spec.groups // cuts.groups)
        row_bytes = row_elements * lanes.bytes
        if self.joined is not None:
            row_bytes = self.joined.rows.zero_bytes
        zero_row = module.filled("zero_row", row_bytes, LINE_BYTES, self.spec.fill)
        spill_row = module.zeros("spill_row", cuts.out_channels * lanes.bytes, LINE_BYTES)
        bounds = module.table("bounds", [bound for line in cuts.bounds for bound in line])
        fill = module.add(TableFiller(tables, cuts.table_width, zero_row, spill_row).function())
        finish = None
        if cuts.scratch_out_channels:
            line = cuts.scratch_out_channels * lanes.bytes
            rest = (
                None if cuts.panel_out_channels % lanes.count else cuts.out_channels % lanes.count
            )
            store = Epilogue(lanes, self.spec.c, line, self.spec.accumulate, self.fused, rest)
            finish = store.function(module)
        tiles = self._tiles(module, zero_row, spill_row)
        join = None if self.joined is None else module.add(self.joined.function(zero_row))
        piece = module.add(self._piece(tables, (fill, join), tiles, finish))
        lister = None if self.zero_fills is None else module.add(OutLister(tables).function())
        module.add(self._entry(tables, bounds, lister, piece))

    @property
    def _listed(self) -> Contraction:
        """What the row table is of: rows as they lie in A."""
        return self.spec if self.joined is None else self.joined.listed

    @property
    def _streams(self) -> bool:
        """Whether rows are read once, one behind the other.

        A panel that is not the only one finds them in a cache.
        """
        if self.joined is not None:
            return False
        axes = [phase.axes[-1] for phase in self.spec.phases]
        behind = all(axis.row_stride * axis.step == self.spec.in_channels for axis in axes)
        return behind and self.cuts.panels == 1 and all(p.taps == 1 for p in self.spec.phases)

    @property
    def _asks(self) -> bool:
        """Whether tiles ask for the panel, or the block of it, that comes next.

        It is not in the second-level cache if an item has more weights than that keeps, or is one
        of few that read them.
        """
        cuts = self.cuts
        several = cuts.panels > cuts.column_parts // cuts.parts_together or not self._single
        plain = isinstance(cuts.tile, BroadcastTile) and self.zero_fills is None
        weights = self._most_taps * cuts.tap_elements * self.lanes.bytes
        few = cuts.chunks // cuts.chunks_together <= FEW_CHUNKS
        far = weights > KEPT_SHARE * self.lanes.cpu.l2_bytes or few
        return several and plain and far and not cuts.in_place

    @property
    def _asks_outs(self) -> bool:
        """Whether tiles ask for what they read at their end: with few registers they have little to
        do meanwhile."""
        few = self.lanes.cpu.vector_registers <= FEW_REGISTERS
        operands = () if self.epilogue is None else self.epilogue.operands
        reads = not self._single or any(operand.follows_result for operand in operands)
        return few and reads and isinstance(self.cuts.tile, BroadcastTile)

    @property
    def _steps(self) -> int:
        """Input channels in a turn of the innermost loop."""
        return steps_of_turn(self.lanes.cpu, self.spec.in_channels)

    @property
    def _lines_of_turn(self) -> int:
        """Lines that a tile asks for in each turn along the input channels: as few as all tiles of
        an item need to ask for all lines."""
        if not self._asks:
            return 0
        cuts, steps = self.cuts, self._steps
        line_bytes = cuts.panel_out_channels * self.lanes.bytes
        pixels = max(longest_of(line, cuts.chunks_together) for line in cuts.bounds)
        tiles = -(-pixels // cuts.tile.rows)
        turns = max(1, cuts.in_channel_block // steps)
        lines = -(-cuts.in_channel_block * line_bytes // LINE_BYTES)
        return min(steps, -(-lines // (turns * tiles)))

    @property
    def _most_taps(self) -> int:
        """Taps of the phase that has the most."""
        return max(phase.taps for phase in self.spec.phases)

    @property
    def _single(self) -> bool:
        """Whether all taps and input channels are one block."""
        cuts = self.cuts
        all_taps = cuts.tap_block >= self._most_taps
        return all_taps and cuts.in_channel_block >= self.spec.in_channels

    def _asking(
        self,
        f: Function,
        panels: tuple[Value, Value, Value],
        block: _Block,
        bytes_: Operand,
        tiles: Value,
    ) -> tuple[Value, Value, Value]:
        """What tiles ask for: of each tap of a block, the same tap of the one that comes next.

        Args:
            f: the function.
            panels: the number of the panel, the first one of the item, and the end of them.
            block: the block.
            bytes_: between two panels.
            tiles: how many of them share the lines of a tap.

        Returns:
            The bytes to the first line of the first tile, from one line to the next, and from one
            tile to the next. All are 0 if no block comes next.
        """
        cuts, size = self.cuts, self.lanes.bytes
        number, first, last = panels
        following = f.add(number, 1)
        within = f.compare("slt", following, last)
        line = cuts.panel_out_channels * size
        tap = cuts.panel_elements * size
        wrapped: Operand = cuts.in_channel_block * line
        if cuts.tap_block < self._most_taps:
            # Taps come before input channels.
            deeper = f.sub(wrapped, f.mul(block.first_tap, tap), "next.channels")
            wrapped = f.select(block.ends_taps, deeper, cuts.tap_block * tap, "next.taps")
        wrapped = f.add(f.mul(f.sub(first, number), bytes_), wrapped, "next.block")
        ahead = f.select(within, f.mul(1, bytes_), wrapped, "ahead")
        more = f.emit(I1, "last.block", f"xor {block.is_last}, true")
        more = f.emit(I1, "more", f"or {within}, {more.text}")
        depth = f.sub(block.end, block.begin, "depth")
        turns = f.maximum(f.div(depth, self._steps), 1, "turns")
        lines = f.mul(turns, self._lines_of_turn, "lines.of.tile")
        of_all = f.mul(lines, tiles, "lines.of.all")
        between = f.div(f.add(f.mul(depth, line), f.sub(of_all, 1)), of_all, "between")
        ahead = f.add(ahead, f.mul(block.begin, line), "ahead.of.tap")
        ahead, between = (f.select(more, each, 0, "asked.bytes") for each in (ahead, between))
        return ahead, between, f.mul(lines, between, "share")

    def _tiles(
        self, module: Module, zero_row: Value, spill_row: Value
    ) -> tuple[Function, Function]:
        """The functions of a full panel and of the last one, which may be the same."""
        cuts, in_channels = self.cuts, self.spec.in_channels
        fused = None if cuts.scratch_out_channels else self.fused
        full = PanelShape(
            cuts.tile,
            cuts.panel_out_channels,
            in_channels,
            cuts.table_width,
            zero_row,
            spill_row,
            skips=not self.spec.fill and self.joined is None,
            single=self._single,
            streams=self._streams,
            line_elements=self.spec.b.in_channel_stride if cuts.in_place else None,
            zero_fills=None
            if self.zero_fills is None
            else ZeroFillStores(self.lanes, cuts.panel_out_channels),
            asks=self._lines_of_turn,
            asks_outs=self._asks_outs,
        )
        last = replace(full, tile=cuts.last_tile, out_channels=cuts.last_out_channels)
        if self.zero_fills is not None:
            last = replace(last, zero_fills=ZeroFillStores(self.lanes, cuts.last_out_channels))
        last_tile = module.add(tile_function("tile_last", last, self.lanes, fused))
        if cuts.panels == 1 or last == full:
            return last_tile, last_tile
        return module.add(tile_function("tile", full, self.lanes, fused)), last_tile

    def _piece(
        self,
        tables: PhaseTables,
        rows_of: tuple[Function, Function | None],
        tiles: tuple[Function, Function],
        finish: Function | None,
    ) -> Function:
        """The function of one piece of one phase, for one group and some panels.

        With an epilogue, accumulators go to the rows of `scratch` that `sums` lists, and from there
        to C.
        """
        spec, cuts, size, fused = self.spec, self.cuts, self.lanes.bytes, self.fused
        fill, join = rows_of
        pointers = ("a", "b", "c", "rows", "outs", "sums", "scratch")
        if join is not None:
            pointers = (*pointers, "lines")
        numbers = ("first_row", "last_row", "first_panel", "last_panel")
        zero_fills = self.zero_fills
        f = Function(
            "piece",
            (
                (PTR, "line"),
                *((PTR, name) for name in pointers),
                *((I64, name) for name in numbers),
                *(zero_fills.PARAMETERS if zero_fills is not None else ()),
                *(fused.parameters if fused is not None else ()),
            ),
        )
        line, rows, outs = f.argument("line"), f.argument("rows"), f.argument("outs")
        first_panel, last_panel = f.argument("first_panel"), f.argument("last_panel")
        height = cuts.tile.rows
        first, last = f.argument("first_row"), f.argument("last_row")
        count = f.sub(last, first, "count")
        padded = f.mul(f.div(f.add(count, height - 1), height), height, "padded")
        column_bytes = cuts.panel_out_channels * spec.c.stride * STORAGE_BYTES[spec.c.type]
        c = f.argument("c")
        first_column: Value | int = 0
        if finish is not None:
            c, first_column = f.element(c, first_panel, column_bytes, "c.part"), first_panel
        a = f.argument("a")
        if self.joined is not None:
            a = f.offset(a, -self.joined.rows.before, "a.before")
        f.call(fill, line, a, c, rows, outs, first, last, padded)
        sums = outs if finish is None else f.argument("sums")
        if join is None:
            taps = tables.field(f, line, "taps")
        else:
            f.call(join, rows, f.argument("lines"), first, padded)
            taps = value(1)
        panel_bytes: Operand = cuts.panel_out_channels * size
        if not cuts.in_place:
            panel_bytes = f.mul(taps, cuts.panel_elements * size, "panel.bytes")
        whole = cuts.panels if tiles[0] is tiles[1] else cuts.panels - 1
        tiles_of_piece = f.div(padded, height)

        def panel(
            number: Value, tile: Function, tap_elements: int, block: _Block, add: Operand
        ) -> None:
            ending: list[Operand] = []
            if fused is not None and finish is None:
                ending = [f.select(block.is_last, 1, 0, "finish"), *fused.arguments(f)]
            weights = f.offset(f.argument("b"), f.mul(number, panel_bytes), "panel")
            weights = f.element(weights, block.first_tap, tap_elements * size, "panel.taps")
            column = f.mul(f.sub(number, first_column), cuts.panel_out_channels * size, "column")
            begin: Operand = block.begin
            if isinstance(cuts.tile, GroupTile):
                # The groups of a panel are a part of the row.
                begin = f.mul(
                    number, cuts.panel_out_channels // spec.out_channels * spec.in_channels, "begin"
                )
            asking: tuple[Value, Value, Value] | None = None
            if self._asks:
                panels = (number, first_panel, last_panel)
                asking = self._asking(f, panels, block, panel_bytes, tiles_of_piece)
            line_bytes = cuts.table_width * POINTER_BYTES
            rows_of_taps = f.element(rows, block.first_tap, line_bytes, "rows.taps")
            with f.loop("row", 0, count, height, runs=True) as row:
                bytes_ = f.mul(row.index, POINTER_BYTES)
                at, out = f.offset(rows_of_taps, bytes_), f.offset(sums, bytes_)
                share: list[Operand] = []
                if zero_fills is not None:
                    number_of_tile = f.div(row.index, height)
                    share = zero_fills.share(f, number_of_tile, tiles_of_piece, block.is_first)
                asked: list[Operand] = []
                if asking is not None:
                    ahead, between, share_bytes = asking
                    before = f.mul(f.div(row.index, height), share_bytes)
                    asked = [f.add(ahead, before, "ahead.tile"), between]
                f.call(
                    tile, at, block.taps, begin, block.end, weights, out, column, add,
                    *asked, *ending, *share,
                )  # fmt: skip

        for block in self._blocks(f, taps):
            add: Operand = f.select(block.is_first, 0, 1, "add")
            if spec.accumulate and finish is None:
                add = 1
            with f.loop("panel", first_panel, f.minimum(last_panel, whole, "full.end")) as loop:
                panel(loop.index, tiles[0], cuts.panel_elements, block, add)
            if whole < cuts.panels:
                with f.when(f.compare("sgt", last_panel, whole), "narrow"):
                    panel(Value(I64, str(whole)), tiles[1], cuts.last_elements, block, add)
        if finish is not None:
            end = f.minimum(
                f.mul(last_panel, cuts.panel_out_channels), cuts.out_channels, "last.column"
            )
            out_channels = f.sub(end, f.mul(first_panel, cuts.panel_out_channels), "out_channels")
            beside: list[Value] = []
            if fused is not None:
                channel = f.mul(first_panel, cuts.panel_out_channels, "first.channel")
                beside = fused.moved(f, fused.arguments(f), channel)
            f.call(finish, f.argument("scratch"), outs, count, out_channels, *beside)
        return f

    def _blocks(self, f: Function, taps: Value) -> Iterator[_Block]:
        """Write the loops over blocks of input channels, and of `taps` within each; what is written
        for the block that this yields is their body. No taps are one block, of zeros."""
        channels, cuts = self.spec.in_channels, self.cuts
        step = cuts.in_channel_block
        with f.loop("in_channels", 0, channels, step, runs=True) as in_channels:
            begin = in_channels.index
            end = f.minimum(f.add(begin, step), channels, "depth.end")
            is_first = f.compare("eq", begin, 0)
            is_last = f.compare("eq", end, channels)
            if cuts.tap_block >= self._most_taps:
                yield _Block(value(0), taps, begin, end, is_first, Value(I1, "true"), is_last)
                return
            with f.loop("tap", 0, taps, cuts.tap_block, runs=True) as tap:
                left = f.sub(taps, tap.index, "taps.left")
                here = f.minimum(left, cuts.tap_block, "taps.here")
                begins = f.compare("eq", tap.index, 0)
                ends = f.compare("eq", here, left)
                is_first = f.emit(I1, "is.first", f"and {is_first}, {begins.text}")
                is_last = f.emit(I1, "is.last", f"and {is_last}, {ends.text}")
                yield _Block(tap.index, here, begin, end, is_first, ends, is_last)

    def _entry(
        self, tables: PhaseTables, bounds: Value, lister: Function | None, piece: Function
    ) -> Function:
        spec, cuts, size = self.spec, self.cuts, self.lanes.bytes
        f = Function(CONTRACT, KERNEL_PARAMETERS, external=True)
        taps = max(1, *(phase.taps for phase in self._listed.phases))
        rows = f.stack(taps * cuts.table_width * POINTER_BYTES, LINE_BYTES, "rows")
        outs = f.stack(cuts.table_width * POINTER_BYTES, LINE_BYTES, "outs")
        scratch, sums = self._scratch(f)
        lines: list[Value] = []
        if self.joined is not None:
            lines = [f.stack(self.joined.nbytes, LINE_BYTES, "lines")]
        zero_fills = self.zero_fills
        listed = None
        if zero_fills is not None:
            listed = f.stack(zero_fills.table_bytes, LINE_BYTES, "zero_fills")
        a, b, c = (
            f.load(PTR, f.offset(f.argument("args"), 8 * i), 8, name)
            for i, name in enumerate(_OPERANDS)
        )
        beside = [] if self.fused is None else self.fused.of_launch(f, c)
        # Weights that are read in place have one tap.
        tap_bytes = 0 if cuts.in_place else cuts.tap_elements * size
        group_bytes = (spec.b.group_stride * size) if cuts.in_place else (spec.taps * tap_bytes)
        with each_item(f, cuts) as item:
            a_bytes = spec.a.group_stride * STORAGE_BYTES[spec.a.type]
            a_group = f.offset(a, f.mul(item.group, a_bytes), "a.group")
            c_bytes = spec.c.group_stride * STORAGE_BYTES[spec.c.type]
            c_group = f.offset(c, f.mul(item.group, c_bytes), "c.group")
            b_group = f.element(b, item.group, group_bytes, "b.group")
            if self.fused is not None:
                beside_group = self.fused.moved(f, beside, f.mul(item.group, cuts.out_channels))
            else:
                beside_group = []

            def rows_of(
                phase: Value, chunk: Value = item.chunk, end: Value = item.end_chunk
            ) -> tuple[Value, Value]:
                line = f.element(bounds, f.mul(phase, cuts.chunks + 1), 8, "bounds")
                first = f.load(I64, f.element(line, chunk, 8), 8, "first.row")
                return first, f.load(I64, f.element(line, end, 8), 8, "last.row")

            phases, zero_fill_count = len(spec.phases), Value(I64, "0")
            if zero_fills is not None and lister is not None and listed is not None:
                phases = zero_fills.first
                zero_fill_count = zero_fills.listed(f, tables, lister, rows_of, (c_group, listed))
            with f.loop("phase", 0, phases, runs=True) as phase:
                line = tables.line(f, phase.index)
                first_row, last_row = rows_of(phase.index)
                todo = f.compare("slt", first_row, last_row)
                if spec.accumulate:
                    works = f.compare("ne", tables.field(f, line, "taps"), 0)
                    todo = f.emit("i1", "todo", f"and {todo}, {works.text}")
                with f.when(todo, "some"):
                    first_tap = tables.field(f, line, "first_tap")
                    weights = f.element(b_group, first_tap, tap_bytes, "b.phase")
                    behind: list[Value] = []
                    if listed is not None:
                        is_first = f.compare("eq", phase.index, 0)
                        behind = [listed, f.select(is_first, zero_fill_count, 0, "holes.behind")]
                    f.call(
                        piece, line, a_group, weights, c_group, rows, outs, sums, scratch, *lines,
                        first_row, last_row, item.first_panel, item.last_panel, *behind,
                        *beside_group,
                    )  # fmt: skip
        return f

    def _scratch(self, f: Function) -> tuple[Value, Value]:
        """Scratch memory for the accumulators of an item, and the addresses of its rows."""
        cuts = self.cuts
        if not cuts.scratch_out_channels:
            return Value(PTR, "null"), Value(PTR, "null")
        line_bytes = cuts.scratch_out_channels * self.lanes.bytes
        scratch = f.stack(cuts.table_width * line_bytes, LINE_BYTES, "scratch")
        sums = f.stack(cuts.table_width * POINTER_BYTES, LINE_BYTES, "sums")
        with f.loop("line", 0, cuts.table_width, runs=True) as line:
            address = f.element(scratch, line.index, line_bytes)
            f.store(address, f.element(sums, line.index, POINTER_BYTES), POINTER_BYTES)
        return scratch, sums
