"""The choices that make one instance of the wgmma template for gradients of weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

from convir.lowering.cuda.contraction.config import ConfigText, sizes
from convir.lowering.partition.partition import Partition

FAMILY = "wgmma-wgrad"
BLOCK_K = 64
"""Output positions of a stage."""
CHUNK = 64
"""Channels of a copy: a row of the 128-byte swizzle."""
CONSUMERS = 2
"""Warpgroups that multiply."""
THREADS = (1 + CONSUMERS) * 128
BLOCKS_M = (64, 128, 256)
BLOCKS_N = (64, 128, 192, 256)
MAX_SUMS = CONSUMERS * 64 * 256
"""Sums of a tile at most: half of the registers of the warpgroups."""

_BOX_BYTES = BLOCK_K * CHUNK * 2
_ATOM_BYTES = 1024
_STAGED_ROW_BYTES = CHUNK * 2 + 16
_STAGED_ROWS = CONSUMERS * 64
_BARRIER_BYTES = 16


MAX_CLUSTER = 8
"""Blocks of a cluster on every GPU that has them."""


@dataclass(frozen=True)
class WgmmaWgradConfig:
    """Prints as `wgmma-wgrad 128x256 stages=4 cluster=3 partition=split-k:3:slices blocks=132`."""

    block_m: int
    """Columns of C, output channels, of a tile."""
    block_n: int
    """Depths of A, input channels of one or several taps, of a tile."""
    stages: int
    cluster: int
    """Blocks of a cluster, which have the parts of a tile and add them through their shared memory;
    1 if parts meet in global memory."""
    partition: Partition
    blocks: int
    """Blocks that run at a time, one for each multiprocessor."""

    def __str__(self) -> str:
        return (
            f"{FAMILY} {self.block_m}x{self.block_n} stages={self.stages} cluster={self.cluster}"
            f" partition={self.partition} blocks={self.blocks}"
        )

    @staticmethod
    def parse(text: str) -> WgmmaWgradConfig:
        """The config that prints as `text`.

        Raises:
            ValueError: none does.
        """
        parts = ConfigText.parse(text)
        if parts.family != FAMILY or len(parts.words) != 1:
            raise ValueError(f"'{text}' is no config of {FAMILY}")
        if parts.values.keys() != {"stages", "cluster", "partition", "blocks"}:
            raise ValueError("it has stages, cluster, partition and blocks")
        block_m, block_n = sizes(parts.words[0], 2)
        stages, cluster, blocks = (int(parts.values[k]) for k in ("stages", "cluster", "blocks"))
        partition = Partition.parse(parts.values["partition"])
        return WgmmaWgradConfig(block_m, block_n, stages, cluster, partition, blocks)

    def with_partition(self, partition: Partition) -> WgmmaWgradConfig:
        """The same tile, divided otherwise; parts then meet in global memory."""
        return replace(self, partition=partition, cluster=1)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        stage = (self.block_m + self.block_n) // CHUNK * _BOX_BYTES + _BARRIER_BYTES
        return _ATOM_BYTES + self.stages * stage + _STAGED_ROWS * _STAGED_ROW_BYTES

    def illegal(self) -> str | None:
        """Why no kernel has this config, or None."""
        if self.block_m not in BLOCKS_M:
            return f"tiles have {', '.join(map(str, BLOCKS_M))} rows"
        if self.block_n not in BLOCKS_N or (self.block_m == CHUNK and self.block_n % 128):
            return f"tiles have {', '.join(map(str, BLOCKS_N))} columns, 128 or 256 beside 64 rows"
        if self.block_m * self.block_n > MAX_SUMS:
            return "a tile's sums exceed the registers"
        if self.stages < 2 or not 1 <= self.cluster <= MAX_CLUSTER:
            return f"rings have 2 stages or more, clusters {MAX_CLUSTER} blocks or fewer"
        within = f"split-k:{self.cluster}:slices"
        if self.cluster > 1 and str(self.partition) != within:
            return f"a cluster that adds parts needs {within}"
        return None
        if str(self.partition) != f"split-k:{self.cluster.blocks}:slices":
            return f"a cluster that adds parts needs split-k:{self.cluster.blocks}:slices"
        return None
