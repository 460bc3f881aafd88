"""A family of the host's kernels as functions of its modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.host.launch import HostLaunch
from convir.lowering.kernels.library.gemm_call import GemmCall
from convir.lowering.kernels.protocol import FamilyOf, KernelConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.host.problem import KernelBody
    from convir.lowering.kernels.host.target import CpuTarget

Launched: TypeAlias = HostLaunch | GemmCall
"""What a family launches: machine code, or a call of a library."""

P = TypeVar("P")
C = TypeVar("C", bound=KernelConfig)


@dataclass(frozen=True)
class FamilyProblem:
    """What a family sees of a kernel."""

    family: str
    sees: object


class HostFamily(FamilyOf[FamilyProblem, "CpuTarget", Launched], Protocol):
    """A family of kernels of the host, a library or plain loops among them."""

    def problem(self, body: KernelBody, target: CpuTarget) -> FamilyProblem | Refusal:
        """What the family takes of a kernel, or why it does not take it on any config."""
        ...


@dataclass(frozen=True)
class OnlyConfig:
    """The config of a family that leaves nothing to choose: its name."""

    family: str

    def __str__(self) -> str:
        return self.family

    def parse(self, text: str) -> OnlyConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        if text != self.family:
            raise ValueError("its config is its name")
        return self


@dataclass(frozen=True)
class Family(Generic[P, C]):
    """A `HostFamily` whose problems are of type `P` and whose configs are of type `C`."""

    name: str
    """The first word of its configs."""
    sees: type[P]
    config: type[C]
    reads: Callable[[KernelBody, CpuTarget], P | Refusal]
    """What its kernels see of a kernel's body, or why they do not compute it."""
    plan: Callable[[P, CpuTarget], tuple[C, ...]]
    """The configs worth considering."""
    parse: Callable[[str], C]
    """The config that prints as a text; raises ValueError where none does."""
    time: Callable[[P, C, CpuTarget], float]
    """What a legal config takes on one thread, in µs."""
    launches: Callable[[P, C, CpuTarget], Launched | Refusal]
    """The launches of a config, or why it is not legal for the problem."""
    is_total: bool = False
    """Whether every config is legal for whatever the family reads."""

    def problem(self, body: KernelBody, target: CpuTarget) -> FamilyProblem | Refusal:
        """What the family takes of a kernel, or why it does not."""
        read = self.reads(body, target)
        return read if isinstance(read, Refusal) else FamilyProblem(self.name, read)

    def candidates(self, problem: FamilyProblem, target: CpuTarget) -> tuple[C, ...] | Refusal:
        """The configs worth considering, or why there are none."""
        return self.plan(self._seen(problem), target)

    def refusal(
        self, problem: FamilyProblem, config: KernelConfig, target: CpuTarget
    ) -> Refusal | None:
        """Why a config may not run on `target`; None if it may."""
        if self.is_total:
            return None
        launch = self.launch(problem, config, target)
        return launch if isinstance(launch, Refusal) else None

    def predict(self, problem: FamilyProblem, config: KernelConfig, target: CpuTarget) -> float:
        """The time of a legal config on one thread, in µs."""
        return self.time(self._seen(problem), self._own(config), target)

    def launch(
        self, problem: FamilyProblem, config: KernelConfig, target: CpuTarget
    ) -> Launched | Refusal:
        """The launches of a config, or why it is not legal for the problem."""
        return self.launches(self._seen(problem), self._own(config), target)

    def _seen(self, problem: FamilyProblem) -> P:
        if not isinstance(problem.sees, self.sees):
            raise TypeError(f"this is a problem of {problem.family}, not of {self.name}")
        return problem.sees

    def _own(self, config: KernelConfig) -> C:
        if not isinstance(config, self.config):
            raise TypeError(f"'{config}' is not a config of {self.name}")
        return config
