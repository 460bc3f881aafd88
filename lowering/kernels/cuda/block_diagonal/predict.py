"""`block_diagonal`: the launch that writes weights with zeros between groups, and a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    start: float = 11.88
    """µs of the launch that writes the weights, beside the time between two launches."""
    rate: float = 4.724e05
    """Bytes of weights per µs."""


FITTED = Constants()


def time_of(inner: float, nbytes: float, target: Target, k: Constants = FITTED) -> float:
    """µs of a kernel that takes `inner`, and of writing `nbytes` of weights before it."""
    return inner + target.next_launch + k.start + nbytes / k.rate
