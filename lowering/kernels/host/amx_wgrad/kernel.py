"""The kernel of a gradient of weights on tile registers: a product for each tap.

for item:                    a part of the output pixels, taps, rows and panels of a group
  for block of output pixels:  list the addresses; transpose the rows
    for tap:                     join the columns
      for panel of columns:        for tile of rows:   sums += rows · columns
  the sums to partial results, which are added up in a fixed order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_wgrad.blocking import STEP, TILE, partial_blocking
from convir.lowering.kernels.host.amx_wgrad.operands import (
    BF16_BYTES,
    BlockOperands,
)
from convir.lowering.kernels.host.amx_wgrad.operands import (
    LINE_BYTES as PAIR_BYTES,
)
from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    Module,
    Value,
    value,
)
from convir.lowering.kernels.host.code.entry import KERNEL_PARAMETERS
from convir.lowering.kernels.host.code.register_tile import SOURCE_BYTES, TileShape, tile_function
from convir.lowering.kernels.host.code.tile_registers import (
    COLUMNS,
    ROWS,
    WORD_BYTES,
    TileRegisters,
)
from convir.lowering.kernels.host.code.tiles import SLACK
from convir.lowering.kernels.host.implicit_gemm.row_tables import PhaseTables, TableFiller
from convir.lowering.kernels.host.wgrad.partial_results import PartialResults

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.amx_wgrad.blocking import Cuts
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

ENTRY = "contract_weights"
"""The kernel's name; its arguments are the addresses of A, C and the partial results."""


