"""The configs of `grouped_direct`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range
from convir.lowering.kernels.cuda.direct.config import TILE, Instruction
from convir.lowering.kernels.cuda.direct.ring import Copies


@dataclass(frozen=True)
class GroupedDirectConfig(Config, family="grouped_direct", sizes=2):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `grouped_direct 64x25 warp_channels=32 rows=2 outputs=2 tiles=1 stages=2 warps=8
    producer_warps=0 copies=async instruction=mma blocks=132x1`.
    """

    channels: int
    """Output channels of a block."""
    cols: int
    """Output columns of a row of the list."""
    warp_channels: Annotated[int, OneOf(16, 32)]
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
    producer_warps: Annotated[int, Range(0)]
    """Producer warps; 0 if all warps copy between two steps. Four of them leave the
    others most of their registers, if TMA copies."""
    copies: Copies
    """Who copies rows."""
    instruction: Instruction
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    @property
    def step_pixels(self) -> int:
        """Output pixels of a block's step."""
        return self.warps * self.warp_channels // self.channels * self.tiles * TILE
