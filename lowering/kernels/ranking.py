"""The configs of all families for a kernel by what they are predicted to take, on any device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.kernels.protocol import KernelConfig


@dataclass(frozen=True)
class Prediction:
    """What a config is predicted to take."""

    family: str
    """The name of its family."""
    config: KernelConfig
    us: float


@dataclass(frozen=True)
class Choice:
    """The config that implements a kernel."""

    config: KernelConfig
    us: float
    """What it is predicted to take."""
    runner_up: Prediction | None
    """The best of another family."""
    refused: tuple[str, ...]
    """Why families do not compute it: `not NAME: REASON`."""


@dataclass(frozen=True)
class Ranking:
    """The configs of all families for a problem."""

    predictions: tuple[Prediction, ...]
    """The fastest first; of equal ones, that of the family that is listed first."""
    refused: tuple[str, ...]
    """Why families do not compute it: `not NAME: REASON`."""

    @staticmethod
    def of(found: list[Prediction], refused: list[str]) -> Ranking:
        """The predictions of all families in their order, by time."""
        return Ranking(tuple(sorted(found, key=lambda each: each.us)), tuple(refused))

    def choice(self, refusal: Callable[[Prediction], Refusal | None]) -> Choice | Refusal:
        """The legal config with the least predicted time, or why there is none.

        Args:
            refusal: why a config is not legal; None if it is.
        """
        refused = list(self.refused)
        for best in self.predictions:
            reason = refusal(best)
            if reason is None:
                others = (each for each in self.predictions if each.family != best.family)
                return Choice(best.config, best.us, next(others, None), tuple(refused))
            refused.append(f"not '{best.config}': {reason.reason}")
        return Refusal("; ".join(refused) or "there is no family")