@dataclass(frozen=True)
class TileWeightKernel:
    """Writes the kernels of one gradient of weights for one CPU."""

    spec: Contraction
    """Narrow groups are one of its groups."""
    lanes: Lanes
    cuts: Cuts
    given: Contraction
    """With its own groups, as B has them."""

    @property
    def items(self) -> int:
        """How many items of work `contract_weights` has."""
        return self.cuts.items * self.spec.groups

    @property
    def adding(self) -> PartialResults:
        """The kernel that adds up the partial results."""
        blocking = partial_blocking(self.given, self.cuts)
        return PartialResults(self.given, self.lanes, blocking, self._part_bytes)

    @property
    def workspace_bytes(self) -> int:
        """Size of all partial results."""
        return self.cuts.splits * self._part_bytes

    @property
    def _line_bytes(self) -> int:
        """Of a row of a partial result: whole vectors."""
        return -(-self.given.in_channels // COLUMNS) * COLUMNS * WORD_BYTES

    @property
    def _part_bytes(self) -> int:
        given = self.given
        return given.groups * given.taps * given.out_channels * self._line_bytes

    def write(self, module: Module) -> None:
        """Add both kernels to `module`."""
        spec, cuts = self.spec, self.cuts
        zeros = module.zeros(
            "zero_pixel", max(spec.in_channels, spec.out_channels) * BF16_BYTES, LINE_BYTES
        )
        tables = PhaseTables(module, spec)
        filler = TableFiller(tables, cuts.block + SLACK, zeros, zeros)
        operands = BlockOperands(self.lanes, cuts.block)
        parts = (
            module.add(filler.function()),
            operands.left(module, spec.out_channels),
            operands.right(module, spec.in_channels),
            self._products(module),
            self._stores(module),
        )
        module.add(self._entry(tables, parts, TileRegisters.configuration(module)))
        self.adding.write(module)

    def _products(self, module: Module) -> Function:
        """The function that adds the products of a block and tap to an item's sums."""
        cuts, spec = self.cuts, self.spec
        operands = BlockOperands(self.lanes, cuts.block)
        functions = {
            (rows, vectors): module.add(
                tile_function(
                    f"tile_{rows}x{vectors}",
                    TileShape(rows, vectors, PAIR_BYTES, cuts.sums_pitch),
                    self.lanes,
                )
            )
            for rows in _registers(spec.out_channels)
            for vectors in _registers(spec.in_channels)
        }
        numbers = ("steps", "rows", "columns", "add")
        f = Function(
            "add_products",
            ((PTR, "left"), (PTR, "right"), (PTR, "sums"), *((I64, name) for name in numbers)),
        )
        steps, add = f.argument("steps"), f.argument("add")
        rows, columns = f.argument("rows"), f.argument("columns")

        def tile(row: Value, column: Value, function: Function) -> None:
            left = f.element(f.argument("left"), row, 2 * SOURCE_BYTES, "left.tile")
            right = f.element(f.argument("right"), column, operands.panel_bytes, "right.tile")
            sums = f.element(f.argument("sums"), row, TILE * cuts.sums_pitch, "sums.row")
            sums = f.element(sums, column, TILE * WORD_BYTES, "sums.tile")
            f.call(function, left, right, sums, 1, 0, 0, steps, add)

        def tiles_of(column: Value, vectors: int) -> None:
            whole = f.div(f.add(rows, TILE - 1 - ROWS), TILE, "whole.rows")
            if (2, vectors) in functions:
                with f.loop("row", 0, whole) as row:
                    tile(row.index, column, functions[2, vectors])
            if (1, vectors) in functions:
                with f.when(f.compare("slt", f.mul(whole, TILE), rows), "row.rest"):
                    tile(whole, column, functions[1, vectors])

        whole = f.div(f.add(columns, TILE - 1 - COLUMNS), TILE, "whole.columns")
        if (_registers(spec.in_channels))[0] == 2:
            with f.loop("column", 0, whole) as column:
                tiles_of(column.index, 2)
        if _registers(spec.in_channels)[-1] == 1:
            with f.when(f.compare("slt", f.mul(whole, TILE), columns), "column.rest"):
                tiles_of(whole, 1)
        return module.add(f)

    def _stores(self, module: Module) -> Function:
        """The function that stores the sums of a tap to a partial result."""
        f = Function(
            "store_sums",
            (
                (f"{PTR} noalias", "sums"),
                (f"{PTR} noalias", "part"),
                (I64, "rows"),
                (I64, "columns"),
            ),
        )
        lanes = self.lanes
        with (
            f.loop("row", 0, f.argument("rows")) as row,
            f.loop("column", 0, f.argument("columns"), COLUMNS) as column,
        ):
            source = f.element(f.argument("sums"), row.index, self.cuts.sums_pitch)
            target = f.element(f.argument("part"), row.index, self._line_bytes)
            loaded = lanes.load(f, f.element(source, column.index, WORD_BYTES), COLUMNS)
            lanes.store(f, loaded, f.element(target, column.index, WORD_BYTES), COLUMNS)
        return module.add(f)

    def _entry(
        self, tables: PhaseTables, parts: tuple[Function, ...], configuration: Value
    ) -> Function:
        spec, cuts, given = self.spec, self.cuts, self.given
        (phase,) = spec.phases
        fill, transposes, joins, products, stores = parts
        operands = BlockOperands(self.lanes, cuts.block)
        f = Function(ENTRY, KERNEL_PARAMETERS, external=True)
        registers = TileRegisters(f, self.lanes.cpu)
        width = cuts.block + SLACK
        rows = f.stack(phase.taps * width * POINTER_BYTES, LINE_BYTES, "rows")
        outs = f.stack(width * POINTER_BYTES, LINE_BYTES, "outs")
        left = f.stack(cuts.rows * TILE * operands.left_pitch, LINE_BYTES, "left")
        sources = f.stack(2 * cuts.rows * SOURCE_BYTES, LINE_BYTES, "sources")
        right = f.stack(cuts.columns * operands.panel_bytes, LINE_BYTES, "right")
        sums = f.stack(cuts.taps * cuts.matrix_bytes, LINE_BYTES, "sums")
        a, c, results = (
            f.load(PTR, f.offset(f.argument("args"), 8 * i), 8, name)
            for i, name in enumerate(("a", "c", "results"))
        )
        line = tables.line(f, Value(I64, "0"))
        registers.configure(configuration)
        with f.loop("register", 0, 2 * cuts.rows, runs=True) as register:
            place = f.element(sources, register.index, SOURCE_BYTES)
            address = f.element(left, register.index, ROWS * operands.left_pitch, "left.rows")
            f.store(address, place, POINTER_BYTES)
            f.store(operands.left_pitch, f.offset(place, POINTER_BYTES), POINTER_BYTES)
        with f.loop("item", f.argument("begin"), f.argument("end")) as item:
            column_part = f.rem(item.index, cuts.column_parts, "column.part")
            rest = f.div(item.index, cuts.column_parts, "rest")
            row_part = f.rem(rest, cuts.row_parts, "row.part")
            rest = f.div(rest, cuts.row_parts, "rest")
            tap_part = f.rem(rest, cuts.tap_parts, "tap.part")
            rest = f.div(rest, cuts.tap_parts, "rest")
            group = f.rem(rest, spec.groups, "group")
            split = f.div(rest, spec.groups, "split")
            first_tap, last_tap = _part(f, tap_part, cuts.taps, phase.taps)
            first_row, last_row = _part(f, row_part, cuts.rows * TILE, spec.out_channels)
            first_column, last_column = _part(f, column_part, cuts.columns * TILE, spec.in_channels)
            begin = f.div(f.mul(split, phase.pixels), cuts.splits, "begin.pixel")
            end = f.div(f.mul(f.add(split, 1), phase.pixels), cuts.splits, "end.pixel")
            a_group = f.element(a, group, spec.a.group_stride * BF16_BYTES, "a.group")
            c_group = f.element(c, group, spec.c.group_stride * BF16_BYTES, "c.group")
            count = f.sub(last_row, first_row, "rows.count")
            columns = f.sub(last_column, first_column, "columns.count")
            with f.loop("block", begin, end, cuts.block) as block:
                block_end = f.minimum(f.add(block.index, cuts.block), end, "block.end")
                pixels = f.sub(block_end, block.index, "pixels")
                steps = f.div(f.add(pixels, STEP - 1), STEP, "steps")
                add = f.select(f.compare("ne", block.index, begin), 1, 0, "add")
                f.call(
                    fill, line, a_group, c_group, rows, outs, block.index, block_end,
                    f.mul(steps, STEP),
                )  # fmt: skip
                f.call(transposes, outs, left, steps, first_row, last_row)
                with f.loop("tap", first_tap, last_tap) as tap:
                    of_tap = f.element(rows, tap.index, width * POINTER_BYTES, "tap.rows")
                    f.call(joins, of_tap, right, steps, first_column, last_column)
                    matrix = f.element(
                        sums, f.sub(tap.index, first_tap), cuts.matrix_bytes, "tap.sums"
                    )
                    f.call(products, sources, right, matrix, steps, count, columns, add)
            part = f.element(results, split, self._part_bytes, "part")
            # Of groups together each has the sums of its own rows and columns.
            members = spec.out_channels // given.out_channels
            with (
                f.loop("stored.tap", first_tap, last_tap) as tap,
                f.loop("member", 0, members, runs=True) as member,
            ):
                matrix = f.element(sums, f.sub(tap.index, first_tap), cuts.matrix_bytes)
                if members > 1:
                    own = f.mul(member.index, given.out_channels * cuts.sums_pitch)
                    own = f.add(own, f.mul(member.index, given.in_channels * WORD_BYTES), "own")
                    matrix = f.offset(matrix, own)
                    count, columns = value(given.out_channels), value(given.in_channels)
                number = f.add(f.mul(group, members), member.index)
                number = f.add(f.mul(number, phase.taps), tap.index)
                number = f.mul(number, given.out_channels)
                target = f.element(part, f.add(number, first_row), self._line_bytes)
                target = f.element(target, first_column, WORD_BYTES, "stored")
                f.call(stores, matrix, target, count, columns)
        registers.release()
        return f


def _registers(channels: int) -> tuple[int, ...]:
    """The registers that tiles of `channels` channels have: two, and one where that is the rest."""
    rest = channels % TILE
    one = 0 < rest <= TILE // 2
    if not one:
        return (2,)
    return (2, 1) if channels > TILE else (1,)


def _part(f: Function, number: Value, size: int, count: int) -> tuple[Value, Value]:
    """Where part `number` of `count` things begins and ends, which has `size` of them."""
    begin = f.mul(number, size, "part.begin")
    return begin, f.minimum(f.add(begin, size), count, "part.end")
