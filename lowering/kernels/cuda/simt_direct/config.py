"""The configs of `simt_direct`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass

from convir.lowering.kernels.cuda.config import Config


@dataclass(frozen=True)
class SimtDirectConfig(Config, family="simt_direct", sizes=2):
    """How threads of `kernel.cuh` share the work.

    Prints as `simt_direct 1x2 warps=4 blocks=132x2`.
    """

    rows: int
    """Output rows of a thread."""
    cols: int
    """Output columns of a thread."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each whose registers fit."""
