"""The configs of `narrow`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import TILE, taken_of

FAMILY: Final = "narrow"


@dataclass(frozen=True)
class NarrowConfig:
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `narrow 73 depth=1 tiles=2 stages=2 warps=8 loaders=0 blocks=132x2`.
    """

    cols: int
    """Output columns of a row of the list."""
    depth: int
    """Warps that share the channels of A of a position."""
    tiles: int
    """Tiles of a warp in a step."""
    stages: int
    """Steps whose rows are under way while one is computed."""
    warps: int
    """Warps that compute."""
    loaders: int
    """Warps that only copy rows; 0 if all warps copy between two steps."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.cols} depth={self.depth} tiles={self.tiles} stages={self.stages} "
            f"warps={self.warps} loaders={self.loaders} blocks={self.blocks[0]}x{self.blocks[1]}"
        )

    @property
    def step_positions(self) -> int:
        """Output positions of a block's step."""
        return self.warps // self.depth * self.tiles * TILE


def parse(text: str) -> NarrowConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = taken_of(text, FAMILY, 1, ("depth", "tiles", "stages", "warps", "loaders"))
    return NarrowConfig(*taken.sizes, *taken.numbers, blocks=taken.blocks)
