"""The choices that make one instance of the kernel family of fused phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Key, OneOf, Range

ROWS = 64
"""Output pixels of a tile, one warpgroup's."""
CONSUMERS = 2
"""Producer threads with a warpgroup each."""
THREADS = (1 + CONSUMERS) * 128
STORE_CHANNELS = (64, 32)


@dataclass(frozen=True)
class FusedDgradConfig(Config, family="sm90_fused_dgrad"):
    """Prints as `sm90_fused_dgrad stages=6 store=64 blocks=132`."""

    stages: Annotated[int, Range(2)]
    """Tiles of A in flight, for each pair."""
    store_channels: Annotated[int, Key("store"), OneOf(*STORE_CHANNELS)]
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""

    @property
    def warp_roles(self) -> dict[str, int]:
        """The warps of a block by what they do; the other warps of the first group are idle."""
        return {"producer": CONSUMERS, "consumer": 4 * CONSUMERS}
