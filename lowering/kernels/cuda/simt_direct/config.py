"""The configs of `scalar`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import taken_of

FAMILY: Final = "scalar"


@dataclass(frozen=True)
class ScalarConfig:
    """How threads of `kernel.cuh` share the work.

    Prints as `scalar 1x2 warps=4 blocks=132x2`.
    """

    rows: int
    """Output rows of a thread."""
    cols: int
    """Output columns of a thread."""
    warps: int
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each whose registers fit."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.rows}x{self.cols} warps={self.warps} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


def parse(text: str) -> ScalarConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = taken_of(text, FAMILY, 2, ("warps",))
    rows, cols = taken.sizes
    return ScalarConfig(rows, cols, *taken.numbers, blocks=taken.blocks)
