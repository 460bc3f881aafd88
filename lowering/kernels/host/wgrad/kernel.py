"""The kernel of a gradient of weights: for each tap a product that is reduced over output pixels.

    for item:                   a part of the output pixels, taps, rows and panels of a group
      for block of output pixels:     for tap:  list the output pixels that the tap meets, and the
      next
        for panel:                  pack its vectors
          for tile of rows:           microkernel: an outer product a position

Accumulators wait for the next block in memory of the thread, where they lie densely: rows of a
result lie apart by powers of two, and would share few sets of the caches. The last block stores
them.

Parts of the output pixels have partial results of their own, which `add_parts` adds up in a fixed
order, so that the result does not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
)
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.position_tables import gather_positions
from convir.lowering.kernels.host.code.tiles import SLACK, GroupTile
from convir.lowering.kernels.host.wgrad.outer_product import GroupPanel, OuterPanel
from convir.lowering.kernels.host.wgrad.paired_rows import BF16_BYTES, PairedRows
from convir.lowering.kernels.host.wgrad.partial_results import PartialResults

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.wgrad.blocking import WeightBlocking

ENTRY = "contract_weights"
"""The kernel's name; its arguments are the addresses of A, C and the partial results, or B."""


@dataclass(frozen=True)
class WeightKernel:
    """Writes the kernels of one gradient of weights for one CPU."""

    spec: Contraction
    lanes: Lanes
    cuts: WeightBlocking

    @property
    def items(self) -> int:
        """How many items of work `contract_weights` has."""
        cuts = self.cuts
        return cuts.splits * cuts.groups * cuts.tap_parts * cuts.row_parts * cuts.panel_parts

    @property
    def part_bytes(self) -> int:
        """Size of one partial result, `[group][tap][row][column]`."""
        matrices = self.cuts.groups * self.spec.taps
        return matrices * self.cuts.rows * self.cuts.padded_out_channels * self.lanes.bytes

    @property
    def adding(self) -> PartialResults:
        """The kernel that adds up the partial results."""
        return PartialResults(self.spec, self.lanes, self.cuts, self.part_bytes)

    @property
    def workspace_bytes(self) -> int:
        """Size of all partial results."""
        return 0 if self.cuts.direct else self.cuts.splits * self.part_bytes

    @property
    def _waiting_bytes(self) -> tuple[int, int, int]:
        """Of the accumulators of an item that wait: all of them, those of a tap, and those of a
        panel."""
        cuts, lanes = self.cuts, self.lanes
        if isinstance(cuts.tile, GroupTile):
            return LINE_BYTES, 0, 0
        panel = self._item_rows * cuts.tile.vectors * lanes.count * lanes.bytes
        tap = -(-cuts.panels // cuts.panel_parts) * panel
        return -(-self.spec.taps // cuts.tap_parts) * tap, tap, panel

    @property
    def _operand_bytes(self) -> int:
        """Bytes of an element of A and of C."""
        return BF16_BYTES if self.lanes.pairs else self.lanes.row_bytes

    @property
    def _item_rows(self) -> int:
        """Rows of an item, at most."""
        return -(-self.cuts.tiles // self.cuts.row_parts) * self.cuts.tile.rows

    @property
    def _paired(self) -> PairedRows | None:
        """The words that tiles broadcast, where output pixels are multiplied in pairs."""
        cuts = self.cuts
        if not self.lanes.pairs:
            return None
        return PairedRows(
            self.lanes,
            cuts.rows,
            self._item_rows,
            cuts.out_channels,
            cuts.block,
            int(cuts.lanes_are_in_channels),
        )

    @property
    def _pitch(self) -> int:
        """Elements between two rows of what items store to."""
        b = self.spec.b
        if not self.cuts.direct:
            return self.cuts.padded_out_channels
        return b.out_channel_stride if self.cuts.lanes_are_in_channels else b.in_channel_stride

    def write(self, module: Module) -> None:
        """Add both kernels to `module`."""
        gather = module.add(gather_positions(module, self.spec.phases[0], self._operand_bytes))
        module.add(self._entry(module, gather))
        if not self.cuts.direct:
            self.adding.write(module)

    def _entry(self, module: Module, gather: Function) -> Function:
        spec, cuts, size, element = self.spec, self.cuts, self.lanes.bytes, self._operand_bytes
        (phase,) = spec.phases
        panel_functions = self._panel_functions(module)
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        table_bytes = (cuts.block + SLACK) * POINTER_BYTES
        tables = (
            f.stack(table_bytes, LINE_BYTES, "a.rows"),
            f.stack(table_bytes, LINE_BYTES, "c.rows"),
        )
        ahead = tuple(f.stack(table_bytes, LINE_BYTES, name) for name in ("a.ahead", "c.ahead"))
        count_slot = f.stack(8, 8, "count.slot")
        line_bytes = cuts.tile.vectors * self.lanes.count * size
        lines = -(-cuts.block // 2) if self.lanes.pairs else cuts.block
        panel = f.stack(lines * line_bytes if cuts.packs else 8, LINE_BYTES, "panel")
        rows = None if self._paired is None else self._paired.begin(module, f)
        waiting_bytes, tap_bytes, panel_bytes = self._waiting_bytes
        waiting = f.stack(waiting_bytes, LINE_BYTES, "waiting")
        a, c, results = (
            f.load(PTR, f.offset(f.argument("args"), 8 * i), 8, name)
            for i, name in enumerate(("a", "c", "results"))
        )
        place = self._places(module, results)
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            panel_part = f.rem(item.index, cuts.panel_parts, "panel.part")
            rest = f.div(item.index, cuts.panel_parts, "rest")
            row_part = f.rem(rest, cuts.row_parts, "row.part")
            rest = f.div(rest, cuts.row_parts, "rest")
            tap_part = f.rem(rest, cuts.tap_parts, "tap.part")
            rest = f.div(rest, cuts.tap_parts, "rest")
            group = f.rem(rest, cuts.groups, "group")
            split = f.div(rest, cuts.groups, "split")
            taps = _part(f, tap_part, phase.taps, cuts.tap_parts)
            tiles = _part(f, row_part, cuts.tiles, cuts.row_parts)
            panels = _part(f, panel_part, cuts.panels, cuts.panel_parts)
            begin, end = _part(f, split, phase.pixels, cuts.splits)
            a_group = f.offset(a, f.mul(group, spec.a.group_stride * element), "a.group")
            c_group = f.offset(c, f.mul(group, spec.c.group_stride * element), "c.group")
            with f.loop("block", begin, end, cuts.block, runs=True) as block:
                block_end = f.minimum(f.add(block.index, cuts.block), end, "block.end")
                again = f.select(f.compare("sgt", block.index, begin), 1, 0, "again")
                finish = f.select(f.compare("eq", block_end, end), 1, 0, "finish")
                with f.loop("tap", *taps, runs=True) as tap:
                    f.call(
                        gather, tap.index, block.index, block_end, a_group, c_group, *tables,
                        count_slot,
                    )  # fmt: skip
                    count = f.load(I64, count_slot, 8, "count")
                    read = tables
                    if rows is not None:
                        count, read = rows.join(f, tables, count, self._rows_of(f, tiles))
                    next_end = f.minimum(f.add(block_end, cuts.block), end, "next.end")
                    f.call(
                        gather, tap.index, block_end, next_end, a_group, c_group, *ahead,
                        count_slot,
                    )  # fmt: skip
                    is_last = f.compare("eq", block_end, end)
                    soon = [
                        f.select(is_last, now, later, "ahead")
                        for now, later in zip(tables, ahead, strict=True)
                    ]
                    result = place(f, split, group, tap.index)
                    sums = f.element(waiting, f.sub(tap.index, taps[0]), tap_bytes, "sums")
                    with f.loop("panel", *panels, runs=True) as number:
                        behind = f.sub(number.index, panels[0])
                        arguments = (
                            *read, panel, number.index, count, result,
                            f.element(sums, behind, panel_bytes), *tiles, again, finish,
                            *soon, *panels,
                        )  # fmt: skip
                        self._panel(f, panel_functions, number.index, arguments)
        return f

    def _rows_of(self, f: Function, tiles: tuple[Value, Value]) -> tuple[Value, Value]:
        """Where the rows of an item's tiles begin and end."""
        height = self.cuts.tile.rows
        end = f.minimum(f.mul(tiles[1], height), self.cuts.rows, "last.row")
        return f.mul(tiles[0], height, "first.row"), end

    def _places(
        self, module: Module, results: Value
    ) -> Callable[[Function, Value, Value, Value], Value]:
        """Writes the address of the result of a split, a group and a tap."""
        spec, cuts, size = self.spec, self.cuts, self.lanes.bytes
        (phase,) = spec.phases
        if not cuts.direct:
            matrix = cuts.rows * cuts.padded_out_channels * size

            def partial(f: Function, split: Value, group: Value, tap: Value) -> Value:
                part = f.offset(results, f.mul(split, self.part_bytes), "part")
                before = f.add(f.mul(group, phase.taps), tap)
                return f.offset(part, f.mul(before, matrix), "result")

            return partial
        weights = module.table(
            "direct_weights",
            [sum(tap) * size for tap in product(*(axis.tap_weights for axis in phase.axes))],
        )

        def direct(f: Function, split: Value, group: Value, tap: Value) -> Value:
            b = f.offset(results, f.mul(group, spec.b.group_stride * size), "b.group")
            return f.offset(b, f.load(I64, f.element(weights, tap, 8), 8, "weight"), "result")

        return direct

    def _panel_functions(self, module: Module) -> list[tuple[Function, str]]:
        """The code of the last panel and that of the others, and how their numbers compare to
        the last one's."""
        cuts, lanes = self.cuts, self.lanes
        full = cuts.tile.out_channels(lanes.count)
        last_out_channels = cuts.out_channels - (cuts.panels - 1) * full
        last = cuts.tile.narrowed(last_out_channels, lanes.count)
        shapes = [(last, last_out_channels, "last", "eq")]
        if cuts.panels > 1:
            shapes.append((cuts.tile, full, "full", "ne"))
        functions: list[tuple[Function, str]] = []
        for tile, out_channels, label, test in shapes:
            if isinstance(tile, GroupTile):
                writer = GroupPanel(lanes, cuts, tile, out_channels)
            else:
                writer = OuterPanel(lanes, cuts, tile, out_channels, self._pitch, self._paired)
            functions.append((writer.write(module, label), test))
        return functions

    def _panel(
        self,
        f: Function,
        functions: list[tuple[Function, str]],
        number: Value,
        arguments: tuple[Value, ...],
    ) -> None:
        for function, test in functions:
            with f.when(f.compare(test, number, self.cuts.panels - 1), "panel.kind"):
                f.call(function, *arguments)


def _part(f: Function, number: Value, count: int, parts: int) -> tuple[Value, Value]:
    """Where part `number` of `count` things begins and ends."""
    begin = f.div(f.mul(number, count), parts, "part.begin")
    return begin, f.div(f.mul(f.add(number, 1), count), parts, "part.end")
