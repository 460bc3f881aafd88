"""The configs of `few_output_channels`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Range
from convir.lowering.kernels.cuda.direct.config import TILE


@dataclass(frozen=True)
class FewOutputChannelsConfig(Config, family="few_output_channels", sizes=1):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `few_output_channels 73 k_warps=1 tiles=2 stages=2 warps=8 producer_warps=0
    blocks=132x2`.
    """

    cols: int
    """Output columns of a row of the list."""
    k_warps: int
    """Warps that share the channels of A of a position."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    producer_warps: Annotated[int, Range(0)]
    """Producer warps; 0 if all warps copy between two steps."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    @property
    def step_pixels(self) -> int:
        """Output pixels of a block's step."""
        return self.warps // self.k_warps * self.tiles * TILE
