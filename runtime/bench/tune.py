"""Every config of a kernel on a device: checked first, then timed, the fastest ones in turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convir.lowering.selection.records.record import Measurement
from convir.runtime.bench.candidate import Failed
from convir.runtime.bench.session import check, why
from convir.runtime.bench.timing import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.runtime.bench.candidate import Candidate
    from convir.runtime.bench.device import BenchDevice
    from convir.runtime.bench.session import Effort
    from convir.runtime.bench.timing import Timing

FIRST_ROUNDS = 7
"""Calls that show which configs are worth more of them."""

MARGIN = 1.25
"""Configs that took so many times what the fastest took are not timed again."""

MOST_FINALISTS = 8


@dataclass(frozen=True)
class ConfigToMeasure:
    """One config of a kernel, and how to get a program with it."""

    config: str
    code: str
    """The digest that its record has."""
    load: Callable[[], Candidate]


@dataclass(frozen=True)
class Expected:
    """What every config has to compute."""

    result: Any
    """In f64, as an array of the device."""
    relative: float
    """The tolerance."""


def measure_configs(
    configs: Sequence[ConfigToMeasure], device: BenchDevice, expected: Expected, effort: Effort
) -> tuple[Measurement, ...]:
    """The times of every config, or why it has none, in the given order.

    Each is checked on memory full of NaN before it is timed. All are timed a few times, one after
    the other, so that memory holds few of them; then the fastest ones, in turns.
    """
    times: dict[str, Timing] = {}
    failures: dict[str, str] = {}
    kept: dict[str, Candidate] = {}
    for each in configs:
        candidate = _checked(each, device, expected)
        if isinstance(candidate, Failed):
            failures[each.config] = candidate.reason
            continue
        calls = {each.config: candidate.call}
        times |= measure(calls, device.clock, rounds=FIRST_ROUNDS)
        kept[each.config] = candidate
        limit = MARGIN * min(timing.median for timing in times.values())
        kept = {config: kept[config] for config in kept if times[config].median <= limit}
    ranked = sorted(kept, key=lambda config: times[config].median)[:MOST_FINALISTS]
    if ranked:
        calls = {config: kept[config].call for config in ranked}
        times |= measure(calls, device.clock, effort.budget_s, effort.rounds)
    return tuple(_measurement(each, times, failures) for each in configs)


def _checked(each: ConfigToMeasure, device: BenchDevice, expected: Expected) -> Candidate | Failed:
    try:
        candidate = each.load()
    except Exception as error:
        return Failed(each.config, "", why(error))
    checked = check(candidate, device, expected.result, expected.relative)
    if isinstance(checked, Failed):
        return checked
    if checked.failure is not None:
        return Failed(each.config, "", checked.failure)
    return candidate


def _measurement(
    each: ConfigToMeasure, times: dict[str, Timing], failures: dict[str, str]
) -> Measurement:
    timing = times.get(each.config)
    if timing is None:
        return Measurement(each.config, each.code, None, failures[each.config])
    return Measurement(each.config, each.code, (timing.median, timing.p20, timing.p80))
