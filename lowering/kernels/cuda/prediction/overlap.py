"""How times of resources that work side by side add up."""

from __future__ import annotations


def overlap(power: float, *times: float) -> float:
    """The time of several resources at work at once: the longest, and a part of the others.

    Args:
        power: 1 if they work one after the other, infinity if the longest hides all others.
        times: of each.
    """
    longest = max(times)
    if longest <= 0:
        return 0.0
    return longest * sum((time / longest) ** power for time in times if time > 0) ** (1 / power)


HEAT, HEATED = 0.18, 250.0
"""How much longer tensor cores take where their power lowers the clock, and the µs until then."""


def heated(time: float) -> float:
    """µs of tensor cores that would take `time` at the clock of a short kernel."""
    return time * (1 + HEAT * time / (time + HEATED))
