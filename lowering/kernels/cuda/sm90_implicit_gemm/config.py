"""The choices that make one instance of the wgmma template, and what they take of a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.config import Config, Key, OneOf, Range

if TYPE_CHECKING:
    from typing import Self

    from convir.lowering.contraction.spec import StorageType
    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import WgmmaProblem
    from convir.lowering.kernels.target import Target

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
class WgmmaConfig(Config, family="wgmma", sizes=2):
    """Prints as `wgmma 128x256 stages=4 math=pingpong store=64 blocks=132`."""

    block_m: int
    block_n: Annotated[int, OneOf(*BLOCK_COLUMNS)]
    stages: Annotated[int, Range(2)]
    math: Literal["cooperative", "pingpong"]
    """The warpgroups multiply half of the rows of every tile each, or every other tile each."""
    store_columns: Annotated[int, Key("store"), Range(16, multiple=16)]
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The config that prints as `text`, or printed so when blocks could be clusters.

        Raises:
            ValueError: none does.
        """
        return super().parse(_WITHOUT_CLUSTERS.sub(r" store=\1", text))

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes."""
        sharing = 1 if self.math == "pingpong" else CONSUMERS
        rows = (sharing * 64, sharing * 128)
        if self.block_m not in rows:
            return Refusal(f"block_m={self.block_m}: one of {rows[0]}, {rows[1]} if {self.math}")
        if self.block_m * self.block_n > sharing * MAX_SUMS:
            return Refusal("a tile's sums exceed the registers")
        if self.block_n % self.store_columns:
            return Refusal(f"{self.store_columns} staged columns do not divide a tile's")
        return super().refusal()


def shared_bytes(problem: WgmmaProblem, config: WgmmaConfig) -> int:
    """Dynamic shared memory of a block that computes `problem`."""
    is_by_depth = problem.weights_by_depth
    block_n = config.block_n
    loaded = block_n if is_by_depth else -(-block_n // BLOCK_K) * BLOCK_K
    stage = (config.block_m + loaded) * _SWIZZLE_BYTES
    staging = CONSUMERS * 64 * (config.store_columns * problem.result_bytes + _CHUNK_BYTES)
    barriers = 2 * 8 * config.stages + _CHUNK_BYTES
    zeros = min(problem.columns * 2, MAX_ZERO_BYTES)
    return _ATOM_BYTES + config.stages * stage + staging + zeros + barriers


def refusal(problem: WgmmaProblem, config: WgmmaConfig, target: Target) -> Refusal | None:
    """Why the template's assertions, or the GPU, refuse `config`; None if they do not."""
    refused = config.refusal()
    if refused is not None:
        return refused
    piece = problem.columns // len(problem.pieces)
    if problem.fused_holes and config.store_columns < problem.columns:
        return Refusal("holes behind narrow rows are stored with them, whole")
    if len(problem.pieces) > 1 and piece % config.store_columns:
        return Refusal("staged columns belong to different positions")
    return target.shared_refusal(shared_bytes(problem, config))
