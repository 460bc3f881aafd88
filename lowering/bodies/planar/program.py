"""What a planar kernel computes, as plain data: stages on rows of frames.

An array is planar: each channel is a row, whose frames are neighbours in memory. For every channel
o and frame t, a stage adds up terms

    sum[o, t] = Σ_terms Σ_d Σ_k W[o, d, k] · X[group(o) · depth + d, t + k · reach]

runs a scalar program on the sum and on elements of other rows at (o, t), and writes what it gives
to rows. Later stages read these at the same frame, so that a tile of frames passes through all
stages at once. Where rows begin, how far apart they are and how far taps reach are numbers of a
launch (`Binding`): layers that differ in these alone are launches of one program.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.scalar_program import ScalarOp
    from convir.lowering.bodies.contraction.scalar_program import Term as Scalar


CHUNK_FRAMES = 1024
"""Frames of an item of work: whole tiles on every CPU, a microsecond of the smallest kernels."""


@dataclass(frozen=True)
class Parameter:
    """Memory that every launch names: rows, weights, or a number for each channel."""

    number: int


@dataclass(frozen=True)
class Temporary:
    """Rows that no one sees outside of the kernel."""

    number: int


@dataclass(frozen=True)
class Rows:
    """Neighbouring rows."""

    array: Parameter | Temporary
    first: int = 0
    """The channel of the array that is the first one."""


@dataclass(frozen=True)
class Column:
    """A number for each channel, dense in memory."""

    array: Parameter


Read: TypeAlias = Rows | Column


@dataclass(frozen=True)
class Term:
    """A convolution that is added to a sum."""

    rows: Rows
    weights: Parameter | float
    """f32[channels, depth, taps], dense; or what all of them are."""
    depth: int
    """Channels of a group that are read."""
    taps: int
    groups: int
    reach: int | None = None
    """Frames between two taps, where the code depends on it; else a number of the launch."""


@dataclass(frozen=True)
class Write:
    """A value of a stage, and the rows that take it."""

    rows: Rows
    value: Scalar


@dataclass(frozen=True)
class Stage:
    """The same for all channels and frames."""

    channels: int
    terms: tuple[Term, ...]
    reads: tuple[Read, ...]
    """What the operands of the scalar program are."""
    steps: tuple[ScalarOp, ...]
    writes: tuple[Write, ...]

    @property
    def block(self) -> int:
        """Neighbouring channels that are of one group in every term."""
        return gcd(self.channels, *(self.channels // term.groups for term in self.terms))

    @property
    def multiply_adds(self) -> int:
        """For one frame."""
        return self.channels * sum(term.depth * term.taps for term in self.terms)


@dataclass(frozen=True)
class PlanarProgram:
    """Stages in order."""

    parameters: int
    temporaries: tuple[int, ...]
    """The channels of each."""
    stages: tuple[Stage, ...]

    @property
    def multiply_adds(self) -> int:
        """For one frame."""
        return sum(stage.multiply_adds for stage in self.stages)


@dataclass(frozen=True)
class Bound:
    """What a parameter is in a launch; all distances in elements."""

    argument: int
    """Inputs of the kernel, then outputs."""
    offset: int
    """Elements of the argument before the first one."""
    row_stride: int = 0
    """Between rows."""
    reach: int = 0
    """Between taps."""
    image_stride: int = 0
    """Between the images of a batch."""


@dataclass(frozen=True)
class Binding:
    """One launch of a program."""

    parameters: tuple[Bound, ...]
    frames: int
    images: int
    """Of the batch."""

    @property
    def chunks(self) -> int:
        """Items of work that an image is."""
        return -(-self.frames // CHUNK_FRAMES)

    @property
    def items(self) -> int:
        """Independent items of work."""
        return self.images * self.chunks
