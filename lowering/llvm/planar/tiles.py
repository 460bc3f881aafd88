"""How many channels and vectors of frames a kernel keeps in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.lowering.llvm.contraction.scalars import Lanes

MAX_VECTORS = 4
"""Vectors of frames side by side: each weight that is broadcast is used so often."""

_MANY_REGISTERS = 32

_SUMS = {True: 16, False: 12}
"""Sums of a tile, where there are many registers and where there are 16: more than latency times
issue rate of any core. With 24 of 32 LLVM leaves no register for a weight that is used again."""


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
    return MAX_VECTORS if _has_many_registers(lanes) else MAX_VECTORS // 2


def _has_many_registers(lanes: Lanes) -> bool:
    return lanes.cpu.vector_registers >= _MANY_REGISTERS


def channel_tiles(block: int, vectors: int, lanes: Lanes) -> tuple[int, ...]:
    """The channels of each tile that together are a block, the largest first.

    Tiles of one size share their code, unless these would be small.
    """
    most = _SUMS[_has_many_registers(lanes)] // vectors
    even = max(size for size in range(1, most + 1) if block % size == 0)
    if 2 * even > most or even == block:
        return (even,) * (block // even)
    large = -(-block // -(-block // most))
    rest = block % large
    return ((large,) * (block // large)) + ((rest,) if rest else ())
