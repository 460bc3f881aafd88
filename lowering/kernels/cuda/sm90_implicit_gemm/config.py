"""The choices that make one instance of the wgmma template, and what they take of a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.config import ConfigText, sizes

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import StorageType

FAMILY = "wgmma"
BLOCK_K = 64
"""Depths of 16 bits of a stage: a row of the 128-byte swizzle."""
CONSUMERS = 2
"""Warpgroups that multiply."""
THREADS = (1 + CONSUMERS) * 128
BLOCK_COLUMNS = (32, 64, 96, 128, 160, 192, 224, 256)
"""Columns of a tile: the widths of the instruction that the template has."""
MAX_SUMS = 64 * 256
"""Sums that a warpgroup keeps at most: half of its registers."""

MAX_ZERO_BYTES = 2048
"""Zeros in shared memory, which holes are copied from."""

_WITHOUT_CLUSTERS = re.compile(r" cluster=1 store=direct:(\d+)")
"""How configs of older records say that no blocks share tiles and that threads store rows."""

_SWIZZLE_BYTES = 128
_ATOM_BYTES = 1024
_CHUNK_BYTES = 16


def depths_of_stage(element: StorageType) -> int:
    """Elements of a row of the swizzle."""
    return _SWIZZLE_BYTES // STORAGE_BYTES[element]


@dataclass(frozen=True)
class WgmmaConfig:
    """Prints as `wgmma 128x256 stages=4 math=pingpong store=64 blocks=132`."""

    block_m: int
    block_n: int
    stages: int
    math: Literal["cooperative", "pingpong"]
    """The warpgroups multiply half of the rows of every tile each, or every other tile each."""
    store_columns: int
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.block_m}x{self.block_n} stages={self.stages} math={self.math}"
            f" store={self.store_columns} blocks={self.blocks}"
        )

    @staticmethod
    def parse(text: str) -> WgmmaConfig:
        """The config that prints as `text`, or printed so when blocks could be clusters.

        Raises:
            ValueError: none does.
        """
        parts = ConfigText.parse(_WITHOUT_CLUSTERS.sub(r" store=\1", text))
        if parts.family != FAMILY or len(parts.words) != 1:
            raise ValueError(f"'{text}' is no config of {FAMILY}")
        if parts.values.keys() != {"stages", "math", "store", "blocks"}:
            raise ValueError("it has stages, math, store and blocks")
        block_m, block_n = sizes(parts.words[0], 2)
        math = parts.values["math"]
        if math not in ("cooperative", "pingpong"):
            raise ValueError(f"there is no math '{math}'")
        stages, store_columns, blocks = (
            int(parts.values[key]) for key in ("stages", "store", "blocks")
        )
        return WgmmaConfig(block_m, block_n, stages, math, store_columns, blocks)

    def shared_bytes(self, columns: int, *, weights_by_depth: bool, result_bytes: int = 2) -> int:
        """Dynamic shared memory of a block, for a product of so many columns."""
        loaded = self.block_n if weights_by_depth else -(-self.block_n // BLOCK_K) * BLOCK_K
        stage = (self.block_m + loaded) * _SWIZZLE_BYTES
        staging = CONSUMERS * 64 * (self.store_columns * result_bytes + _CHUNK_BYTES)
        barriers = 2 * 8 * self.stages + _CHUNK_BYTES
        zeros = min(columns * 2, MAX_ZERO_BYTES)
        return _ATOM_BYTES + self.stages * stage + staging + zeros + barriers

    def illegal(self) -> str | None:
        """Why no kernel has this config, or None."""
        sharing = 1 if self.math == "pingpong" else CONSUMERS
        if self.block_m not in (sharing * 64, sharing * 128):
            return f"tiles have {sharing * 64} or {sharing * 128} rows"
        if self.block_n not in BLOCK_COLUMNS:
            return f"tiles have {', '.join(map(str, BLOCK_COLUMNS))} columns"
        if self.block_m * self.block_n > sharing * MAX_SUMS:
            return "a tile's sums exceed the registers"
        if self.stages < 2 or self.blocks < 1:
            return "rings have 2 stages or more"
        if self.store_columns < 1 or self.store_columns % 16 or self.block_n % self.store_columns:
            return "staged columns are a multiple of 16 that divides a tile's"
        return None
