"""The innermost loops: a tile of accumulators in registers, over all taps and depths of a block.

Rows come as a table of addresses, `rows[tap][row]`, so that padding, strides, dilations and the
phases of a strided gradient are the same code with another table: a row outside of the input is
the address of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.llvm.contraction.builder import I64, PTR, Function, zero

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.builder import Value
    from convir.lowering.llvm.contraction.scalars import Lanes
    from convir.lowering.llvm.contraction.tiles import Tile

POINTER_BYTES = 8


@dataclass(frozen=True)
class PanelShape:
    """What the innermost loop knows about its operands when it is compiled."""

    tile: Tile
    columns: int
    """Columns of the panel, at most `tile.vectors` vectors; the rest of the last is not stored."""
    depth: int
    """Elements of a row; the panel holds `[tap][depth][tile.vectors * lanes]`."""
    table_width: int
    """Rows in a line of the row table."""


def broadcast_tile(name: str, shape: PanelShape, lanes: Lanes) -> Function:
    """The function of one tile: vectors of columns, elements of rows broadcast.

    It computes `tile.rows` rows of C from the table's first rows, for `taps` taps and the depths
    [`first`, `last`), and stores the sums, or adds them where `add` is not 0.
    """
    f = Function(
        name,
        (
            (f"{PTR} noalias", "rows"),
            (I64, "taps"),
            (I64, "first"),
            (I64, "last"),
            (f"{PTR} noalias", "panel"),
            (f"{PTR} noalias", "outs"),
            (I64, "column"),
            (I64, "add"),
        ),
    )
    tile = shape.tile
    panel_row = tile.vectors * lanes.count * lanes.bytes
    zeros = [zero(lanes.type)] * (tile.rows * tile.vectors)
    with f.loop("tap", 0, f.argument("taps"), carried=zeros) as tap:
        line = f.element(f.argument("rows"), tap.index, shape.table_width * POINTER_BYTES, "line")
        rows = [
            f.load(PTR, f.offset(line, row * POINTER_BYTES), POINTER_BYTES, "row")
            for row in range(tile.rows)
        ]
        panel = f.element(f.argument("panel"), tap.index, shape.depth * panel_row, "panel.tap")
        first, last = f.argument("first"), f.argument("last")
        with f.loop("depth", first, last, carried=tap.carried, runs=True) as depth:
            weights = f.element(panel, depth.index, panel_row, "weights")
            loaded = [
                f.load(
                    lanes.type, f.offset(weights, v * lanes.count * lanes.bytes), lanes.bytes, "w"
                )
                for v in range(tile.vectors)
            ]
            sums: list[Value] = []
            for row, address in enumerate(rows):
                x = lanes.broadcast(f, f.element(address, depth.index, lanes.bytes))
                sums.extend(
                    lanes.multiply_add(f, x, w, depth.carried[row * tile.vectors + v])
                    for v, w in enumerate(loaded)
                )
            depth.carry(*sums)
        tap.carry(*depth.results)
    _store_tile(f, shape, lanes, tap.results)
    return f


def _store_tile(f: Function, shape: PanelShape, lanes: Lanes, sums: tuple[Value, ...]) -> None:
    tile = shape.tile
    addresses: list[tuple[Value, int]] = []
    for row in range(tile.rows):
        out = f.load(PTR, f.offset(f.argument("outs"), row * POINTER_BYTES), POINTER_BYTES, "out")
        start = f.offset(out, f.argument("column"), "out.column")
        for v in range(tile.vectors):
            place = f.offset(start, v * lanes.count * lanes.bytes)
            addresses.append((place, shape.columns - v * lanes.count))
    add = f.argument("add")
    with f.when(f.compare("ne", add, 0), "adding"):
        for total, (address, active) in zip(sums, addresses, strict=True):
            before = lanes.load(f, address, active, "before")
            lanes.store(f, f.float_binary("fadd", before, total, "after"), address, active)
    with f.when(f.compare("eq", add, 0), "storing"):
        for total, (address, active) in zip(sums, addresses, strict=True):
            lanes.store(f, total, address, active)
