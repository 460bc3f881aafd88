"""LLVM IR of one stage on one tile of frames.

A tile is some channels by some vectors of frames, summed in registers: each row is loaded once a
tap, each weight is broadcast once, and neither zeros between groups nor padding are visited.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.scalar_program import Constant, Operand, Result, Sum
from convir.lowering.bodies.planar.program import Column, Parameter, Rows
from convir.lowering.kernels.host.code.builder import (
    PTR,
    Value,
    zero,
)
from convir.lowering.kernels.host.code.scalar_steps import write_steps
from convir.lowering.kernels.host.fused_chain.config import channel_tiles
from convir.lowering.kernels.host.fused_chain.term_code import TermCode

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from convir.lowering.bodies.contraction.scalar_program import Term as Scalar
    from convir.lowering.bodies.planar.program import Stage, Term
    from convir.lowering.kernels.host.code.builder import Function
    from convir.lowering.kernels.host.code.builder import Operand as Integer
    from convir.lowering.kernels.host.code.elements.lanes import Lanes


@dataclass(frozen=True)
class Tile:
    """The frames that a stage computes at once."""

    frame: Value
    """The first one, of the block."""
    vectors: int
    active: Value | None = None
    """Which lanes of the only vector are frames; None if all are."""


@dataclass(frozen=True)
class StageCode:
    """Writes a stage into a function whose arguments are a program's parameters."""

    f: Function
    lanes: Lanes
    strides: Sequence[tuple[Integer, Integer]]
    """Bytes between the rows of each parameter, and between taps."""
    temporaries: Sequence[Value]
    """Where each temporary lies: rows of a tile's frames."""
    temporary_stride: int
    """Bytes between two rows of a temporary."""
    sums: int
    """At most so many in registers."""

    def write(self, stage: Stage, tile: Tile) -> None:
        """All channels of `stage` on one tile of frames."""
        if stage.multiply_adds <= stage.channels:
            # A row has enough vectors to fill the pipes; more rows at once share no more than the
            # loads of one row, and are more code.
            self._blocks(stage, tile, (1,))
            return
        sizes = channel_tiles(stage.block, tile.vectors, self.sums)
        # Tiles of one size are turns of one loop, through all blocks.
        self._blocks(stage, tile, sizes if len(set(sizes)) > 1 else sizes[:1])

    def _blocks(self, stage: Stage, tile: Tile, sizes: Sequence[int]) -> None:
        """Tiles of `sizes` channels, over and over."""
        with self._counted(stage.channels // sum(sizes), sum(sizes)) as channel:
            for i, size in enumerate(sizes):
                self._tile(stage, tile, self.f.add(channel, sum(sizes[:i]), "channel"), size)

    @contextmanager
    def _counted(self, turns: int, step: int) -> Generator[Integer]:
        if turns == 1:
            yield 0
            return
        with self.f.loop("channels", 0, turns * step, step, runs=True) as loop:
            yield loop.index

    def _tile(self, stage: Stage, tile: Tile, channel: Integer, size: int) -> None:
        f, lanes = self.f, self.lanes
        sums: Sequence[Value] = [zero(lanes.type)] * (size * tile.vectors)
        for term in stage.terms:
            sums = self._term(stage, term, tile, channel, size, sums)
        for row in range(size):
            at = f.add(channel, row, "channel")
            columns = {
                number: lanes.broadcast(f, self._column(read, at))
                for number, read in enumerate(stage.reads)
                if isinstance(read, Column)
            }
            for v in range(tile.vectors):
                operands = [
                    columns[number]
                    if isinstance(read, Column)
                    else self._load(self._row(read, at, tile), tile, v)
                    for number, read in enumerate(stage.reads)
                ]
                total = sums[row * tile.vectors + v]
                results = write_steps(f, lanes, stage.steps, total, operands)
                for write in stage.writes:
                    stored = _value_of(write.value, total, operands, results)
                    self._store(stored, self._row(write.rows, at, tile), tile, v)

    def _term(
        self,
        stage: Stage,
        term: Term,
        tile: Tile,
        channel: Integer,
        size: int,
        sums: Sequence[Value],
    ) -> Sequence[Value]:
        """Add a term to the accumulators of channels from `channel`, `[channel][vector]`."""
        f = self.f
        group: Integer = 0
        if isinstance(channel, int):
            group = channel // (stage.channels // term.groups)
        elif term.groups > 1:
            group = f.div(channel, stage.channels // term.groups, "group")
        row = self._row(term.rows, f.mul(group, term.depth, "row"), tile)
        first = f.mul(channel, term.depth * term.taps)
        is_filled = isinstance(term.weights, float)
        base = Value(PTR, "null") if is_filled else self._pointer(term.weights)
        weights = base if is_filled else f.element(base, first, self.lanes.bytes)
        row_stride, reach = self._strides(term.rows)
        code = TermCode(f, self.lanes, term, size, tile.vectors, tile.active, row_stride, reach)
        return code.add(row, weights, sums)

    def _row(self, rows: Rows, channel: Integer, tile: Tile) -> Value:
        """Where the row of a channel begins, at the tile's first frame."""
        f = self.f
        at = f.add(channel, rows.first, "channel")
        base, (stride, _) = self._pointer(rows.array), self._strides(rows)
        row = f.offset(base, f.mul(at, stride, "row"))
        if isinstance(rows.array, Parameter):
            return f.element(row, tile.frame, self.lanes.bytes)
        return row

    def _column(self, column: Column, channel: Integer) -> Value:
        return self.f.element(self._pointer(column.array), channel, self.lanes.bytes)

    def _pointer(self, array: object) -> Value:
        if isinstance(array, Parameter):
            return Value(PTR, f"%p{array.number}")
        return self.temporaries[array.number]  # type: ignore[attr-defined]

    def _strides(self, rows: Rows) -> tuple[Integer, Integer]:
        """Bytes between rows, and between taps."""
        if isinstance(rows.array, Parameter):
            return self.strides[rows.array.number]
        return self.temporary_stride, 0

    def _load(self, row: Value, tile: Tile, v: int) -> Value:
        address = self.f.offset(row, v * self.lanes.count * self.lanes.bytes)
        if tile.active is None:
            return self.lanes.load(self.f, address, self.lanes.count)
        return self.lanes.load_masked(self.f, address, tile.active)

    def _store(self, stored: Value, row: Value, tile: Tile, v: int) -> None:
        address = self.f.offset(row, v * self.lanes.count * self.lanes.bytes)
        if tile.active is None:
            self.lanes.store(self.f, stored, address, self.lanes.count)
        else:
            self.lanes.store_masked(self.f, stored, address, tile.active)


def _value_of(
    term: Scalar, total: Value, operands: Sequence[Value], results: Sequence[Value]
) -> Value:
    match term:
        case Sum():
            return total
        case Operand(number=number):
            return operands[number]
        case Result(step=step):
            return results[step]
        case Constant():
            raise ValueError("a stage writes a constant")
