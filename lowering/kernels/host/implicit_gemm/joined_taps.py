"""Few and odd input channels of bf16, multiplied in pairs: the taps of a row follow each other.

Where the channels of a tap are no whole words, an item copies its rows first, all taps behind each
other, then zeros. The copy is read as the rows of one tap whose channels are words of two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import Channels, Weights
from convir.lowering.kernels.host.code.builder import (
    I64,
    LINE_BYTES,
    POINTER_BYTES,
    PTR,
    Function,
)
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.tap_rows import TapRows
from convir.lowering.kernels.host.code.tiles import BroadcastTile
from convir.lowering.kernels.host.implicit_gemm.blocking import block
from convir.lowering.kernels.host.implicit_gemm.pack.words import WORD_BYTES, WordPacking

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.builder import Value
    from convir.lowering.kernels.host.implicit_gemm.blocking import Blocking
    from convir.lowering.kernels.host.target import CpuTarget

MAX_ROW_BYTES = 1024
"""Of a row with all its taps: those of an item stay in the second-level cache."""

MAX_TAPS = 256
"""Of a row: so many addresses of each row of an item are listed."""


@dataclass(frozen=True)
class JoinedTaps:
    """The contraction of an item's copied rows."""

    source: Contraction
    """As its rows lie in A, whose channels are contiguous."""
    spec: Contraction
    """The same of the copies: one tap of words."""
    lanes: Lanes
    cuts: Blocking

    @staticmethod
    def of(source: Contraction, cpu: CpuTarget) -> JoinedTaps | None:
        """The contraction of copied rows; None if `source` is multiplied as its rows lie."""
        if not takes_joined_taps(source, cpu):
            return None
        (phase,) = source.phases
        words = -(-phase.taps * source.in_channels // 2)
        axes = tuple(replace(axis, tap_rows=(0,), tap_weights=(0,)) for axis in phase.axes)
        spec = replace(
            source,
            phases=(replace(phase, axes=axes),),
            in_channels=words,
            a=Channels("f32"),
            b=Weights("bf16", 1, 2 * words),
        )
        lanes = Lanes(source.element, cpu, pairs=True)
        cuts = block(spec, lanes)
        if not isinstance(cuts.tile, BroadcastTile):
            return None
        return JoinedTaps(source, spec, lanes, cuts)

    @property
    def packing(self) -> WordPacking:
        """What packs the weights."""
        cuts, lanes = self.cuts, self.lanes.count
        last = cuts.last_tile.out_channels(lanes)
        return WordPacking(
            self.source, (self.spec.in_channels,), cuts.panels, cuts.panel_out_channels, last
        )

    @property
    def rows(self) -> TapRows:
        """What copies a row."""
        return TapRows.of(self.source, self.cuts.table_width)

    @property
    def pitch(self) -> int:
        """Bytes between two copied rows, an odd number of lines: they share no sets of a cache."""
        return (-(-self.spec.in_channels * WORD_BYTES // LINE_BYTES) + 1 | 1) * LINE_BYTES

    @property
    def nbytes(self) -> int:
        """Of the copied rows of an item."""
        return self.cuts.table_width * self.pitch

    @property
    def listed(self) -> Contraction:
        """What the row table is of."""
        return self.rows.listed(self.source)

    def function(self, zeros: Value) -> Function:
        """Copy `count` rows of the table `rows` to `lines`, and list the copies in the table.

        The first row is of the output pixel `first`; `zeros` is where padding points at.
        """
        numbers = ((I64, "first"), (I64, "count"))
        f = Function("join_taps", ((PTR, "rows"), (f"{PTR} noalias", "lines"), *numbers))
        rows, (phase,) = f.argument("rows"), self.listed.phases
        taps = self.rows
        first = taps.place(f, f.argument("first"))
        with f.loop("row", 0, f.argument("count"), carried=[first], runs=True) as row:
            (place,) = row.carried
            to = f.element(f.argument("lines"), row.index, self.pitch, "copy")
            taps.copy(f, (rows, zeros), row.index, phase.taps, to, place)
            f.store(to, f.element(rows, row.index, POINTER_BYTES), POINTER_BYTES)
            row.carry(taps.next_place(f, place))
        return f


def takes_joined_taps(spec: Contraction, cpu: CpuTarget) -> bool:
    """Whether `cpu` multiplies pairs of copied rows: of odd channels of bf16, in one phase."""
    types = {spec.a.type, spec.b.type}
    if not cpu.bf16_dot or spec.result != "C" or types != {"bf16"} or spec.groups > 1:
        return False
    if spec.in_channels % 2 == 0 or len(spec.phases) != 1:
        return False
    taps = spec.phases[0].taps
    return 0 < taps <= MAX_TAPS and taps * spec.in_channels * 2 <= MAX_ROW_BYTES
