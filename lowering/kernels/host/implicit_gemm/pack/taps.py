"""Packing a filter whose taps are contiguous in memory, as `KCRS` has them.

Each column has all its taps of one depth in a few cache lines, so they are read once: a square of
columns by taps is transposed, and every tap's line of columns goes to its own packed matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import PTR, Function, Module, Value, zero
from convir.lowering.kernels.host.code.elements.pairs import operand_storage
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.tiles import BroadcastTile
from convir.lowering.kernels.host.code.transpose import pieces, transpose

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.implicit_gemm.blocking import Panels

MAX_TAPS = 64
"""More neighbours than this are not taps of one filter, or too many for straight code."""

DEPTHS = 16
"""Input channels that an item packs."""


@dataclass(frozen=True)
class _Tap:
    """Where one tap is packed, in elements of a group."""

    phase_start: int
    """Of its phase."""
    number: int
    """Among the taps of its phase."""
    count: int
    """Taps of its phase."""


@dataclass(frozen=True)
class TapPacking:
    """Writes the function that packs some input channels of one panel, all taps at once."""

    spec: Contraction
    lanes: Lanes
    cuts: Panels
    taps: dict[int, _Tap]
    """By the element of B that the tap begins at."""

    @staticmethod
    def of(spec: Contraction, lanes: Lanes, cuts: Panels) -> TapPacking | None:
        """The packing of `spec`, or None if its taps are not neighbours."""
        taps: dict[int, _Tap] = {}
        before = 0
        for phase in spec.phases:
            start = before * cuts.tap_elements
            before += phase.taps
            for number, tap in enumerate(product(*(axis.tap_weights for axis in phase.axes))):
                taps[sum(tap)] = _Tap(start, number, phase.taps)
        strides = (spec.b.in_channel_stride, spec.b.out_channel_stride)
        apart = len(taps) != before or not taps or max(taps) - min(taps) >= MAX_TAPS
        if not isinstance(cuts.tile, BroadcastTile) or 1 in strides or apart or len(taps) == 1:
            return None
        return TapPacking(spec, lanes, cuts, taps)

    @property
    def blocks(self) -> int:
        """Pieces of the depth, each an item of every panel."""
        return -(-self.spec.in_channels // DEPTHS)

    def write(self, module: Module, tile: BroadcastTile, out_channels: int, label: str) -> Function:
        """The function that packs the input channels [`first`, `last`) of panel number `panel`.

        `source` is the first tap, depth and column of the panel, `target` the packed group.
        """
        parameters = ((PTR, "source"), (PTR, "target"), *(("i64", n) for n in _NUMBERS))
        f = module.add(Function(f"pack_taps_{label}", parameters))
        own, lanes = Storage(self.lanes, self.lanes.element), self.lanes.count
        b = self.spec.b
        storage = operand_storage(self.lanes, b.type, b.in_channel_stride)
        line_bytes = tile.out_channels(lanes) * own.bytes
        targets = self._targets(f, tile)
        first_tap, reach = min(self.taps), max(self.taps) - min(self.taps) + 1
        with f.loop("in_channels", f.argument("first"), f.argument("last")) as in_channels:
            row = f.element(
                f.argument("source"), in_channels.index, b.in_channel_stride * storage.bytes
            )
            line = f.mul(in_channels.index, line_bytes, "line")
            for piece in pieces(out_channels, lanes):
                with f.loop("vector", piece.first, piece.end, runs=True) as v:
                    column = f.element(row, v.index, lanes * b.out_channel_stride * storage.bytes)
                    place = f.add(line, f.mul(v.index, lanes * own.bytes), "place")
                    for start in range(0, reach, lanes):
                        active = min(lanes, reach - start)
                        loaded = [
                            storage.load_raw(
                                f,
                                f.offset(
                                    column, (start + c * b.out_channel_stride) * storage.bytes
                                ),
                                active,
                            )
                            if c < piece.active
                            else zero(storage.raw_type)
                            for c in range(lanes)
                        ]
                        for element, columns_of_tap in enumerate(transpose(f, loaded)[:active]):
                            target = targets.get(first_tap + start + element)
                            if target is not None:
                                wide = storage.widen(f, columns_of_tap)
                                own.store(f, wide, f.offset(target, place), lanes)
        return f

    def _targets(self, f: Function, tile: BroadcastTile) -> dict[int, Value]:
        """The address of each tap's packed matrix."""
        size, panel = self.lanes.bytes, f.argument("panel")
        tap_elements = tile.panel_elements(self.spec.in_channels, self.lanes.count)
        targets: dict[int, Value] = {}
        for element, tap in self.taps.items():
            before = f.mul(panel, tap.count * self.cuts.panel_elements * size, "panels")
            base = (tap.phase_start + tap.number * tap_elements) * size
            targets[element] = f.offset(f.argument("target"), f.add(before, base), "tap")
        return targets


_NUMBERS = ("panel", "first", "last")
