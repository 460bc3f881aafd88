"""The configs of `sm90_grouped_direct`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass

from convir.lowering.kernels.cuda.config import Config


@dataclass(frozen=True)
class Sm90GroupedDirectConfig(Config, family="sm90_grouped_direct", sizes=1):
    """How blocks of `kernel.cuh` share the work.

    Prints as `sm90_grouped_direct 13 stages=4 group_blocks=4 blocks=132x1`.
    """

    row_pairs: int
    """Pairs of output rows of a strip."""
    stages: int
    """Strips that are under way or in use."""
    group_blocks: int
    """Blocks that share the strips of a group."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    @property
    def warp_roles(self) -> dict[str, int]:
        """The warps of a block by what they do."""
        return {"producer": 1, "store": 2, "consumer": 8}
