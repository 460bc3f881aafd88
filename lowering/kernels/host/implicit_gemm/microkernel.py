"""The innermost loops: a tile of accumulators in registers, over all taps and input channels of a
block.

Rows come as a table of addresses, `rows[tap][row]`, so that padding, strides, dilations and the
phases of a strided gradient are the same code with another table: a row outside of the input is
the address of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import (
    I1,
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
    vector,
    zero,
)
from convir.lowering.kernels.host.code.combine import horizontal_sums
from convir.lowering.kernels.host.code.elements.halves import (
    in_order,
    load_by_parity,
    split_vectors,
)
from convir.lowering.kernels.host.code.tiles import SLACK, BroadcastTile, DotTile, GroupTile
from convir.lowering.kernels.host.implicit_gemm.broadcast_steps import BroadcastSteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.host.code.builder import Operand, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.fused_store import FusedStore
    from convir.lowering.kernels.host.code.tiles import Tile
    from convir.lowering.kernels.host.implicit_gemm.zero_fills import ZeroFillStores


@dataclass(frozen=True)
class PanelShape:
    """What the innermost loop knows about its operands when it is compiled."""

    tile: Tile
    out_channels: int
    """Columns of the panel that exist; a vector of columns may reach past them."""
    in_channels: int
    """Elements of a row."""
    table_width: int
    """Rows in a line of the row table."""
    zero_row: Value
    """The address of the zeros that rows outside of A point at."""
    spill_row: Value
    """The address of the row that the excess rows of a tile are stored to."""
    skips: bool
    """Whether taps that are padding for all rows of a tile add nothing."""
    single: bool
    """Whether one call computes whole accumulators; else taps or input channels come in several
    blocks."""
    streams: bool = False
    """Whether rows lie behind each other and are read once: those of the next tile are asked for
    while this one is computed."""
    line_elements: int | None = None
    """Elements between two input channels of a broadcast tile's panel; None if they follow each
    other."""
    asks_outs: bool = False
    """Whether a tile begins with asking for the lines that it reads at its end: those that it adds
    to, or those of operands that lie as the result does."""
    zero_fills: ZeroFillStores | None = None
    """What stores rows of zeros beside the arithmetic; only of broadcast tiles."""
    asks: int = 0
    """Lines that a tile asks for in each turn along the input channels, of the panel that comes
    next: the first one `ahead` bytes behind the beginning of a tap, each of the others `between`
    bytes behind the one before; only broadcast tiles."""


def tile_function(
    name: str, shape: PanelShape, lanes: Lanes, fused: FusedStore | None = None
) -> Function:
    """The function of one tile.

    It computes `tile.rows` rows of C from the table's first rows, for `taps` taps and the input
    channels [`first`, `last`), which for group tiles are all that begin at `first`. It stores the
    accumulators at byte `column` of the rows `outs`, or adds them there if `add` is not 0. With
    `fused`, accumulators that are whole, as `finish` says, are stored through its epilogue.
    Zero-filled outputs become zeros.
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
            *(((I64, "ahead"), (I64, "between")) if shape.asks else ()),
            *(((I64, "finish"), *fused.parameters) if fused is not None else ()),
            *(shape.zero_fills.PARAMETERS if shape.zero_fills is not None else ()),
        ),
    )
    tile, zero_fills = shape.tile, shape.zero_fills
    if shape.asks_outs:
        _ask_outs(f, shape, lanes, fused)
    stored = [] if zero_fills is None else [f.argument("first_zero_fill")]
    width = tile.width if isinstance(tile, DotTile) else tile.vectors
    zeros = [zero(lanes.type)] * (tile.rows * width)
    taps = f.argument("taps")
    results = _tap_steps(f, shape, lanes, (0, taps), [*zeros, *stored])
    sums, stored = results[: len(zeros)], results[len(zeros) :]
    if zero_fills is not None:
        with f.loop("left", stored[0], f.argument("last_zero_fill")) as left:
            zero_fills.store(f, left.index)
    if isinstance(tile, DotTile):
        pieces = _dot_pieces(f, tile, lanes, sums)
    else:
        pieces = _vector_pieces(f, shape, tile, lanes, sums)
    _store_pieces(f, shape, lanes, pieces, fused)
    return f


