"""The configs of `grouped-wgrad-pairs`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass

from convir.lowering.kernels.cuda.config import Config


@dataclass(frozen=True)
class GroupedWgradPairsConfig(Config, family="grouped-wgrad-pairs", sizes=1):
    """How blocks of `kernel.cuh` share the work.

    Prints as `grouped-wgrad-pairs 13 slots=4 blocks=132x1`.
    """

    rows: int
    """Rows of positions of a strip."""
    slots: int
    """Strips that are under way or in use."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
