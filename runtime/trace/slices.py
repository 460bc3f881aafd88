"""A trace of one call: what ran when, on which thread or stream."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CALLER = "caller"
"""The track of the thread that calls."""
CALL, STEP, COPY, ALLOCATION = "call", "step", "copy", "allocation"
"""Categories of slices."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Slice:
    """Something that ran."""

    name: str
    """Of a step what it does of its call; empty where it does all of it."""
    category: str
    track: str
    """The thread, or the stream of a GPU."""
    begin: int
    """ns of `time.perf_counter_ns`."""
    end: int
    calls: tuple[int, ...] = ()
    """Of a step, the calls of the program that it is of."""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is known of it besides, as JSON holds it."""


def timed(
    slices: list[Slice],
    name: str,
    category: str,
    work: Callable[[], _T],
    args: Mapping[str, Any] | None = None,
) -> _T:
    """What `work` returns; a slice of it on the caller's thread is added to `slices`."""
    begin = time.perf_counter_ns()
    result = work()
    slices.append(Slice(name, category, CALLER, begin, time.perf_counter_ns(), args=args or {}))
    return result