def _tap_steps(
    f: Function,
    shape: PanelShape,
    lanes: Lanes,
    taps: tuple[Operand, Operand],
    carried: Sequence[Value],
) -> tuple[Value, ...]:
    """All input channels of some taps, added to the accumulators."""
    tile, zero_fills = shape.tile, shape.zero_fills
    tap_bytes = tile.panel_elements(shape.in_channels, lanes.count) * lanes.bytes
    with f.loop("tap", *taps, carried=carried) as tap:
        line = f.element(f.argument("rows"), tap.index, shape.table_width * POINTER_BYTES, "line")
        rows = [
            f.load(PTR, f.offset(line, row * POINTER_BYTES), POINTER_BYTES, "row")
            for row in range(tile.rows)
        ]
        panel = f.element(f.argument("panel"), tap.index, tap_bytes, "panel.tap")
        if isinstance(tile, BroadcastTile):
            last = _last_depth(f, shape, line)
            line_elements = shape.line_elements or tile.out_channels(lanes.count)
            line_bytes = line_elements * lanes.bytes
            steps = BroadcastSteps(
                f,
                tile,
                lanes,
                shape.in_channels,
                rows,
                panel,
                line_bytes,
                shape.asks,
                shape.streams,
            )
            if zero_fills is None:
                tap.carry(*steps.run(f.argument("first"), last, tap.carried))
            else:
                tap.carry(*steps.run_with_zero_fills(zero_fills, last, tap.carried))
        elif isinstance(tile, DotTile):
            last = _last_depth(f, shape, line)
            tap.carry(
                *_dot_steps(f, tile, shape.in_channels, lanes, rows, panel, last, tap.carried)
            )
        else:
            tap.carry(*_group_steps(f, shape, tile, lanes, rows, panel, tap.carried))
    return tap.results


def _last_depth(f: Function, shape: PanelShape, line: Value) -> Value:
    """Where the input channels of a tap end: at their beginning if all of the tile's rows are
    padding, which adds nothing."""
    if not shape.skips:
        return f.argument("last")
    addresses = f.load(vector(I64, SLACK), line, POINTER_BYTES, "addresses")
    zeros = f.splat(f.emit(I64, "zeros", f"ptrtoint {shape.zero_row} to i64"), SLACK)
    inside = f.compare("ne", addresses, zeros)
    bits = f.emit(f"i{SLACK}", "bits", f"bitcast {inside} to i{SLACK}")
    mine = f.emit(bits.type, "mine", f"and {bits}, {(1 << shape.tile.rows) - 1}")
    some = f.emit(I1, "some", f"icmp ne {mine}, 0")
    return f.select(some, f.argument("last"), f.argument("first"), "last.inside")


def _dot_steps(
    f: Function,
    tile: DotTile,
    row_depth: int,
    lanes: Lanes,
    rows: Sequence[Value],
    panel: Value,
    last: Value,
    totals: Sequence[Value],
) -> tuple[Value, ...]:
    """One tap: each step multiplies a vector of input channels of every column with one of every
    row."""
    vector_bytes = lanes.count * lanes.bytes

    def step(at: Value, active: int, before: Sequence[Value]) -> list[Value]:
        weights = f.element(panel, at, tile.width * lanes.bytes, "weights")
        loaded = [
            f.load(lanes.type, f.offset(weights, column * vector_bytes), lanes.bytes, "w")
            for column in range(tile.width)
        ]
        sums: list[Value] = []
        for row, address in enumerate(rows):
            x = lanes.load_row(f, f.element(address, at, lanes.row_bytes), active)
            sums += [
                lanes.multiply_add(f, x, w, total)
                for w, total in zip(loaded, before[row * tile.width :], strict=False)
            ]
        return sums

    whole = row_depth // lanes.count * lanes.count
    full_end = last if whole == row_depth else f.minimum(last, whole, "full.end")
    with f.loop(
        "in_channels", f.argument("first"), full_end, lanes.count, carried=totals
    ) as in_channels:
        in_channels.carry(*step(in_channels.index, lanes.count, in_channels.carried))
    if whole == row_depth:
        return in_channels.results
    # The rest of a row is less than a vector; it belongs to the last block of input channels.
    with f.loop("rest", full_end, f.minimum(last, whole + 1), carried=in_channels.results) as rest:
        rest.carry(*step(rest.index, row_depth - whole, rest.carried))
    return rest.results


