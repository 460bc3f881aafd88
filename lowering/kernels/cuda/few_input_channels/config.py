"""The configs of `few_input_channels`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf

COLUMNS = (64, 32)
"""Output channels of a block: groups of 32 are stored in whole sectors."""
TILES = (2, 1)
"""Tiles of 16 output pixels of a warp, best first: two read the filter half as often."""


@dataclass(frozen=True)
class FewInputChannelsConfig(Config, family="few_input_channels", sizes=2):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `few_input_channels 2x64 tiles=2 warps=7 blocks=132x3`.
    """

    rows: int
    """Output rows of a strip."""
    out_channels: Annotated[int, OneOf(*COLUMNS)]
    """Output channels of a block."""
    tiles: Annotated[int, OneOf(*TILES)]
    """Tiles of a warp that share what it reads of the filter."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
