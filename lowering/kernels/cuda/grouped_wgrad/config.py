"""The configs of `grouped-wgrad`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import Copies, taken_of

FAMILY: Final = "grouped-wgrad"


@dataclass(frozen=True)
class GroupedWgradConfig:
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `grouped-wgrad 64x25 slice=32 rows=2 tiles=1 stages=2 warps=4 loaders=0 copies=async
    blocks=132x2`.
    """

    channels: int
    """Channels of A of a block."""
    cols: int
    """Output columns of a row of the list."""
    slice: int
    """Columns of B of a warp, which has 16 depths of them."""
    rows: int
    """Output rows of a position: rows of A are read from shared memory once for all of them."""
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
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.channels}x{self.cols} slice={self.slice} rows={self.rows} "
            f"tiles={self.tiles} stages={self.stages} warps={self.warps} loaders={self.loaders} "
            f"copies={self.copies} blocks={self.blocks[0]}x{self.blocks[1]}"
        )


def parse(text: str) -> GroupedWgradConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    keys = ("slice", "rows", "tiles", "stages", "warps", "loaders")
    taken = taken_of(text, FAMILY, 2, (*keys, "copies"))
    channels, cols = taken.sizes
    return GroupedWgradConfig(
        channels, cols, *taken.numbers, copies=taken.copies, blocks=taken.blocks
    )
