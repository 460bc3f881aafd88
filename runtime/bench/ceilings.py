"""What the machine can do at best: a large matrix product, and a copy that leaves the caches."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from convir.runtime.bench.row import Ceilings
from convir.runtime.bench.timing import measure
from convir.runtime.host.fma_peak import fma_gflops

HOST_COPY_BYTES = 1 << 27
"""Larger than a last-level cache."""


@cache
def host_ceilings(dtype: str, threads: int) -> Ceilings:
    """Multiply-adds of registers alone, and a copy, on `threads` threads of this machine."""
    source = np.ones(HOST_COPY_BYTES // 8)
    target: Any = np.empty_like(source)
    timing = measure({"copy": lambda: np.copyto(target, source)}, budget_s=0.3)["copy"]
    moved = 2 * source.nbytes
    return Ceilings(fma_gflops(dtype, threads), moved / timing.median / 1e3)
