"""What a family of kernels is, on any device.

A family says what it takes of a kernel, which configs are worth considering, what each takes in µs,
and what it launches; selection compares the times of all families.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from convir.lowering.kernels.cuda.launch import KernelPlan, Scalar
from convir.lowering.kernels.target import Target

if TYPE_CHECKING:
    from convir.analysis.refusal import Refusal
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.reduction.problem import Rows

Problem_contra = TypeVar("Problem_contra", contravariant=True)
Target_contra = TypeVar("Target_contra", contravariant=True)
Launch_co = TypeVar("Launch_co", covariant=True)

Size: TypeAlias = int | Scalar
"""A size of a problem as a GPU's family sees it. The code depends on an `int`, which is a constant
of the source. A launch hands over a `Scalar`, the batch above all: one cubin, whose key in the
cache is the source, computes every value of it."""


class KernelConfig(Protocol):
    """The choices that make one instance of a kernel."""

    def __str__(self) -> str:
        """The canonical string, which the family's `parse` reads."""
        ...


class FamilyOf(Protocol[Problem_contra, Target_contra, Launch_co]):
    """A family of kernels; its configs are of one frozen dataclass.

    What a device gives its families to read is said by the protocol of that device's families, in
    `problem`: its other arguments stand before the target.
    """

    @property
    def name(self) -> str:
        """The first word of its configs."""
        ...

    def candidates(
        self, problem: Problem_contra, target: Target_contra
    ) -> tuple[KernelConfig, ...] | Refusal:
        """The configs worth considering, or why there are none."""
        ...

    def parse(self, text: str, /) -> KernelConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        ...

    def refusal(
        self, problem: Problem_contra, config: KernelConfig, target: Target_contra
    ) -> Refusal | None:
        """Why a config may not run, by the same rule as the kernel; None if it may."""
        ...

    def predict(
        self, problem: Problem_contra, config: KernelConfig, target: Target_contra
    ) -> float:
        """The time of a legal config in µs, from the target's rates."""
        ...

    def launch(
        self, problem: Problem_contra, config: KernelConfig, target: Target_contra
    ) -> Launch_co | Refusal:
        """What a config launches on the problem's operands, or why it is not legal."""
        ...


@dataclass(frozen=True)
class Problem:
    """What a kernel of a GPU computes, wherever its operands lie."""

    contraction: Contraction
    """Its result has the type that is stored; `accumulate` is part of the epilogue."""
    epilogue: Epilogue


class RowFamily(FamilyOf["Rows", Target, KernelPlan], Protocol):
    """A family of kernels of a GPU that compute passes over rows."""

    def problem(self, callee: kernel.FuncOp, target: Target) -> Rows | Refusal:
        """The passes over rows that a kernel is, or why it is none."""
        ...


class KernelFamily(FamilyOf[Problem, Target, KernelPlan], Protocol):
    """A family of kernels of a GPU."""

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """What the family takes of a contraction, or why it does not take it on any config."""
        ...
