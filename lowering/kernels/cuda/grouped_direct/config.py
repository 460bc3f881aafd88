"""The configs of `grouped`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import TILE, Copies, Math, taken_of

FAMILY: Final = "grouped"


@dataclass(frozen=True)
class GroupedConfig:
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `grouped 64x25 slice=32 rows=2 outputs=2 tiles=1 stages=2 warps=8 loaders=0
    copies=async math=mma blocks=132x1`.
    """

    channels: int
    """Output channels of a block."""
    cols: int
    """Output columns of a row of the list."""
    slice: int
    """Output channels of a warp, 16 or 32."""
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
    loaders: int
    """Warps that only copy rows; 0 if all warps copy between two steps. Four of them leave the
    others most of their registers, if TMA copies."""
    copies: Copies
    """Who copies rows."""
    math: Math
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.channels}x{self.cols} slice={self.slice} rows={self.rows} "
            f"outputs={self.outputs} tiles={self.tiles} stages={self.stages} "
            f"warps={self.warps} loaders={self.loaders} copies={self.copies} "
            f"math={self.math} blocks={self.blocks[0]}x{self.blocks[1]}"
        )

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.warps * self.slice // self.channels * self.tiles * TILE


def parse(text: str) -> GroupedConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    keys = ("slice", "rows", "outputs", "tiles", "stages", "warps", "loaders")
    taken = taken_of(text, FAMILY, 2, (*keys, "copies", "math"))
    channels, cols = taken.sizes
    return GroupedConfig(
        channels, cols, *taken.numbers, copies=taken.copies, math=taken.math, blocks=taken.blocks
    )
