"""How many channels and vectors of frames are kept in registers: the config of planar kernels.

planar                       the heuristic chooses when code is made
planar vectors=4 accumulators=16
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.lowering.implementations import PLANAR

if TYPE_CHECKING:
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.target import CpuTarget

_MANY_REGISTERS = 32

_BESIDE = 2
"""Registers beside the accumulators and the vectors of a row: a weight, and one to move things
by."""

_VECTORS = (4, 2, 1)
_SUMS = (16, 12, 24, 20, 8, 4)


@dataclass(frozen=True)
class SumTile:
    """What a stage accumulators in registers at once."""

    vectors: int
    """Vectors of frames side by side: each weight that is broadcast is used so often."""
    sums: int
    """At most so many, of all channels of a tile."""

    def __str__(self) -> str:
        return f"{PLANAR} vectors={self.vectors} sums={self.sums}"

    @staticmethod
    def of(config: str, cpu: CpuTarget) -> SumTile:
        """The tile that a config names on a CPU.

        Raises:
            ValueError: it names none, or one for which the CPU has too few registers.
        """
        tile = ChainConfig.parse(config).on(cpu)
        if tile not in legal_tiles(cpu):
            raise ValueError(f"'{config}' is not a config of planar kernels on this CPU")
        return tile


@dataclass(frozen=True)
class ChainConfig:
    """The register tile of a chain."""

    tile: SumTile | None = None
    """None: the heuristic chooses it when code is made."""

    def __str__(self) -> str:
        return PLANAR if self.tile is None else str(self.tile)

    @staticmethod
    def parse(text: str) -> ChainConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        if text == PLANAR:
            return ChainConfig()
        named = re.fullmatch(rf"{PLANAR} vectors=(\d+) sums=(\d+)", text)
        if named is None:
            raise ValueError(f"'{text}' is not a config of planar kernels on this CPU")
        return ChainConfig(SumTile(*map(int, named.groups())))

    def on(self, cpu: CpuTarget) -> SumTile:
        """The tile on a CPU."""
        return rule(cpu) if self.tile is None else self.tile


def rule(cpu: CpuTarget) -> SumTile:
    """The tile where nothing was measured: more accumulators than latency times issue rate of any
    core.

    With 24 of 32 registers LLVM leaves none for a weight that is used again.
    """
    return SumTile(4, 16) if _has_many_registers(cpu) else SumTile(2, 12)


def legal_tiles(cpu: CpuTarget) -> tuple[SumTile, ...]:
    """All tiles for which a CPU has registers; the heuristic's is the first."""
    tiles = [
        SumTile(vectors, sums)
        for vectors in _VECTORS
        for sums in _SUMS
        if sums % vectors == 0 and vectors + sums + _BESIDE <= cpu.vector_registers
    ]
    return tuple(dict.fromkeys((rule(cpu), *tiles)))


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
    def of(frames: int, lanes: Lanes, tile: SumTile) -> Frames:
        """The division of `frames` frames."""
        vectors = max(1, min(tile.vectors, frames // lanes.count))
        together = vectors * lanes.count
        whole = frames // together * together
        return Frames(vectors, whole, frames - whole)


def _has_many_registers(cpu: CpuTarget) -> bool:
    return cpu.vector_registers >= _MANY_REGISTERS


def channel_tiles(block: int, vectors: int, sums: int) -> tuple[int, ...]:
    """The channels of each tile of at most `sums` that together are a block, the largest first.

    Tiles of one size share their code, unless these would be small.
    """
    most = max(1, sums // vectors)
    even = max(size for size in range(1, most + 1) if block % size == 0)
    if 2 * even > most or even == block:
        return (even,) * (block // even)
    large = -(-block // -(-block // most))
    rest = block % large
    return ((large,) * (block // large)) + ((rest,) if rest else ())
