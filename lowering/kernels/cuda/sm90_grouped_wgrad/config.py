"""The configs of `sm90_grouped_wgrad`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass

from convir.lowering.kernels.cuda.config import Config


@dataclass(frozen=True)
class Sm90GroupedWgradConfig(Config, family="sm90_grouped_wgrad", sizes=1):
    """How blocks of `kernel.cuh` share the work.

    Prints as `sm90_grouped_wgrad 13 stages=4 blocks=132x1`.
    """

    rows: int
    """Rows of output pixels of a strip."""
    stages: int
    """Strips that are under way or in use."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    @property
    def warp_roles(self) -> dict[str, int]:
        """The warps of a block by what they do."""
        return {"producer": 1, "consumer": 8}
