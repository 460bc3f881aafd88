"""Rows of C that no tap reaches, stored as zeros beside the arithmetic of the others.

Stores wait for the cache in a queue of some 64, and behind a full queue the arithmetic stands
still. So an item lists its zero-filled outputs first, and every tile stores its share of them, a
row in each step along the depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from convir.lowering.kernels.host.code.builder import (
    I64,
    POINTER_BYTES,
    PTR,
    Function,
    Value,
    value,
    zero,
)
from convir.lowering.kernels.host.code.tiles import SLACK, BroadcastTile
from convir.lowering.kernels.host.implicit_gemm.blocking import longest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.builder import Operand
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking
    from convir.lowering.kernels.host.implicit_gemm.row_tables import PhaseTables

    Bounds = Callable[[Value], tuple[Value, Value]]
    """From the number of a phase to the first and the last position of an item."""


_COMPUTING_BITS = 512
"""Vectors of processors on which zeros that are stored beside multiply-adds are computed each time.
With fewer registers accumulators and weights leave none for them."""


@dataclass(frozen=True)
class ZeroFills:
    """The phases without taps, which follow those with taps."""

    first: int
    """The number of the first."""
    last: int
    """The number of phases."""
    rows: int
    """At most so many rows in an item."""

    PARAMETERS: ClassVar = ((PTR, "zero_fills"), (I64, "zero_fill_count"))
    """Of the function of a piece whose tiles store zero-filled outputs: a table of addresses,
    and its length."""

    @staticmethod
    def of(spec: Contraction, cuts: Blocking) -> ZeroFills | None:
        """The zero-filled outputs of `spec`, or None if there are none, or they need code of their
        own.

        That is so where zeros are not stored as they are: C gets what follows the accumulators,
        another type or layout, or is added to.
        """
        worked = [number for number, phase in enumerate(spec.phases) if phase.taps]
        first = len(worked)
        in_order = worked == list(range(first))
        plain = isinstance(cuts.tile, BroadcastTile) and not cuts.scratch_out_channels
        # Every item has tiles to put the zero-filled outputs behind.
        plain = plain and all(begin < end for begin, end in pairwise(cuts.bounds[0]))
        if not plain or spec.accumulate or not in_order or first in (0, len(spec.phases)):
            return None
        longest = (
            longest_of(cuts.bounds[number], cuts.chunks_together)
            for number in range(first, len(spec.phases))
        )
        return ZeroFills(first, len(spec.phases), sum(longest))

    @property
    def table_bytes(self) -> int:
        """Of the table of their addresses."""
        return (self.rows + SLACK) * POINTER_BYTES

    def listed(
        self,
        f: Function,
        tables: PhaseTables,
        lister: Function,
        bounds: Bounds,
        to: tuple[Value, Value],
    ) -> Value:
        """List an item's zero-filled outputs of C, `to[0]`, in the table `to[1]`, by the function
        of an `OutLister`; returns how many there are."""
        c, table = to
        with f.loop("zero_fill", self.first, self.last, carried=[value(0)], runs=True) as zero_fill:
            (before,) = zero_fill.carried
            begin, end = bounds(zero_fill.index)
            with f.when(f.compare("slt", begin, end), "listing"):
                place = f.element(table, before, POINTER_BYTES, "listed")
                line = tables.line(f, zero_fill.index)
                f.call(lister, line, c, place, begin, end)
            zero_fill.carry(f.add(before, f.sub(end, begin), "zero_fills"))
        return zero_fill.results[0]

    def share(self, f: Function, tile: Value, tiles: Value, is_first: Value) -> list[Operand]:
        """What tile number `tile` of `tiles` gets for `ZeroFillStores.PARAMETERS`: its share of the
        zero-filled outputs beside the first block of taps and input channels, none beside the
        others."""
        count = f.argument("zero_fill_count")
        share = f.div(f.sub(f.add(count, tiles), 1), tiles, "share")
        some = f.select(is_first, count, 0, "holes.now")
        # Behind the last zero-filled output, and beside later blocks, a share is empty: it never
        # runs backwards.
        first = f.minimum(f.mul(tile, share), some, "first.hole")
        return [f.argument("zero_fills"), first, f.minimum(f.add(first, share), some, "last.hole")]


@dataclass(frozen=True)
class ZeroFillStores:
    """Writes the stores of zeros to `out_channels` columns of rows in the parameters of a tile."""

    lanes: Lanes
    out_channels: int

    PARAMETERS: ClassVar = ((PTR, "zero_fills"), (I64, "first_zero_fill"), (I64, "last_zero_fill"))
    """The table of addresses, and which of them; the columns are the tile's."""

    def store(self, f: Function, number: Value) -> None:
        """One row."""
        row = self._row(f, number)
        for v in range(self._vectors):
            self._store(f, row, v, self._constant)

    def stores(self, f: Function, number: Value) -> Sequence[Callable[[], None]]:
        """What writes the vectors of one row, best with multiply-adds between them.

        A Zen 4 reads what it stores from a port that the third operand of a multiply-add comes
        through: 24 of these beside four stores of a register take 30 cycles. What was computed the
        moment before needs no port, and they take 24.
        """
        row = self._row(f, number)
        return [partial(self._store, f, row, v, self._computed) for v in range(self._vectors)]

    @property
    def _vectors(self) -> int:
        return -(-self.out_channels // self.lanes.count)

    def _row(self, f: Function, number: Value) -> Value:
        place = f.element(f.argument("zero_fills"), number, POINTER_BYTES)
        return f.offset(f.load(PTR, place, POINTER_BYTES, "zero_fill"), f.argument("column"))

    def _store(
        self, f: Function, row: Value, number: int, zeros: Callable[[Function], Value]
    ) -> None:
        lanes, start = self.lanes, number * self.lanes.count
        lanes.store(f, zeros(f), f.offset(row, start * lanes.bytes), self.out_channels - start)

    def _constant(self, _: Function) -> Value:
        return zero(self.lanes.type)

    def _computed(self, f: Function) -> Value:
        """Zeros by an instruction of their own, which LLVM neither moves nor sees through."""
        nothing = zero(self.lanes.type)
        if self.lanes.cpu.vector_bits < _COMPUTING_BITS:
            return nothing
        code = f'asm sideeffect "vandps $1, $1, $0", "=v,v"({nothing})'
        return f.emit(nothing.type, "zeros", f"call {nothing.type} {code}")
