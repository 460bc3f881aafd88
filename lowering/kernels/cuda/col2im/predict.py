"""`col2im`: a product with a column for each tap, and the launch that adds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.layout_conversion.predict import CopyWork, copies_time, copy_work

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.col2im.columns import Columns
    from convir.lowering.kernels.target import Target


@dataclass(frozen=True)
class Constants:
    """Fitted."""

    start: float = 1.0
    """µs of the second launch, beside the time between two launches."""
    tap: float = 12.0
    """Instructions of a thread for each tap."""
    column: float = 4.0
    """The same for each column that it reads."""
    read: float = 2.0
    """A factor of the time that the L2 cache takes to read them."""


FITTED = Constants()


@dataclass(frozen=True)
class AddWork:
    """Counts of the second launch."""

    taps: float
    """Of all output pixels."""
    reads: float
    """Columns that all threads read."""
    read_bytes: float
    lost_bytes: float
    """Of columns that are not in the L2 cache any more."""
    stored_bytes: float
    copies: tuple[CopyWork, ...]


def add_work(columns: Columns, target: Target) -> AddWork:
    """Count."""
    spec = columns.contraction
    taps = float(sum(phase.pixels * phase.taps for phase in spec.phases))
    pixels = sum(phase.pixels for phase in spec.phases)
    nbytes = STORAGE_BYTES[spec.element]
    return AddWork(
        taps=taps,
        reads=taps * spec.out_channels,
        read_bytes=taps * spec.out_channels * nbytes,
        lost_bytes=max(0.0, columns.nbytes - target.l2_bytes / 2),
        stored_bytes=float(pixels * spec.out_channels * STORAGE_BYTES[spec.c.type]),
        copies=tuple(map(copy_work, columns.copies)),
    )


def time_of(inner: float, work: AddWork, target: Target, k: Constants = FITTED) -> float:
    """µs of a product that takes `inner`, and of adding its columns."""
    sms = target.multiprocessors * target.clock_mhz
    issue = (k.tap * work.taps + k.column * work.reads) / target.issue_rate / sms
    cache = k.read * work.read_bytes / target.l2_rate / sms
    memory = work.lost_bytes / target.dram_read + work.stored_bytes / target.dram_write
    copies = copies_time(work.copies, target)
    return inner + copies + target.next_launch + k.start + max(issue, cache, memory)
