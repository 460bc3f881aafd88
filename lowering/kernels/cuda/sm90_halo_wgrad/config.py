"""The choices that make one instance of the kernel family of gradients of weights from halos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, OneOf, Range
from convir.lowering.kernels.cuda.registers import WARPGROUP, traded_registers

INSTRUCTION_ROWS = 64
"""Rows of an instruction."""
ELEMENT_BYTES = 2
"""Of a channel."""


@dataclass(frozen=True)
class HaloWgradConfig(Config, family="sm90_halo_wgrad", sizes=3):
    """Prints as `sm90_halo_wgrad 1x4x32 channels=32x32 stages=4 consumers=2 parts=1 blocks=132`."""

    depth: int
    """Slices of a tile: along the axis whose taps are shifts of C."""
    rows: int
    cols: Annotated[int, Range(8, multiple=8)]
    """Pixels of a tile along the other axes, the innermost last."""
    channels: Annotated[
        tuple[int, int], OneOf(*((a, c) for a in (16, 32, 64) for c in (16, 32, 64)))
    ]
    """Channels of a pixel of A, and of C, that a block has."""
    stages: Annotated[int, Range(2)]
    """Tiles in flight."""
    consumers: Annotated[int, OneOf(1, 2, 3, 4)]
    """Warpgroups that multiply."""
    parts: int
    """Blocks that share the taps of a tile."""
    blocks: int
    """Blocks at most, one for each multiprocessor."""

    @property
    def taps_of_set(self) -> int:
        """Taps of the rows of an instruction."""
        return INSTRUCTION_ROWS // self.channels[0]

    @property
    def pixels(self) -> int:
        """Of a tile."""
        return self.depth * self.rows * self.cols

    @property
    def threads(self) -> int:
        """Threads of a block: those that multiply, and a warpgroup that copies."""
        return (1 + self.consumers) * WARPGROUP * 32

    @property
    def consumer_registers(self) -> int:
        """Registers of a thread that multiplies."""
        return traded_registers(self.consumers * WARPGROUP, 1)
