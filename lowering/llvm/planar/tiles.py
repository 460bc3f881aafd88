"""How many channels and vectors of frames a kernel keeps in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.scalars import Lanes

MAX_VECTORS = 4
"""Vectors of frames side by side: each weight that is broadcast is used so often."""

_SPARE = 2
"""Registers for a weight, and for what LLVM needs beside sums and inputs."""


@dataclass(frozen=True)
class Frames:
    """How the frames of a block are divided."""

    vectors: int
    """Vectors of a whole tile."""
    whole: int
    """Frames that are whole tiles."""
    rest: int
    """Frames behind these; they are computed a masked vector at a time."""

    @staticmethod
    def of(frames: int, lanes: Lanes) -> Frames:
        """The division of `frames` frames."""
        vectors = max(1, min(max_vectors(lanes), frames // lanes.count))
        tile = vectors * lanes.count
        whole = frames // tile * tile
        return Frames(vectors, whole, frames - whole)


def max_vectors(lanes: Lanes) -> int:
    """The most vectors of a tile: fewer where there are few registers."""
    return MAX_VECTORS if lanes.cpu.vector_registers > 16 else MAX_VECTORS // 2


def channel_tiles(block: int, vectors: int, lanes: Lanes) -> tuple[int, ...]:
    """The channels of each tile that together are a block, the largest first.

    Tiles of one size share their code, unless these would be small.
    """
    most = (lanes.cpu.vector_registers - _SPARE - vectors) // vectors
    even = max(size for size in range(1, most + 1) if block % size == 0)
    if 2 * even > most or even == block:
        return (even,) * (block // even)
    large = -(-block // -(-block // most))
    rest = block % large
    return ((large,) * (block // large)) + ((rest,) if rest else ())
