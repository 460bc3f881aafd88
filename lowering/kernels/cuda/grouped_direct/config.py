"""The configs of `grouped`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range
from convir.lowering.kernels.cuda.direct.config import TILE, Math
from convir.lowering.kernels.cuda.direct.ring import Copies


@dataclass(frozen=True)
class GroupedConfig(Config, family="grouped", sizes=2):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `grouped 64x25 slice=32 rows=2 outputs=2 tiles=1 stages=2 warps=8 loaders=0
    copies=async math=mma blocks=132x1`.
    """

    channels: int
    """Output channels of a block."""
    cols: int
    """Output columns of a row of the list."""
    slice: Annotated[int, OneOf(16, 32)]
    """Output channels of a warp."""
    rows: int
    """Output rows of a position: rows of A are read from shared memory once for all of them."""
    outputs: int
    """Outputs of a position that are summed at once."""
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
    math: Math
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.warps * self.slice // self.channels * self.tiles * TILE
