"""`reduction`: passes over rows or columns at the rate of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.implementations import REDUCTION as NAME
from convir.lowering.kernels.cuda.reduction import problem as rows
from convir.lowering.kernels.cuda.reduction.candidates import candidates
from convir.lowering.kernels.cuda.reduction.config import ReductionConfig
from convir.lowering.kernels.cuda.reduction.launch import launch, refusal
from convir.lowering.kernels.cuda.reduction.predict import predict
from convir.lowering.kernels.cuda.reduction.problem import Rows, read

if TYPE_CHECKING:
    from convir.dialects.kernel import ops as kernel
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.protocol import KernelConfig
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Reduction:
    """The family."""

    name: str = NAME

    def problem(self, callee: kernel.FuncOp, target: Target) -> Rows | Refusal:
        """The passes over rows that a kernel is, or why it is none."""
        del target
        return read(callee)

    def candidates(self, problem: Rows, target: Target) -> tuple[ReductionConfig, ...] | Refusal:
        """The configs worth considering, or why there are none."""
        if not rows.PLANS_ROWS:
            return Refusal(rows.NOT_PLANNED)
        return candidates(problem, target) or Refusal("no block computes its rows")

    def parse(self, text: str, /) -> ReductionConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        return ReductionConfig.parse(text)

    def refusal(self, problem: Rows, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run; None if it may."""
        own = _own(config)
        return own.refusal() or refusal(problem, own, target)

    def predict(self, problem: Rows, config: KernelConfig, target: Target) -> float:
        """The time of a legal config in µs."""
        return predict(problem, _own(config), target)

    def launch(self, problem: Rows, config: KernelConfig, target: Target) -> KernelPlan | Refusal:
        """What a config launches, or why it is not legal for the problem."""
        own = _own(config)
        return own.refusal() or launch(problem, own, target)


def _own(config: KernelConfig) -> ReductionConfig:
    if not isinstance(config, ReductionConfig):
        raise TypeError(f"'{config}' is not a config of {NAME}")
    return config


REDUCTION = Reduction()
