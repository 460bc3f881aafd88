"""The configs of `grouped_planes`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range

CHUNK = 8
"""Neighbouring pixels that `ldmatrix` reads as a row, and channels of half an instruction."""


@dataclass(frozen=True)
class GroupedPlanesConfig(Config, family="grouped_planes", sizes=2):
    """What a block computes at once.

    Prints as `grouped_planes 14x7 segments=1 groups=1 images=1 channels=8 unroll=2 warps=4 \
stages=2 resident=4`.
    """

    rows: int
    """Output rows of a tile; a multiple of `unroll`."""
    segment: Annotated[int, Range(1, 16)]
    """Chunks of eight columns of A that a warp goes through."""
    segments: int
    """Of a tile, side by side."""
    groups: int
    """Groups of a tile, small ones merged to eight channels."""
    images: int
    """Images of a tile."""
    channels: Annotated[int, OneOf(8, 16, 32)]
    """Output channels of a warp."""
    unroll: Annotated[int, OneOf(1, 2, 4)]
    """Output rows for which a warp reads a row of A once."""
    warps: Annotated[int, Range(1, 16)]
    stages: Annotated[int, Range(1, 4)]
    """Tiles that are under way or computed."""
    resident: Annotated[int, Range(1, 8)]
    """Blocks of a multiprocessor whose registers and shared memory fit."""
