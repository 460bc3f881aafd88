"""The configs of `depthwise`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Range

CHUNK = 8
"""Neighbouring pixels that `ldmatrix` reads as a row."""


@dataclass(frozen=True)
class DepthwiseConfig(Config, family="depthwise", sizes=2):
    """What a block computes at once.

    Prints as `depthwise 8x56 images=1 channels=32 unroll=4 warps=8 resident=2`.
    """

    rows: int
    """Output rows of a tile; a multiple of `unroll`."""
    cols: Annotated[int, Range(CHUNK, multiple=CHUNK)]
    """Output columns of a tile."""
    images: int
    """Images of a tile."""
    channels: int
    """Channels of a tile."""
    unroll: int
    """Output rows for which a warp reads a row of A once."""
    warps: Annotated[int, Range(1, 16)]
    resident: int
    """Blocks of a multiprocessor whose registers and shared memory fit."""
