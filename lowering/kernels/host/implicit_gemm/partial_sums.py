"""Long sums as sums of shorter ones: what a tile adds up of some taps leaves its registers for the
stack, so that what a sum rounds off grows with the square root of a part and not of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.builder import Function, Value
    from convir.lowering.kernels.host.code.elements.lanes import Lanes

PRODUCTS = 384
"""About as many are added up in a register, one after the other: n sums of random numbers are off
by √(n/2) units in the last place. onnxruntime's have 128 to 144; with half as many as here networks
of 3x3 convolutions took 3.5% longer than without any cut, instead of 1%."""


def rounds(spec: Contraction) -> bool:
    """Whether sums are rounded as finely as results are, so that long ones are cut."""
    return spec.element == "f32" and spec.a.type == "f32"


def taps_together(taps: int, in_channels: int) -> int:
    """How many of `taps` are added up in registers, each of `in_channels` products."""
    most = max(1, PRODUCTS // max(in_channels, 1))
    parts = max(1, -(-taps // most))
    return -(-taps // parts)


@dataclass(frozen=True)
class PartialSums:
    """Writes what keeps the sums of earlier taps of a tile."""

    f: Function
    lanes: Lanes
    together: int
    """Taps of a part."""
    count: int
    """Vectors of sums."""
    kept: Value = field(init=False)

    def __post_init__(self) -> None:
        size = self.count * self.lanes.count * self.lanes.bytes
        object.__setattr__(self, "kept", self.f.stack(size, LINE_BYTES, "kept"))

    def total(self, first_tap: Value, sums: Sequence[Value], nothing: Value) -> list[Value]:
        """Those of the part that begins with `first_tap` and of all before it, which are kept; of
        the first part alone `nothing` is kept. No branch is to be foreseen."""
        f, lanes = self.f, self.lanes
        size = lanes.count * lanes.bytes
        is_first = f.compare("eq", first_tap, 0)
        before = f.select(is_first, nothing, self.kept, "before")
        totals = [
            lanes.add(f, f.load(lanes.type, f.offset(before, n * size), size, "kept"), total)
            for n, total in enumerate(sums)
        ]
        for n, total in enumerate(totals):
            f.store(total, f.offset(self.kept, n * size), size)
        return totals
