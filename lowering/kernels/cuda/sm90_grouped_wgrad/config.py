"""The configs of `grouped-wgrad-pairs`: frozen choices, one canonical string each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from convir.lowering.kernels.cuda.direct.config import taken_of

FAMILY: Final = "grouped-wgrad-pairs"


@dataclass(frozen=True)
class GroupedWgradPairsConfig:
    """How blocks of `kernel.cuh` share the work.

    Prints as `grouped-wgrad-pairs 13 slots=4 blocks=132x1`.
    """

    rows: int
    """Rows of positions of a strip."""
    slots: int
    """Strips that are under way or in use."""
    blocks: tuple[int, int]
    """Multiprocessors, and blocks of each."""

    def __str__(self) -> str:
        return f"{FAMILY} {self.rows} slots={self.slots} blocks={self.blocks[0]}x{self.blocks[1]}"


def parse(text: str) -> GroupedWgradPairsConfig:
    """The config that prints as `text`.

    Raises:
        ValueError: none does.
    """
    taken = taken_of(text, FAMILY, 1, ("slots",))
    return GroupedWgradPairsConfig(*taken.sizes, *taken.numbers, blocks=taken.blocks)
