"""`layout_conversion`: copies of operands between planes and channels that are contiguous, and a
kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.kernels.cuda.layout_conversion.copies import Copy
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    vector: float = 8.0
    """Instructions of a thread for a vector on either side, and for each axis."""
    block: float = 4000.0
    """Cycles of a block that waits for its loads, and stores."""
    resident: float = 12.0
    """Blocks of a multiprocessor at a time."""
    dram: float = 1.1
    """A factor of the time of DRAM."""
    kept: float = 0.6749
    """The part of the L2 cache that keeps a copy for who reads it next."""
    saved: float = 0.3014
    """The part of the time of its reading that this saves."""
    start: float = 0.3071
    """µs of a launch beside the time between two launches."""


FITTED = Constants()
BOUNDS = {"kept": (0.3, 0.8), "saved": (0.3, 1.0)}
"""What the fit keeps constants within."""


@dataclass(frozen=True)
class CopyWork:
    """Counts of one copy."""

    bytes: float
    blocks: int
    vectors: float
    """Vectors of both sides, words of registers besides."""
    is_back: bool


def copy_work(copy: Copy) -> CopyWork:
    """Count."""
    nbytes = STORAGE_BYTES[copy.type]
    elements = copy.nbytes / nbytes
    words = elements * nbytes / 4
    vectors = elements / copy.plane_width + elements / copy.channel_width + words
    return CopyWork(copy.nbytes, copy.blocks, vectors, copy.back)


def copy_time(work: CopyWork, target: Target, k: Constants = FITTED) -> float:
    """µs, without launch."""
    sms = target.multiprocessors
    issue = k.vector * work.vectors / target.issue_rate / sms / target.clock_mhz
    waves = ceil(work.blocks / sms / k.resident)
    waiting = waves * k.block / target.clock_mhz
    in_l2 = 0.5 if work.bytes < target.l2_bytes / 2 else 1.0
    dram = k.dram * work.bytes * (1 / target.dram_read + in_l2 / target.dram_write)
    return k.start + max(issue, waiting, dram)


def time_of(
    inner: float, copies: Sequence[CopyWork], target: Target, k: Constants = FITTED
) -> float:
    """µs of a kernel that takes `inner`, and of the copies before and behind it."""
    time = inner
    for copy in copies:
        time += target.next_launch + copy_time(copy, target, k)
        if copy.bytes < k.kept * target.l2_bytes:
            time -= k.saved * copy.bytes / target.dram_read
    return time
