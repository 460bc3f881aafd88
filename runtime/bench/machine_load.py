"""What else the machine did during a run: cores that others used, by the kernel's counts."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convir.runtime.cores import available_cores

BUSY_CORES = 0.2
"""Cores that others use on average, past which times say more of them than of what is measured."""

_STAT = Path("/proc/stat")
_BUSY_FIELDS = (0, 1, 2, 5, 6)
"""Of a line of `/proc/stat`: user, nice, system, interrupts, soft interrupts."""


@dataclass(frozen=True)
class _Seconds:
    """Counts at one time, in seconds."""

    wall: float
    machine: float
    """Of all cores, not idle."""
    own: float
    """Of this process and its children that ended."""


class LoadMeter:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._begin = _seconds()
        self._average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None

    def record(self) -> dict[str, Any] | None:
        """What the environment of a run says of the load; None where the system does not tell."""
        begin, now = self._begin, _seconds()
        if begin is None or now is None or now.wall <= begin.wall:
            return None
        others = (now.machine - begin.machine) - (now.own - begin.own)
        cores = max(0.0, others / (now.wall - begin.wall))
        average = None if self._average is None else round(self._average, 2)
        return {
            "cores": available_cores(),
            "cores_of_others": round(cores, 2),
            "load_average_before": average,
        }


def warning_of(load: dict[str, Any] | None) -> str | None:
    """Why times may be wrong, if others used the machine during the run."""
    if load is None or load["cores_of_others"] <= BUSY_CORES:
        return None
    return (
        f"the machine was busy: other processes used {load['cores_of_others']:.1f} cores on "
        f"average during the run, of the {load['cores']} that it has for us"
    )


def _seconds() -> _Seconds | None:
    try:
        fields = _STAT.read_text(encoding="ascii").partition("\n")[0].split()[1:]
        ticks = sum(int(fields[i]) for i in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    used = os.times()
    own = used.user + used.system + used.children_user + used.children_system
    return _Seconds(time.monotonic(), ticks, own)
