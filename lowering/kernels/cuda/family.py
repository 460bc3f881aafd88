"""A family of kernels as functions of its modules: what they plan, parse, predict and launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.config import Config
from convir.lowering.kernels.protocol import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.protocol import KernelConfig
    from convir.lowering.kernels.target import Target

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Family(Generic[C]):
    """A `KernelFamily` whose configs are of type `C`."""

    config: type[C]
    reads: Callable[[Contraction, Epilogue], object]
    """What its kernels see of a contraction, or a `Refusal`."""
    plan: Callable[[Contraction, Epilogue, Target], tuple[C, ...] | Refusal]
    """The configs that may compute a contraction on a GPU, or why none may."""
    time: Callable[[Contraction, Epilogue, C, Target], float]
    """What a legal config takes, in µs."""
    kernels: Callable[[Contraction, Epilogue, C, Target], KernelPlan | Refusal]
    """The launches of one config, or why it is not legal for the contraction."""
    has_wgmma: bool = False
    """Whether its kernels multiply by `wgmma`."""

    @property
    def name(self) -> str:
        """The first word of its configs."""
        return self.config.family

    def parse(self, text: str, /) -> C:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        return self.config.parse(text)

    def problem(
        self, contraction: Contraction, epilogue: Epilogue, target: Target
    ) -> Problem | Refusal:
        """What the family takes of a contraction, or why it does not."""
        missing = self._missing(target)
        if missing is not None:
            return missing
        read = self.reads(contraction, epilogue)
        return read if isinstance(read, Refusal) else Problem(contraction, epilogue)

    def candidates(self, problem: Problem, target: Target) -> tuple[C, ...] | Refusal:
        """The configs worth considering, or why there are none."""
        missing = self._missing(target)
        if missing is not None:
            return missing
        return self.plan(problem.contraction, problem.epilogue, target)

    def refusal(self, problem: Problem, config: KernelConfig, target: Target) -> Refusal | None:
        """Why a config may not run on `target`; None if it may."""
        missing = self._missing(target)
        if missing is not None:
            return missing
        plan = self.launch(problem, config, target)
        return plan if isinstance(plan, Refusal) else None

    def predict(self, problem: Problem, config: KernelConfig, target: Target) -> float:
        """The time of a legal config in µs."""
        return self.time(problem.contraction, problem.epilogue, self._own(config), target)

    def launch(
        self, problem: Problem, config: KernelConfig, target: Target
    ) -> KernelPlan | Refusal:
        """The launches of a config, or why it is not legal for the problem."""
        own = self._own(config)
        refused = own.refusal()
        if refused is not None:
            return refused
        return self.kernels(problem.contraction, problem.epilogue, own, target)

    def _missing(self, target: Target) -> Refusal | None:
        """What the kernels need that `target` has not; None if it has all."""
        if self.has_wgmma and not target.is_hopper:
            return Refusal(f"{target.arch} has no wgmma")
        return None

    def _own(self, config: KernelConfig) -> C:
        if not isinstance(config, self.config):
            raise TypeError(f"'{config}' is not a config of {self.name}")
        return config
