"""The innermost loop: a tile of sums in registers, over the steps of a block of the reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import I64, PTR, Function
from convir.lowering.kernels.host.code.tile_registers import (
    COLUMNS,
    ROW_BYTES,
    ROWS,
    WORD_BYTES,
    TileRegisters,
)

if TYPE_CHECKING:
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

SOURCE_BYTES = 16
"""Of the address of rows of a register, and the distance between them."""
VECTORS = 2
"""Registers of columns in a tile, at most."""
_FIRST_LEFT = 4
_FIRST_RIGHT = 6
"""Registers 0 to 3 hold sums, the next two rows of A, the last two weights."""


@dataclass(frozen=True)
class TileShape:
    """What the innermost loop knows when it is compiled."""

    rows: int
    """Registers of rows: 1 or 2."""
    vectors: int
    """Registers of columns: 1 or 2."""
    line_bytes: int
    """Of a line of weights, which has the columns of a panel."""
    sums_pitch: int
    """Bytes between two rows of sums."""


def tile_function(name: str, shape: TileShape, lanes: Lanes) -> Function:
    """The function of one tile.

    It multiplies rows with the panel at `weights`, and stores the sums at `sums`, or adds them
    there if `add` is not 0. Rows come from `taps` lines of `sources`, `pitch` bytes apart, each
    with an address and a distance between rows for every register of rows. A tap has the steps
    [`begin`, `end`), a register's row of 64 bytes each; its weights follow those of the tap before.
    """
    numbers = ("taps", "pitch", "begin", "end", "add")
    pointers = ("sources", "weights", "sums")
    f = Function(name, (*((PTR, p) for p in pointers), *((I64, number) for number in numbers)))
    registers = TileRegisters(f, lanes.cpu)
    totals = [
        (row * VECTORS + v, row * ROWS * shape.sums_pitch + v * COLUMNS * WORD_BYTES)
        for row in range(shape.rows)
        for v in range(shape.vectors)
    ]
    for total, _ in totals:
        registers.clear(total)
    with f.when(f.compare("ne", f.argument("add"), 0), "adding"):
        for total, place in totals:
            registers.load(total, f.offset(f.argument("sums"), place), shape.sums_pitch)
    begin, end = f.argument("begin"), f.argument("end")
    steps = f.sub(end, begin, "steps")
    with f.loop("tap", 0, f.argument("taps")) as tap:
        line = f.offset(f.argument("sources"), f.mul(tap.index, f.argument("pitch")), "line")
        sources = [
            tuple(
                f.load(kind, f.offset(line, SOURCE_BYTES * row + place), 8, hint)
                for kind, place, hint in ((PTR, 0, "rows"), (I64, 8, "distance"))
            )
            for row in range(shape.rows)
        ]
        before = f.mul(tap.index, steps, "before")
        with f.loop("step", begin, end) as step:
            number = f.add(before, f.sub(step.index, begin))
            weights = f.element(f.argument("weights"), number, ROWS * shape.line_bytes, "w")
            for v in range(shape.vectors):
                place = f.offset(weights, v * ROW_BYTES)
                registers.load(_FIRST_RIGHT + v, place, shape.line_bytes)
            for row, (rows, distance) in enumerate(sources):
                place = f.element(rows, step.index, ROW_BYTES)
                registers.load(_FIRST_LEFT + row, place, distance)
                for v in range(shape.vectors):
                    total = row * VECTORS + v
                    registers.multiply_add(lanes, total, _FIRST_LEFT + row, _FIRST_RIGHT + v)
    for total, place in totals:
        registers.store(total, f.offset(f.argument("sums"), place), shape.sums_pitch)
    return f
