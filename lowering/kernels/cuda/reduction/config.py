"""The config of a reduction: how many threads share a row, and what stays on chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.implementations import REDUCTION
from convir.lowering.kernels.cuda.config import Config, OneOf, Range

MOST_THREADS = 1024
MOST_HELD = 32


@dataclass(frozen=True)
class ReductionConfig(Config, family=REDUCTION, sizes=2):
    """Prints as `reduction 32x4 held=3 cluster=8`, or `reduction 256x1 splits=8`."""

    x: Annotated[int, Range(1, MOST_THREADS)]
    """Threads that share a row; across, neighbouring vectors of a block."""
    y: Annotated[int, OneOf(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)]
    """Rows of a block; across, threads that share a row."""
    held: Annotated[int, Range(0, MOST_HELD)] = 0
    """Vectors that a thread keeps from pass to pass; 0: each pass reads them again."""
    splits: int = 1
    """Blocks that share a row, where passes are launches of their own."""
    cluster: Annotated[int, OneOf(1, 2, 4, 8)] = 1
    """Blocks of a cluster that share a row, whose vectors their threads keep."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.x * self.y
