"""Both operands of a block of output pixels, in the order in which registers are loaded.

Rows of the result are channels of C: a register has 16 of them, 32 output pixels each, so C is
transposed, once for all taps. Columns are channels of A, whose words are two output pixels: they
are joined for each tap, as they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.amx_wgrad.blocking import STEP, TILE
from convir.lowering.kernels.host.code.builder import I64, POINTER_BYTES, PTR, Function
from convir.lowering.kernels.host.code.elements.pairs import joined
from convir.lowering.kernels.host.code.tile_registers import (
    COLUMNS,
    ROW_BYTES,
    ROWS,
    WORD_BYTES,
    WORDS,
)
from convir.lowering.kernels.host.code.transpose import transpose

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.host.code.builder import Module, Operand, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

BF16_BYTES = 2
LINE_BYTES = TILE * WORD_BYTES
"""Of a pair of pixels of the columns of a panel."""


@dataclass(frozen=True)
class BlockOperands:
    """Writes the functions that lay out the operands of a block."""

    lanes: Lanes
    block: int
    """Output pixels, at most."""

    @property
    def left_pitch(self) -> int:
        """Bytes between two rows: an odd number of lines, so that they share no sets of a cache."""
        return self.block * BF16_BYTES + ROW_BYTES

    @property
    def panel_bytes(self) -> int:
        """Of the columns of a panel."""
        return self.block // 2 * LINE_BYTES

    def left(self, module: Module, channels: int) -> Function:
        """Transpose channels [`first`, `last`) of `steps` · 32 output pixels, whose addresses are
        in `table`; of all `channels`, those that there are none of become zeros."""
        f = self._function("transpose_rows")
        pixel_bytes = STEP * POINTER_BYTES

        def registers(step: Value, channel: Value, active: int) -> None:
            table = f.element(f.argument("table"), step, pixel_bytes, "pixels")
            pairs = [self._pair(f, table, pair, channel, active) for pair in range(WORDS)]
            behind = f.sub(channel, f.argument("first"))
            to = f.element(f.argument("to"), behind, self.left_pitch, "register")
            to = f.element(to, step, ROW_BYTES, "step.rows")
            for number, line in enumerate(transpose(f, pairs)):
                f.store(line, f.offset(to, number * self.left_pitch), ROW_BYTES)

        with f.loop("step", 0, f.argument("steps"), runs=True) as step:
            self._channels(f, channels, ROWS, lambda c, active: registers(step.index, c, active))
        return module.add(f)

    def right(self, module: Module, channels: int) -> Function:
        """Join channels [`first`, `last`) of `steps` · 16 pairs of pixels; the other arguments are
        as for `left`."""
        f = self._function("join_columns")

        def line(pair: Value, channel: Value, active: int) -> None:
            table = f.element(f.argument("table"), pair, 2 * POINTER_BYTES, "pixels")
            words = self._pair(f, table, 0, channel, active)
            behind = f.sub(channel, f.argument("first"))
            panel, within = f.div(behind, TILE), f.rem(behind, TILE)
            to = f.element(f.argument("to"), panel, self.panel_bytes, "panel")
            to = f.element(f.element(to, pair, LINE_BYTES), within, WORD_BYTES, "line")
            f.store(words, to, ROW_BYTES)

        with f.loop("pair", 0, f.mul(f.argument("steps"), WORDS), runs=True) as pair:
            self._channels(f, channels, COLUMNS, lambda c, active: line(pair.index, c, active))
        return module.add(f)

    def _function(self, name: str) -> Function:
        numbers = ((I64, number) for number in ("steps", "first", "last"))
        return Function(name, ((f"{PTR} noalias", "table"), (f"{PTR} noalias", "to"), *numbers))

    def _channels(
        self, f: Function, channels: int, width: int, write: Callable[[Value, int], None]
    ) -> None:
        """Whole vectors of channels from `first` to `last`, then the rest of all `channels`."""
        first, last = f.argument("first"), f.argument("last")
        whole, rest = divmod(channels, width)
        with f.loop("channel", first, f.minimum(last, whole * width), width) as channel:
            write(channel.index, width)
        if rest:
            with f.when(f.compare("sgt", last, whole * width), "rest"):
                write(f.add(whole * width, 0), rest)

    def _pair(self, f: Function, table: Value, pair: int, channel: Operand, active: int) -> Value:
        """The words of 16 channels of two pixels, the first `active` of them."""
        halves = [
            f.load(PTR, f.offset(table, (2 * pair + half) * POINTER_BYTES), POINTER_BYTES, "pixel")
            for half in range(2)
        ]
        low, high = (
            self.lanes.load_words(f, f.element(half, channel, BF16_BYTES), active)
            for half in halves
        )
        words = joined(f, self.lanes, low, high)
        return words
