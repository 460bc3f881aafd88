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

    vector: float = 4.0
    """Instructions of a thread for a vector on either side, and for a word of its registers."""
    block: float = 4000.0
    """Cycles of a block that waits for its loads, and stores."""
    resident: float = 12.0
    """Blocks of a multiprocessor at a time."""
    dram: float = 1.0
    """A factor of the time of DRAM."""
    kept: float = 0.6749
    """The part of the L2 cache that keeps a copy for who reads it next."""
    saved: float = 0.15
    """The part of the time of its reading that this saves."""
    start: float = 0.3
    """µs of a launch beside the time between two launches."""
    first: float = 3.0
    """µs that a kernel takes longer behind a copy, or before one: no launch hides another's. Less
    where copies are `LITTLE`, such as those of a filter alone."""


LITTLE = 0.125
"""The part of the L2 cache that copies fill where they delay a kernel in full."""
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


def copies_time(copies: Sequence[CopyWork], target: Target, k: Constants = FITTED) -> float:
    """µs that copies add to a kernel: one launch before it, and one behind it."""
    time = k.first * min(1.0, sum(copy.bytes for copy in copies) / (LITTLE * target.l2_bytes))
    for back in (False, True):
        together = [copy for copy in copies if copy.is_back == back]
        if together:
            bound = max(_waiting(together, target, k), sum(_busy(c, target, k) for c in together))
            time += target.next_launch + k.start + bound
    kept = (copy.bytes for copy in copies if copy.bytes < k.kept * target.l2_bytes)
    return time - k.saved * sum(kept) / target.dram_read


def _busy(work: CopyWork, target: Target, k: Constants) -> float:
    """µs of a copy's instructions, or of its bytes."""
    issue = k.vector * work.vectors / target.issue_rate / target.multiprocessors / target.clock_mhz
    in_l2 = 0.5 if work.bytes < target.l2_bytes / 2 else 1.0
    return max(issue, k.dram * work.bytes * (1 / target.dram_read + in_l2 / target.dram_write))


def _waiting(works: Sequence[CopyWork], target: Target, k: Constants) -> float:
    """µs of the blocks that wait for their loads, one after the other."""
    waves = ceil(sum(work.blocks for work in works) / target.multiprocessors / k.resident)
    return waves * k.block / target.clock_mhz


def time_of(
    inner: float, copies: Sequence[CopyWork], target: Target, k: Constants = FITTED
) -> float:
    """µs of a kernel that takes `inner`, and of the copies before and behind it."""
    return inner + copies_time(copies, target, k)
