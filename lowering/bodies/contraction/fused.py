"""A contraction and what follows it before its result is stored, as plain data for both devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.scalar_program import ScalarProgram
    from convir.lowering.bodies.contraction.spec import ComputeType, Contraction, StorageType


@dataclass(frozen=True)
class PhaseOffsets:
    """Where an operand's element for an output pixel of a phase lies, in elements."""

    offset: int
    axis_strides: tuple[int, ...]
    """Per axis of the phase."""


@dataclass(frozen=True)
class EpilogueOperand:
    """A further input that the epilogue reads: a bias, or a tensor of the result's shape."""

    argument: int
    """Which input of the kernel."""
    type: StorageType
    follows_result: bool
    """Whether it has the element of every result at that result's own offset."""
    phases: tuple[PhaseOffsets, ...] = ()
    """Per phase of a contraction that computes C; empty for one that computes B."""
    out_channel_stride: int = 0
    group_stride: int = 0


@dataclass(frozen=True)
class FusedEpilogue:
    """From a sum to what is stored."""

    sum: ComputeType
    stored: StorageType
    body: ScalarProgram
    """What is stored for a sum."""
    zero_fill: ScalarProgram
    """What is stored where the contraction has no sum."""
    operands: tuple[EpilogueOperand, ...] = ()
    zero_fills_are_zero_sums: bool = False
    """Whether what is stored in a zero-filled output is what is stored for a sum of zero."""

    @property
    def rounds_only(self) -> bool:
        """Whether what is stored is the sum, rounded once or not at all."""
        return self.body.only_converts and len(self.body.steps) <= 1


@dataclass(frozen=True)
class FusedContraction:
    """A kernel as a contraction with an epilogue: which argument is which operand."""

    contraction: Contraction
    """Its result has the type that is stored; `accumulate` is part of the epilogue."""
    epilogue: FusedEpilogue
    a: int
    other: int
    """The input that is B where C is computed, and C where B is."""
