"""The choices that make one instance of the wgmma template for gradients of weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

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


@dataclass(frozen=True)
class Cluster:
    """Blocks that help each other; prints as `1`, `2m`, `2n` or `3k`."""

    blocks: int = 1
    axis: Literal["", "m", "n", "k"] = ""
    """Neighbours along m share tiles of A, neighbours along n tiles of C; along k are the parts of
    a tile, which are added through the blocks' shared memory."""

    def __str__(self) -> str:
        return f"{self.blocks}{self.axis}"

    @staticmethod
    def parse(text: str) -> Cluster:
        """The cluster that prints as `text`.

        Raises:
            ValueError: none does.
        """
        for cluster in CLUSTERS:
            if str(cluster) == text:
                return cluster
        raise ValueError(f"there is no cluster '{text}': 1, 2m, 2n, or 2k to {MAX_PARTS}k")


MAX_PARTS = 8
"""Blocks of a cluster on every GPU that has them."""
ALONE = Cluster()
CLUSTERS = (
    ALONE,
    Cluster(2, "m"),
    Cluster(2, "n"),
    *(Cluster(parts, "k") for parts in range(2, MAX_PARTS + 1)),
)


@dataclass(frozen=True)
class WgmmaWgradConfig:
    """Prints as `wgmma-wgrad 128x256 stages=4 cluster=2m partition=split-k:7:slices blocks=132`."""

    block_m: int
    """Columns of C, output channels, of a tile."""
    block_n: int
    """Depths of A, input channels of one or several taps, of a tile."""
    stages: int
    cluster: Cluster
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
        stages, blocks = int(parts.values["stages"]), int(parts.values["blocks"])
        cluster = Cluster.parse(parts.values["cluster"])
        partition = Partition.parse(parts.values["partition"])
        return WgmmaWgradConfig(block_m, block_n, stages, cluster, partition, blocks)

    def with_partition(self, partition: Partition) -> WgmmaWgradConfig:
        """The same tile, divided otherwise."""
        return replace(self, partition=partition)

    @property
    def concurrent(self) -> int:
        """Units that run at a time: blocks, or clusters whose blocks have tiles of their own."""
        return self.blocks // self.sharing

    @property
    def sharing(self) -> int:
        """Blocks that share tiles of A or C."""
        return self.cluster.blocks if self.cluster.axis in ("m", "n") else 1

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
        if self.stages < 2 or self.blocks < self.cluster.blocks:
            return "rings have 2 stages or more, and one cluster runs at least"
        if self.cluster.axis != "k":
            return None
        if str(self.partition) != f"split-k:{self.cluster.blocks}:slices":
            return f"a cluster that adds parts needs split-k:{self.cluster.blocks}:slices"
        return None
