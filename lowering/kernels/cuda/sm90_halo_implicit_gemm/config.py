"""The choices that make one instance of the kernel family of halo tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from convir.lowering.kernels.cuda.config import Config, Key, OneOf, Range
from convir.lowering.kernels.cuda.registers import WARPGROUP, traded_registers

PATCH = 8
"""Output pixels along either axis of what one instruction multiplies of a tile `PATCH` wide."""
INSTRUCTION_ROWS = 64
"""Rows of an instruction."""
ELEMENT_BYTES = 2
"""Of an input channel."""
MOST_COLUMNS = 256
"""Columns of an instruction."""


@dataclass(frozen=True)
class HaloConfig(Config, family="sm90_halo_implicit_gemm", sizes=2):
    """Prints as `sm90_halo_implicit_gemm 8x8 chunk=64 columns=64 stages=2 consumers=4 …`."""

    rows: int
    cols: int
    """Output pixels of a tile along the two innermost axes."""
    chunk: Annotated[int, OneOf(16, 32, 64)]
    """Input channels of a stage: a row of a swizzle."""
    columns: Annotated[int, Range(16, MOST_COLUMNS, multiple=16)]
    """Output channels of a tile, those of a block."""
    stages: Annotated[int, Range(2)]
    """Chunks of halos in flight, for each consumer."""
    consumers: Annotated[int, OneOf(2, 3, 4)]
    """Warpgroups that multiply, each its own tiles."""
    store_channels: Annotated[int, Key("store"), Range(16, multiple=16)]
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""

    @property
    def row_bytes(self) -> int:
        """Of a pixel in a stage."""
        return self.chunk * ELEMENT_BYTES

    @property
    def is_patch(self) -> bool:
        """Whether an instruction multiplies 8x8 output pixels; else 64 pixels of A in a line."""
        return self.cols == PATCH and self.rows % PATCH == 0

    @property
    def warp_roles(self) -> dict[str, int]:
        """The warps of a block by what they do; the other warps of the first group are idle."""
        return {"producer": self.consumers, "consumer": WARPGROUP * self.consumers}

    @property
    def threads(self) -> int:
        """Threads of a block: a warpgroup that copies, and those that multiply."""
        return (1 + self.consumers) * WARPGROUP * 32

    @property
    def consumer_registers(self) -> int:
        """Registers of a thread that multiplies."""
        return traded_registers(self.consumers * WARPGROUP, 1)
