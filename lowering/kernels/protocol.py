"""What a family of kernels is, on any device.

A family computes contractions with an epilogue. It says which configs are worth considering, what
each takes in µs, and what it launches; selection compares the times of all families.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from convir.dialects.refusal import Refusal
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.config import KernelConfig
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Problem:
    """What a kernel computes, wherever its operands lie."""

    contraction: Contraction
    """Its result has the type that is stored; `accumulate` is part of the epilogue."""
    epilogue: Epilogue


class KernelFamily(Protocol):
    """A family of kernels; its configs are of one frozen dataclass."""

    @property
    def name(self) -> str:
        """The first word of its configs."""
        ...

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """What the family takes of a contraction, or why it does not take it on any config."""
        ...

    def candidates(self, problem: Problem, target: Target) -> tuple[KernelConfig, ...] | Refusal:
        """The configs worth considering, or why there are none."""
        ...

    def parse(self, text: str, /) -> KernelConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        ...

    def refusal(self, problem: Problem, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run, by the same rule as the kernel; None if it may."""
        ...

    def predict(self, problem: Problem, config: KernelConfig, target: Target) -> float:
        """The time of a legal config in µs, from the target's rates."""
        ...

    def launch(
        self, problem: Problem, config: KernelConfig, target: Target
    ) -> KernelPlan | Refusal:
        """The launches of a config on the problem's operands, or why it is not legal."""
        ...
