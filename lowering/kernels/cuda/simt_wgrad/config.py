"""The configs of `simt_wgrad`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range


@dataclass(frozen=True)
class SimtWgradConfig(Config, family="simt_wgrad", sizes=2):
    """How threads of `kernel.cuh` share the work.

    Prints as `simt_wgrad 2x2 channels=32 vector=4 warps=8 resident=2`.
    """

    rows: int
    """Output rows of a unit of a thread."""
    cols: int
    """Output columns of a unit of a thread."""
    channels: int
    """Channels of a block."""
    vector: Annotated[int, OneOf(1, 2, 4, 8)]
    """Channels of a thread."""
    warps: Annotated[int, Range(1, 16)]
    resident: int
    """Blocks of a multiprocessor whose registers and shared memory fit."""
