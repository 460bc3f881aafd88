"""Which of several readings of one kernel is the natural one.

A gradient of the weights is also a convolution whose filter is the other image, a convolution of
one channel an outer product with its own shifts, and a product of matrices has either of them as
its rows. All compute the same; they differ in what surrounds the multiply-adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Protocol

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import ComputeType, Contraction


class Lanes(Protocol):
    """What a reading may depend on of the machine that multiplies."""

    def lanes(self, element: ComputeType) -> int:
        """How many elements one vector holds."""
        ...


@dataclass(frozen=True)
class VectorUnit:
    """What multiplies on a machine."""

    vector_bytes: int
    """Of a vector; it is multiplied whole."""
    multiply_adds: float
    """Vectors of them in a cycle; a position and tap with fewer products still takes one."""

    def lanes(self, element: ComputeType) -> int:
        """How many elements one vector holds."""
        return self.vector_bytes // STORAGE_BYTES[element]


ADDRESS_CYCLES = 2
"""What a position and tap cost beside their products."""

COPY_CYCLES = 1.0
"""An element that is moved to where its neighbours are."""

PACK_CYCLES = 0.5
"""An element of B that is moved to its panel, or one of C that comes out of a tile's columns."""


def _multiplied(in_channels: int, out_channels: int, lanes: int) -> int:
    """Multiply-adds of a position and tap, those in lanes that hold nothing included.

    Lanes hold columns, or input channels where there are less than a vector of columns.
    """
    if out_channels < lanes:
        return min(in_channels * lanes, -(-in_channels // lanes) * lanes * out_channels)
    return in_channels * -(-out_channels // lanes) * lanes


def reading_cost(spec: Contraction, unit: VectorUnit, *, packs: bool = True) -> float:
    """About how many cycles a contraction takes with its operands laid out as they are.

    Args:
        spec: the contraction.
        unit: what multiplies.
        packs: whether B, where C is computed, is moved to panels.
    """
    steps = sum(phase.pixels * phase.taps for phase in spec.phases)
    lanes = unit.lanes(spec.element)
    multiplied = _multiplied(spec.in_channels, spec.out_channels, lanes)
    products = -(-multiplied // (unit.multiply_adds * lanes))
    cycles = spec.groups * steps * (products + ADDRESS_CYCLES)
    axes = spec.phases[0].axes
    a = (
        prod(axis.extent for axis in axes)
        * spec.in_channels
        * (1 if spec.shares_rows else spec.groups)
    )
    b = spec.taps * spec.in_channels * spec.out_channels * spec.groups
    c = sum(phase.pixels for phase in spec.phases) * spec.out_channels * spec.groups
    copied = a if spec.a.stride != 1 else 0
    if spec.result == "C":
        packed = (b if packs else 0) + (c if spec.c.stride != 1 else 0)
    else:
        copied += c if spec.c.stride != 1 else 0
        packed = b if spec.b.out_channel_stride != 1 and spec.b.in_channel_stride != 1 else 0
    return cycles + COPY_CYCLES * copied + PACK_CYCLES * packed
