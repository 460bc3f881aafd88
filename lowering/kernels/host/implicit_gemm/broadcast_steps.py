"""The steps of a broadcast tile along the input channels: several a turn with few registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.lowering.kernels.host.code.builder import Function, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.tiles import BroadcastTile
    from convir.lowering.kernels.host.implicit_gemm.zero_fills import ZeroFillStores
    from convir.lowering.kernels.host.target import CpuTarget

FEW_REGISTERS = 16
"""Of vectors: a step along the input channels then has so few multiply-adds that the loop itself
would be a fifth of its instructions."""

UNROLLED = 8
"""Steps of a turn where registers are few."""


def steps_of_turn(cpu: CpuTarget, in_channels: int) -> int:
    """Input channels in a turn of the innermost loop of a broadcast tile."""
    return min(UNROLLED, in_channels) if cpu.vector_registers <= FEW_REGISTERS else 1


@dataclass(frozen=True)
class BroadcastSteps:
    """One tap: each step multiplies a line of the panel with one broadcast element a row."""

    f: Function
    tile: BroadcastTile
    lanes: Lanes
    in_channels: int
    """Elements of a row."""
    rows: Sequence[Value]
    panel: Value
    line_bytes: int
    """Between two lines of the panel."""
    asks: int
    """Lines of the next panel that are asked for in each turn."""
    streams: bool
    """Whether rows of the next tile are asked for, which lie behind this one's."""

    def run(self, first: Value, last: Value, totals: Sequence[Value]) -> tuple[Value, ...]:
        """The input channels [`first`, `last`) of a block, or none of them."""
        if self.in_channels == self._steps:
            return self._turns(first, last, totals, self._steps)
        return self._some(first, last, totals)

    @property
    def _steps(self) -> int:
        return steps_of_turn(self.lanes.cpu, self.in_channels)

    def _some(self, first: Value, last: Value, totals: Sequence[Value]) -> tuple[Value, ...]:
        """The input channels [`first`, `last`), whose number is any."""
        f, steps = self.f, self._steps
        if steps == 1:
            return self._turns(first, last, totals)
        whole = f.mul(f.div(f.sub(last, first), steps), steps, "whole")
        end = f.add(first, whole, "whole.end")
        return self._turns(end, last, self._turns(first, end, totals, steps), is_rest=True)

    def _turns(
        self,
        first: Value,
        last: Value,
        totals: Sequence[Value],
        steps: int = 1,
        stores: Callable[[Value], Sequence[Callable[[], None]]] | None = None,
        *,
        is_rest: bool = False,
    ) -> tuple[Value, ...]:
        """The input channels [`first`, `last`), so many steps a turn; the steps that are left ask
        for no lines."""
        f, asks = self.f, 0 if is_rest else self.asks
        asked = [f.offset(self.panel, f.argument("ahead"), "asked")] if asks else []
        streamed = self.tile.rows * self.lanes.row_bytes if self.streams and not is_rest else 0
        with f.loop("in_channels", first, last, steps, carried=[*totals, *asked]) as turn:
            sums, asked = list(turn.carried[: len(totals)]), list(turn.carried[len(totals) :])
            for step in range(steps):
                beside = () if stores is None else stores(turn.index)
                sums = self._step(turn.index, step, sums, beside)
                before, after = (lines_before(n, steps, asks) for n in (step, step + 1))
                for _ in range(before, after):
                    f.prefetch(asked[0], level=2)
                    asked = [f.offset(asked[0], f.argument("between"), "asked")]
            if streamed:
                self._stream(turn.index, steps * streamed)
            turn.carry(*sums, *asked)
        return turn.results[: len(totals)]

    def _stream(self, in_channels: Value, nbytes: int) -> None:
        """Ask for a part of the next tile's rows: the whole of them in all turns."""
        f, row_bytes = self.f, self.lanes.row_bytes
        place = f.element(self.rows[0], in_channels, self.tile.rows * row_bytes, "part")
        tile_bytes = self.tile.rows * self.in_channels * row_bytes
        for line in range(0, nbytes, LINE_BYTES):
            f.prefetch(f.offset(place, tile_bytes + line, "next"))

    def run_with_zero_fills(
        self, zero_fills: ZeroFillStores, last: Value, carried: Sequence[Value]
    ) -> tuple[Value, ...]:
        """All input channels, the first of them beside the zero-filled outputs from the last of
        `carried` on."""
        f, first = self.f, self.f.argument("first")
        *totals, stored = carried
        left = f.sub(f.argument("last_zero_fill"), stored, "holes.left")
        turn = f.minimum(last, f.add(first, left), "turn")
        zero_fill = f.sub(stored, first, "hole.of.depth")

        def stores(in_channels: Value) -> Sequence[Callable[[], None]]:
            return zero_fills.stores(f, f.add(zero_fill, in_channels))

        totals = self._turns(first, turn, totals, stores=stores)
        return *self._some(turn, last, totals), f.add(zero_fill, turn, "holes.stored")

    def _step(
        self,
        in_channels: Value,
        step: int,
        before: Sequence[Value],
        beside: Sequence[Callable[[], None]],
    ) -> list[Value]:
        """The accumulators after the input channel `step` behind `in_channels`; behind each row
        comes one of the stores `beside` it."""
        f, lanes, vectors = self.f, self.lanes, self.tile.vectors
        vector_bytes = lanes.count * lanes.bytes
        weights = f.element(self.panel, in_channels, self.line_bytes, "weights")
        weights = f.offset(weights, step * self.line_bytes, "weights")
        loaded = [
            f.load(lanes.type, f.offset(weights, v * vector_bytes), lanes.bytes, "w")
            for v in range(vectors)
        ]
        sums: list[Value] = []
        for row, address in enumerate(self.rows):
            place = f.element(address, in_channels, lanes.row_bytes)
            x = lanes.broadcast_row(f, f.offset(place, step * lanes.row_bytes))
            sums += [
                lanes.multiply_add(f, x, w, total)
                for w, total in zip(loaded, before[row * vectors :], strict=False)
            ]
            if row < len(beside):
                beside[row]()
        for store in beside[len(self.rows) :]:
            store()
        return sums


def lines_before(step: int, steps: int, lines: int) -> int:
    """Of `lines` that are asked for in a turn of `steps`, those before a step."""
    return -(-step * lines // steps)
