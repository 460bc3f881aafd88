"""The configs of `grouped_wgrad`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Range
from convir.lowering.kernels.cuda.direct.ring import Copies


@dataclass(frozen=True)
class GroupedWgradConfig(Config, family="grouped_wgrad", sizes=2):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `grouped_wgrad 64x25 warp_channels=32 rows=2 tiles=1 stages=2 warps=4 producer_warps=0
    copies=async blocks=132x2`.
    """

    channels: int
    """Channels of A of a block."""
    cols: int
    """Output columns of a row of the list."""
    warp_channels: int
    """Columns of B of a warp, which has 16 input channels of them."""
    rows: int
    """Output rows of a position: rows of A are read from shared memory once for all of them."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    producer_warps: Annotated[int, Range(0)]
    """Producer warps; 0 if all warps copy between two steps. Four of them leave the
    others most of their registers, if TMA copies."""
    copies: Copies
    """Who copies rows."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
