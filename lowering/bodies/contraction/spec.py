"""What a contraction kernel computes, in plain integers.

A *row* is `in_channels` consecutive elements of A; row numbers come from pixels along axes. For
each phase, group g, output pixel x and output channel n

    C[out(x) + g, n] = Σ_taps Σ_d A[row(x, tap) + g, d] * B[weight(tap) + g, d, n]

or, with the same three operands, the gradient of B: for each tap, input channel d and output
channel n

    B[weight(tap) + g, d, n] = Σ_x A[row(x, tap) + g, d] * C[out(x) + g, n]

where along every axis `pixel = x * step + tap_row`, a tap whose pixel lies outside of
[0, extent) reads zeros, and offsets add up over the axes. A forward convolution is one phase; a
strided backward data convolution is one phase for each residue of the output pixel, each with
its own taps; a phase without taps is zero-filled. All offsets and strides count elements of the
operand that they step through. Operands may be stored in narrower types than the arithmetic's:
they are widened when they are read, and results are rounded once, to nearest even.

Sums in i32 are of bytes, unsigned in A and signed in B, modulo 2^32; a tap outside then reads
`fill`, the zero point of a quantised image, in place of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from math import prod
from typing import Literal, TypeAlias

ComputeType: TypeAlias = Literal["f32", "f64", "i32"]
"""Types that a kernel multiplies and adds in."""

Result: TypeAlias = Literal["B", "C"]
"""The operand that a contraction computes."""

StorageType: TypeAlias = Literal["f16", "bf16", "f32", "f64", "i8", "i32"]
"""Types that operands are stored in."""

READABLE: dict[ComputeType, set[StorageType]] = {
    "f32": {"f16", "bf16", "f32"},
    "f64": {"f64"},
    "i32": {"i8", "i32"},
}
"""The types that operands may be stored in, by the type of the arithmetic."""

WRITABLE: dict[ComputeType, set[StorageType]] = {**READABLE, "i32": {"i8", "i32", "f32"}}
"""The types that results may be stored in, by the type of the arithmetic."""

STORAGE_BYTES: dict[StorageType, int] = {
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "i8": 1,
    "i32": 4,
}
"""Bytes of an element."""


@dataclass(frozen=True)
class Axis:
    """Output positions along one dimension, and the taps that are reduced at each of them."""

    size: int
    """Output pixels, at least 1."""
    extent: int
    """Pixels of A, at least 1."""
    step: int
    """Pixels of A per output pixel."""
    tap_rows: tuple[int, ...]
    """For each tap the pixel of A that it reads at output pixel 0; may be negative."""
    tap_weights: tuple[int, ...]
    """For each tap its offset in B."""
    row_stride: int
    """Elements of A between two pixels."""
    out_stride: int
    """Elements of C between two output positions."""

    @staticmethod
    def batch(size: int, row_stride: int, out_stride: int) -> Axis:
        """An axis that A and C share: one tap, always inside."""
        return Axis(size, size, 1, (0,), (0,), row_stride, out_stride)


@dataclass(frozen=True)
class Phase:
    """Output positions that share their taps."""

    axes: tuple[Axis, ...]
    """Slowest first; the last one is the one with the longest contiguous runs in memory."""
    out_offset: int = 0
    """Elements of C before output position 0."""

    @property
    def pixels(self) -> int:
        """The number of output positions."""
        return prod(axis.size for axis in self.axes)

    @property
    def taps(self) -> int:
        """The number of taps; 0 if the phase is zero-filled."""
        return prod(len(axis.tap_rows) for axis in self.axes)


@dataclass(frozen=True)
class Channels:
    """How A stores its channels, or C its own, at one pixel."""

    type: StorageType
    stride: int = 1
    """Elements between two channels; 1 if channels are innermost."""
    group_stride: int = 0
    """Elements between two groups; 0 between groups that read the same rows."""


@dataclass(frozen=True)
class Weights:
    """How B stores the matrix of one tap."""

    type: StorageType
    in_channel_stride: int
    """Elements between two input channels."""
    out_channel_stride: int
    """Elements between two output channels."""
    group_stride: int = 0
    """Elements between two groups."""


@dataclass(frozen=True)
class Contraction:
    """A contraction of rows with weights; see the module's docstring."""

    element: ComputeType
    """Type of the products and accumulators."""
    phases: tuple[Phase, ...]
    """All of the same rank, at least one."""
    in_channels: int
    """Channels of A of one group, a row's."""
    out_channels: int
    """Channels of C of one group."""
    a: Channels
    b: Weights
    c: Channels
    groups: int = 1
    """Independent products that share the axes."""
    result: Result = "C"
    """The operand that is computed from the other two. B has one phase, and is dense."""
    accumulate: bool = False
    """Add to the result instead of storing; phases without taps then do nothing."""
    fill: int = 0
    """What A reads outside; other than 0 only of bytes."""
    tf32: bool = False
    """Whether f32 operands may be rounded to TF32 before they are multiplied."""

    def __post_init__(self) -> None:
        if not self.phases:
            raise ValueError("a contraction needs a phase")
        if len({len(phase.axes) for phase in self.phases}) != 1 or not self.phases[0].axes:
            raise ValueError("phases of one contraction have the same number of axes, at least 1")
        if self.result == "B" and len(self.phases) != 1:
            raise ValueError("the gradient of the weights has one phase")
        if self.tf32 and {channels.type for channels in self.inputs} != {"f32"}:
            raise ValueError("operands are rounded to TF32 from f32")
        axes = [axis for phase in self.phases for axis in phase.axes]
        if any(len(axis.tap_rows) != len(axis.tap_weights) for axis in axes):
            raise ValueError("every tap has a row and a weight")
        results = (self.c, self.b) if self.result == "C" else (self.b, self.c)
        written, other = results
        if {self.a.type, other.type} - READABLE[self.element] or (
            written.type not in WRITABLE[self.element]
        ):
            raise ValueError(f"{self.element} arithmetic reads {sorted(READABLE[self.element])}")
        if self.fill and self.element != "i32":
            raise ValueError("only bytes are padded with another number than zero")
        sizes = [size for axis in axes for size in (axis.size, axis.extent)]
        if min(self.in_channels, self.out_channels, self.groups, *sizes) < 1:
            raise ValueError("sizes of a contraction are at least 1")

    def __hash__(self) -> int:
        """Of all fields, computed once: it is the key of what is remembered of a problem."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    @property
    def inputs(self) -> tuple[Channels, Weights | Channels]:
        """The operands that are read."""
        return self.a, (self.b if self.result == "C" else self.c)

    @property
    def shares_rows(self) -> bool:
        """Whether all groups read the same rows of A."""
        return self.groups > 1 and self.a.group_stride == 0

    @property
    def taps(self) -> int:
        """Taps of all phases together."""
        return sum(phase.taps for phase in self.phases)

    @property
    def flops(self) -> int:
        """Multiplications and additions, those with padding included."""
        products = sum(phase.pixels * phase.taps for phase in self.phases)
        return 2 * products * self.groups * self.in_channels * self.out_channels
