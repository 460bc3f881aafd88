"""The configs of `shallow`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import taken_of

FAMILY: Final = "shallow"


@dataclass(frozen=True)
class ShallowConfig:
    """How blocks and warps of `kernel.cuh` share the work.

    Prints as `shallow 2x64 tiles=2 warps=7 blocks=132x3`.
    """

    rows: int
    """Output rows of a strip."""
    columns: int
    """Output channels of a block, 32 or 64."""
    tiles: int
    """Tiles of a warp that share what it reads of the filter."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.rows}x{self.columns} tiles={self.tiles} warps={self.warps} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


def parse(text: str) -> ShallowConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = taken_of(text, FAMILY, 2, ("tiles", "warps"))
    rows, columns = taken.sizes
    return ShallowConfig(rows, columns, *taken.numbers, blocks=taken.blocks)
