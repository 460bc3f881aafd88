"""Times of several things that take turns, so that a drifting machine is fair to all."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WARM_UP_ROUNDS = 2
MIN_ROUNDS = 5
MAX_ROUNDS = 200
SHORT_US = 200.0
"""Calls shorter than this are timed several at a time, so that the clock's own cost is lost."""


@dataclass(frozen=True)
class Timing:
    """The spread of one backend's times, in µs per call."""

    median: float
    p20: float
    p80: float
    least: float = field(default=float("nan"), compare=False)
    """What the machine's other work disturbs least."""

    @staticmethod
    def of(samples: Sequence[float]) -> Timing:
        """The timing of samples in µs."""
        p20, median, p80 = np.percentile(np.asarray(samples), (20, 50, 80))
        return Timing(float(median), float(p20), float(p80), float(np.min(samples)))

    def __str__(self) -> str:
        return f"{self.median:.1f} [{self.p20:.1f}–{self.p80:.1f}]"


def host_us(call: Callable[[], object], repeats: int) -> float:
    """µs per call of `repeats` calls in a row, by the host's clock."""
    start = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    return (time.perf_counter_ns() - start) / (1000 * repeats)


SETTLE_STEP_S = 0.01
"""Seconds between looks at whether threads of this process still run; a scheduler's tick or two,
in which the kernel brings its counts up to date."""
SETTLED_SHARE = 0.1
"""The share of a core that counts as rest."""
SETTLE_LIMIT_S = 0.5
"""Seconds after which a backend has its turn whatever still runs."""
WAKE_S = 0.01
"""Seconds of calls before those that count. Linux wakes threads where they ran last, two of them on
one core if need be, and spreads them some ticks later."""


def settle() -> None:
    """Rest until no thread of this process runs.

    Idle threads look for work on cores that the next backend needs: PyTorch's OpenMP threads for
    8 ms, onnxruntime's for 40 ms, as measured on two cores.
    """
    for _ in range(round(SETTLE_LIMIT_S / SETTLE_STEP_S)):
        before = time.process_time()
        time.sleep(SETTLE_STEP_S)
        if time.process_time() - before < SETTLED_SHARE * SETTLE_STEP_S:
            return


def settled_us(call: Callable[[], object], repeats: int) -> float:
    """µs per call of `repeats` calls in a row, once the last backend's threads came to rest, and
    its own are awake and on the cores that the system chose for them."""
    settle()
    start = time.perf_counter()
    while time.perf_counter() - start < WAKE_S:
        call()
    return host_us(call, repeats)


def measure(
    calls: Mapping[str, Callable[[], object]],
    clock: Callable[[Callable[[], object], int], float] = host_us,
    budget_s: float = 1.0,
    rounds: int | None = None,
) -> dict[str, Timing]:
    """Time every call, in turns, for about `budget_s` seconds each.

    Args:
        calls: what to time, by name.
        clock: µs per call of so many calls in a row.
        budget_s: seconds for each of them, warm-up not counted.
        rounds: how often each gets its turn, whatever that takes; None to follow the budget.
    """
    once: dict[str, float] = {}
    beside_us = 0.0
    for _ in range(WARM_UP_ROUNDS):
        start = time.perf_counter_ns()
        once = {name: clock(call, 1) for name, call in calls.items()}
        # What the clock does beside the calls that it counts takes time too.
        beside_us = (time.perf_counter_ns() - start) / 1000 - sum(once.values())
    repeats = {name: max(1, int(SHORT_US / max(us, 1e-3))) for name, us in once.items()}
    round_us = beside_us + sum(once[name] * repeats[name] for name in calls)
    if rounds is None:
        affordable = int(budget_s * 1e6 * len(calls) / max(round_us, 1.0))
        rounds = min(max(affordable, MIN_ROUNDS), MAX_ROUNDS)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(clock(call, repeats[name]))
    return {name: Timing.of(values) for name, values in samples.items()}
