"""What an evaluation may take: steps, and the memory that there is."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from functools import cache
from pathlib import Path

DEFAULT_MAX_STEPS = 1_000_000
"""How many blocks are run, of loops, branches and calls: tens of seconds of them."""

_CGROUP = Path("/sys/fs/cgroup/memory.max")


@cache
def memory_bytes() -> int:
    """The bytes that this process may have: of the machine, its container and its limits."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    with suppress(OSError, ValueError):  # No such file, or the word `max`.
        limits.append(int(_CGROUP.read_text(encoding="ascii")))
    return min(limits)