def _group_steps(
    f: Function,
    shape: PanelShape,
    tile: GroupTile,
    lanes: Lanes,
    rows: Sequence[Value],
    panel: Value,
    totals: Sequence[Value],
) -> list[Value]:
    """One tap: elements of a row are spread over the lanes that hold their group's columns."""
    together = tile.groups_per_vector(lanes.count)
    groups = shape.out_channels // tile.width
    first = f.argument("first")
    sums = list(totals)
    split = split_vectors(lanes, tile, shape.out_channels)
    for v in range(0, split, 2):
        place = v * lanes.count * lanes.bytes
        weights = [
            f.load(lanes.type, f.offset(panel, place + n * lanes.count * lanes.bytes), 4, "w")
            for n in range(2)
        ]
        for number, row in enumerate(rows):
            begin = f.offset(f.element(row, first, lanes.row_bytes), v * lanes.count * 2)
            for n, x in enumerate(load_by_parity(f, lanes, begin)):
                at = number * tile.vectors + v + n
                sums[at] = lanes.multiply_add(f, x, weights[n], sums[at])
    for v in range(split, tile.vectors):
        here = min(together, groups - v * together)
        count = here * tile.in_channels
        start = v * together * tile.in_channels * lanes.row_bytes
        elements = [
            lanes.load_part(f, f.offset(f.element(row, first, lanes.row_bytes), start), count)
            for row in rows
        ]
        # Shuffles that move the same lane of every 128 bits share instructions: one by one.
        quarter = 16 // lanes.bytes
        for in_channels in sorted(
            range(tile.in_channels), key=lambda in_channels: in_channels % quarter
        ):
            place = (in_channels * tile.vectors + v) * lanes.count * lanes.bytes
            weights = f.load(lanes.type, f.offset(panel, place), lanes.bytes, "w")
            # Lanes past the last group multiply zero weights with any element.
            spread = [
                min(lane // tile.width, here - 1) * tile.in_channels + in_channels
                for lane in range(lanes.count)
            ]
            for row, x in enumerate(elements):
                number = row * tile.vectors + v
                copies = f.shuffle(x, x, spread, "spread")
                sums[number] = lanes.multiply_add(f, copies, weights, sums[number])
    return sums


@dataclass(frozen=True)
class _Piece:
    """A vector of accumulators of adjacent columns of one row."""

    sums: Value
    row: int
    column: int
    """Of the tile's columns the first one that it holds."""
    active: int
    """Lanes that hold columns."""


def _vector_pieces(
    f: Function,
    shape: PanelShape,
    tile: BroadcastTile | GroupTile,
    lanes: Lanes,
    sums: Sequence[Value],
) -> list[_Piece]:
    sums = list(sums)
    split = split_vectors(lanes, tile, shape.out_channels)
    for first in (row * tile.vectors for row in range(tile.rows)):
        for v in range(first, first + split, 2):
            sums[v : v + 2] = in_order(f, lanes, sums[v], sums[v + 1])
    out_channels = tile.out_channels(lanes.count) // tile.vectors
    return [
        _Piece(
            total, row, v * out_channels, min(out_channels, shape.out_channels - v * out_channels)
        )
        for (row, v), total in zip(
            ((row, v) for row in range(tile.rows) for v in range(tile.vectors)), sums, strict=True
        )
    ]


def _dot_pieces(f: Function, tile: DotTile, lanes: Lanes, sums: Sequence[Value]) -> list[_Piece]:
    """Add up the lanes of all accumulators: a vector of `tile.width` columns a row."""
    # As many whole rows at a time as one vector has room for.
    together = max(1, lanes.count // tile.width)
    pieces: list[_Piece] = []
    for first in range(0, tile.rows, together):
        rows = min(together, tile.rows - first)
        begin = first * tile.width
        added = horizontal_sums(f, sums[begin : begin + rows * tile.width], lanes)
        for row in range(rows):
            picked = range(row * tile.width, (row + 1) * tile.width)
            out_channels = f.shuffle(added, added, tuple(picked), "out_channels")
            pieces.append(_Piece(out_channels, first + row, 0, tile.width))
    return pieces


def _store_pieces(
    f: Function,
    shape: PanelShape,
    lanes: Lanes,
    pieces: Sequence[_Piece],
    fused: FusedStore | None,
) -> None:
    """Store accumulators, add them to those of earlier input channels, and store what follows of
    whole accumulators."""
    places = _out_rows(f, shape.tile.rows)
    add = f.argument("add")
    is_first = f.compare("eq", add, 0)
    if fused is None:
        with f.when(f.compare("ne", add, 0), "adding"):
            _store_each(f, lanes, pieces, places, adds=True)
        with f.when(is_first, "storing"):
            _store_each(f, lanes, pieces, places)
    elif shape.single:
        _store_fused(f, shape, lanes, pieces, places, fused)
    else:
        is_last = f.compare("ne", f.argument("finish"), 0)
        with f.when(is_first, "storing"):
            _store_each(f, lanes, pieces, places)
        with f.when(_neither(f, is_first, is_last), "adding"):
            _store_each(f, lanes, pieces, places, adds=True)
        with f.when(is_last, "finishing"):
            before = [
                replace(piece, sums=_added(f, lanes, piece, places[piece.row])) for piece in pieces
            ]
            _store_fused(f, shape, lanes, before, places, fused)


def _neither(f: Function, left: Value, right: Value) -> Value:
    either = f.emit(I1, "either", f"or {left}, {right.text}")
    return f.emit(I1, "neither", f"xor {either}, true")


def _store_each(
    f: Function, lanes: Lanes, pieces: Sequence[_Piece], places: list[Value], *, adds: bool = False
) -> None:
    for piece in pieces:
        total = _added(f, lanes, piece, places[piece.row]) if adds else piece.sums
        _store(f, lanes, total, f.offset(places[piece.row], piece.column * lanes.bytes), piece)


def _added(f: Function, lanes: Lanes, piece: _Piece, row: Value) -> Value:
    """The accumulators of a piece and of earlier input channels."""
    address = f.offset(row, piece.column * lanes.bytes)
    if piece.sums.type == lanes.type:
        before = lanes.load(f, address, piece.active, "before")
    else:
        before = f.load(piece.sums.type, address, lanes.bytes, "before")
    return lanes.add(f, before, piece.sums)


def _store(f: Function, lanes: Lanes, total: Value, address: Value, piece: _Piece) -> None:
    if total.type == lanes.type:
        lanes.store(f, total, address, piece.active)
    else:
        f.store(total, address, lanes.bytes)


def _store_fused(
    f: Function,
    shape: PanelShape,
    lanes: Lanes,
    pieces: Sequence[_Piece],
    places: list[Value],
    fused: FusedStore,
) -> None:
    first = f.div(f.argument("column"), lanes.bytes, "first.column")
    spilled = f.offset(shape.spill_row, f.argument("column"), "spilled")
    behind = [fused.behind(f, place, spilled) for place in places]
    for piece in pieces:
        column = f.add(first, piece.column, "channel")
        offset = piece.column * lanes.bytes
        here = fused.along(f, behind[piece.row], offset)
        total = fused.of_channels(f, piece.sums, column, piece.active, here)
        _store(f, lanes, total, f.offset(places[piece.row], offset), piece)


def _ask_outs(f: Function, shape: PanelShape, lanes: Lanes, fused: FusedStore | None) -> None:
    for place in _out_rows(f, shape.tile.rows):
        if not shape.single:
            for at in range(0, shape.out_channels * lanes.bytes, LINE_BYTES):
                f.prefetch(f.offset(place, at), writes=True)
        elif fused is not None:
            fused.ask_beside(f, place, shape.out_channels)


def _out_rows(f: Function, rows: int) -> list[Value]:
    column = f.argument("column")
    outs = f.argument("outs")
    return [
        f.offset(f.load(PTR, f.offset(outs, row * POINTER_BYTES), POINTER_BYTES, "out"), column)
        for row in range(rows)
    ]
