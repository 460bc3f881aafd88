"""A contraction to few output channels as a matrix product with a column for each tap and channel.

Z[x, (tap, n)] = Σ over d of A[x, d] · B[tap, d, n]          x a pixel of A
C[out, n]      = Σ over taps of Z[row(out, tap), (tap, n)]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import (
    STORAGE_BYTES,
    Axis,
    Channels,
    Phase,
    Weights,
)
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copyable
from convir.lowering.kernels.cuda.prediction.traffic import traffic_of
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import INDEX_LIMIT, unsupported

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.layout_conversion.copies import Copy

MOST_OUT_CHANNELS = 8
"""Output channels that fill a tile's columns without taps are no case for this family."""
MOST_COLUMNS = 512
MOST_SPARE = 2
"""Columns for each that is used, as strides skip some taps."""
MOST_WORKSPACE = 64 << 20
"""Bytes of columns, where the operands are smaller."""


@dataclass(frozen=True)
class Columns:
    """Elements of B at equal distances, each of which is one column of the product."""

    first: int
    """The element of B of column 0 and input channel 0."""
    step: int
    """Elements of B between two columns."""
    count: int
    axes: tuple[Axis, ...]
    """Pixels of A, each an output pixel of the product."""
    contraction: Contraction
    """Whose columns they are: on a copy of B where its own taps and output channels do not lie at
    equal distances."""
    copies: tuple[Copy, ...] = ()
    """That of B, if any."""

    @property
    def pixels(self) -> int:
        """Of A."""
        return prod(axis.size for axis in self.axes)

    @property
    def nbytes(self) -> int:
        """Of all columns."""
        return self.count * self.pixels * STORAGE_BYTES[self.contraction.element]


def columns_of(spec: Contraction) -> Columns | Refusal:
    """The columns of a contraction, or why it has none."""
    refused = unsupported(spec) or _unsupported(spec)
    if refused is not None:
        return refused
    found = _columns(spec)
    if isinstance(found, Refusal) and "b" in copyable(spec):
        moved, copies = copied(spec, "b")
        found = _columns(moved, copies)
    return found


def _columns(spec: Contraction, copies: tuple[Copy, ...] = ()) -> Columns | Refusal:
    active = [phase for phase in spec.phases if phase.taps]
    places = sorted({at for phase in active for at in _places(spec, phase)})
    step = gcd(*(at - places[0] for at in places)) or 1
    count = (places[-1] - places[0]) // step + 1
    if count > min(MOST_COLUMNS, MOST_SPARE * len(places)):
        return Refusal(f"its {len(places)} taps and output channels lie among {count} columns")
    axes = _pixels(active[0], places[0])
    columns = Columns(places[0], step, count, axes, spec, copies)
    if columns.pixels >= INDEX_LIMIT >> 1:
        return Refusal("it has more rows than 32 bits count")
    if columns.nbytes > max(MOST_WORKSPACE, _operand_bytes(spec)):
        return Refusal(f"its columns are {columns.nbytes >> 20} MiB")
    return columns


def as_product(columns: Columns) -> Contraction:
    """The product: each column a plane of the pixels of A."""
    spec = columns.contraction
    return replace(
        spec,
        phases=(Phase(columns.axes),),
        out_channels=columns.count,
        b=Weights(spec.b.type, spec.b.in_channel_stride, columns.step),
        c=Channels(spec.element, columns.pixels),
        accumulate=False,
    )


def _unsupported(spec: Contraction) -> Refusal | None:
    if spec.result != "C":
        return Refusal("it computes the gradient of the weights")
    if spec.groups > 1:
        return Refusal("it has groups")
    if max(phase.taps for phase in spec.phases) <= 1:
        return Refusal("it has no window")
    if spec.out_channels > MOST_OUT_CHANNELS:
        return Refusal(f"{spec.out_channels} output channels are more than {MOST_OUT_CHANNELS}")
    active = [phase for phase in spec.phases if phase.taps]
    if len({tuple((a.extent, a.row_stride) for a in phase.axes) for phase in active}) > 1:
        return Refusal("its phases read A in different ways")
    return None


def _places(spec: Contraction, phase: Phase) -> list[int]:
    """The elements of B that a phase multiplies with one input channel."""
    channels = [n * spec.b.out_channel_stride for n in range(spec.out_channels)]
    taps = [axis.tap_weights for axis in phase.axes]
    return [sum(tap) + channel for tap in product(*taps) for channel in channels]


def _pixels(phase: Phase, first: int) -> tuple[Axis, ...]:
    """The axes of A, the innermost one contiguous in the product's planes."""
    found: list[Axis] = []
    stride = 1
    for i, axis in reversed(list(enumerate(phase.axes))):
        weight = first if i == 0 else 0
        size = axis.extent
        found.insert(0, Axis(size, size, 1, (0,), (weight,), axis.row_stride, stride))
        stride *= size
    return tuple(found)


def _operand_bytes(spec: Contraction) -> float:
    traffic = traffic_of(spec)
    return traffic.a + traffic.b + traffic.c
