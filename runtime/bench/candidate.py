"""What a benchmark measures: one backend, ready to compute one problem, or why it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Weights: TypeAlias = Literal["argument", "constant"]
"""Whether a backend is given the filter with each call, or once before: then it may rearrange it
in advance, which is not measured. Backward weight reads no filter: all of it are arguments."""


@dataclass(frozen=True)
class Candidate:
    """One backend, ready to compute one problem over and over."""

    backend: str
    layout: str
    config: str
    call: Callable[[], object]
    """Computes the problem once; on a GPU it only enqueues."""
    result: Callable[[], Any]
    """What the last call computed, in our layout, as an array of the device."""
    poison: Callable[[], object]
    """Puts NaN where the next call will write, as far as that is known."""
    weights: Weights = "argument"


@dataclass(frozen=True)
class Failed:
    """A backend that cannot compute a problem, and why."""

    backend: str
    layout: str
    reason: str
    weights: Weights = "argument"
