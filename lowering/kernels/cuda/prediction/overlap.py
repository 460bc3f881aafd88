"""How times of resources that work side by side add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.prediction.traffic import Traffic
    from convir.lowering.kernels.target import Target


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


class LaunchConstants(Protocol):
    """What the predictions of a family are fitted with, beside its own work."""

    @property
    def start(self) -> float:
        """µs until a kernel works, beside an empty one."""
        ...

    @property
    def dram(self) -> float:
        """How much longer DRAM takes than at the target's rate."""
        ...

    @property
    def dram_power(self) -> float:
        """How the work and DRAM add up; see `overlap`."""
        ...


def launched(busy: float, traffic: Traffic, target: Target, k: LaunchConstants) -> float:
    """µs of a launch whose multiprocessors are busy for `busy` µs, beside its memory traffic."""
    time = overlap(k.dram_power, busy, k.dram * traffic.time(target))
    return target.launch + k.start + time
