"""The configs of `grouped-pairs`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass

from convir.lowering.kernels.cuda.config import Config


@dataclass(frozen=True)
class GroupedPairsConfig(Config, family="grouped-pairs", sizes=1):
    """How blocks of `kernel.cuh` share the work.

    Prints as `grouped-pairs 13 slots=4 parts=4 blocks=132x1`.
    """

    pairs: int
    """Pairs of output rows of a strip."""
    slots: int
    """Strips that are under way or in use."""
    parts: int
    """Blocks that share the strips of a group."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
