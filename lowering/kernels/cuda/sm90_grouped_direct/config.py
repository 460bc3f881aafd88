"""The configs of `grouped-pairs`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import taken_of

FAMILY: Final = "grouped-pairs"


@dataclass(frozen=True)
class GroupedPairsConfig:
    """How blocks of `kernel.cuh` share the work.

    Prints as `grouped-pairs 13 slots=4 parts=4 blocks=132x1`.
    """

    pairs: int
    """Pairs of output rows of a strip."""
    slots: int
    """Strips that are under way or in use."""
    parts: int
    """Blocks that share the strips of a group."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.pairs} slots={self.slots} parts={self.parts} "
            f"blocks={self.blocks[0]}x{self.blocks[1]}"
        )


def parse(text: str) -> GroupedPairsConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = taken_of(text, FAMILY, 1, ("slots", "parts"))
    return GroupedPairsConfig(*taken.sizes, *taken.numbers, blocks=taken.blocks)
