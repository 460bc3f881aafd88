"""The configs of `pointwise`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range

TILE = 16
"""Output pixels of a matrix instruction."""


@dataclass(frozen=True)
class PointwiseConfig(Config, family="pointwise", sizes=1):
    """How warps share the output pixels.

    Prints as `pointwise 32 warps=8 blocks=132x3`.
    """

    rows: Annotated[int, OneOf(TILE, 2 * TILE)]
    """Output pixels of a warp's tile, along GEMM M."""
    warps: Annotated[int, Range(1, 32)]
    """Warps of a block, which share its filter."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""
