"""The configs of `few_channels_wgrad`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range

TILE = 16
"""Output pixels, and channels, of a matrix instruction."""
COLUMNS = 8
"""Columns of a matrix instruction: pairs of a filter tap and one of the few channels."""


@dataclass(frozen=True)
class FewChannelsWgradConfig(Config, family="few_channels_wgrad", sizes=2):
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `few_channels_wgrad 2x128 channels=64 jobs=1 stages=3 warps=8 blocks=132x2`.
    """

    rows: int
    """Output rows of a strip."""
    cols: int
    """Output pixels of each, a multiple of 16."""
    channels: int
    """Of the many channels those of a block, a multiple of 16."""
    jobs: Annotated[int, OneOf(1, 2, 4, 8)]
    """Warps that share the columns of a pixel."""
    stages: Annotated[int, Range(2)]
    """Strips in shared memory: all but one are under way while one is multiplied."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
