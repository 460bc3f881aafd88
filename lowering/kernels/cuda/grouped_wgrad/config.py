"""The configs of `grouped-wgrad`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Range
from convir.lowering.kernels.cuda.direct.ring import Copies


@dataclass(frozen=True)
class GroupedWgradConfig(Config, family="grouped-wgrad", sizes=2):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `grouped-wgrad 64x25 slice=32 rows=2 tiles=1 stages=2 warps=4 loaders=0 copies=async
    blocks=132x2`.
    """

    channels: int
    """Channels of A of a block."""
    cols: int
    """Output columns of a row of the list."""
    slice: int
    """Columns of B of a warp, which has 16 depths of them."""
    rows: int
    """Output rows of a position: rows of A are read from shared memory once for all of them."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    loaders: Annotated[int, Range(0)]
    """Warps that only copy rows; 0 if all warps copy between two steps. Four of them leave the
    others most of their registers, if TMA copies."""
    copies: Copies
    """Who copies rows."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
