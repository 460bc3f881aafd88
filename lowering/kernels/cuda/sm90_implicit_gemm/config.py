"""The choices that make one kernel of wgmma, and what they take of a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.config import Config, Key, OneOf, Range
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import SWIZZLE_BYTES
from convir.lowering.kernels.cuda.tile_schedule.partition import SPLIT_K, Partition
from convir.lowering.kernels.cuda.tile_schedule.schedule import Schedule, schedule_refusal

if TYPE_CHECKING:
    from typing import Self

    from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import Sm90ImplicitGemmProblem
    from convir.lowering.kernels.target import Target

BLOCK_K = 64
"""Input channels of 16 bits of a stage: a row of the 128-byte swizzle."""
CONSUMERS = 2
"""Warpgroups that multiply."""
THREADS = (1 + CONSUMERS) * 128
BLOCK_N = (32, 64, 96, 128, 160, 192, 224, 256)
"""Columns of a tile: the widths of the instruction that the kernel family has."""
MAX_ACCUMULATORS = 64 * 256
"""Accumulators that a warpgroup keeps at most: half of its registers."""

MAX_SPLIT_COLUMNS = 128
"""Columns of a tile of f32 as three products of TF32, which has accumulators for a step besides."""
MAX_ZERO_BYTES = 2048
"""Zeros in shared memory, which zero-filled outputs are copied from."""

_WITHOUT_CLUSTERS = re.compile(r" cluster=1 store=direct:(\d+)")
"""How configs of older records say that no blocks share tiles and that threads store rows."""

_ATOM_BYTES = 1024
_CHUNK_BYTES = 16


@dataclass(frozen=True)
class Sm90ImplicitGemmConfig(Config, family="sm90_implicit_gemm", sizes=2):
    """Prints as `sm90_implicit_gemm 128x256 stages=4 schedule=pingpong store=64 blocks=132`."""

    block_m: int
    block_n: Annotated[int, OneOf(*BLOCK_N)]
    stages: Annotated[int, Range(2)]
    schedule: Literal["cooperative", "pingpong"]
    """The warpgroups multiply half of the rows of every tile each, or every other tile each."""
    store_channels: Annotated[int, Key("store"), Range(16, multiple=16)]
    """Columns that are staged in shared memory at a time."""
    blocks: int
    """Persistent blocks at most, one for each multiprocessor."""
    splits: int = 1
    """Blocks that share the steps of a tile, all of which run at the same time."""
    products: Annotated[int, OneOf(1, 3)] = 1
    """Products of tensor cores for each product: 3 of TF32 are one of f32."""

    @property
    def warp_roles(self) -> dict[str, int]:
        """The warps of a block by what they do; three more fill zeros, where there are some."""
        return {"producer": 1, "consumer": 4 * CONSUMERS}

    @property
    def sharing(self) -> int:
        """Warpgroups that multiply a tile together."""
        return 1 if self.schedule == "pingpong" else CONSUMERS

    @classmethod
    def parse(cls, text: str) -> Self:
        """The config that prints as `text`, or printed so when blocks could be clusters.

        Raises:
            ValueError: none does.
        """
        return super().parse(_WITHOUT_CLUSTERS.sub(r" store=\1", text))

    def refusal(self) -> Refusal | None:
        """Why no kernel has this config, whatever it computes."""
        rows = (self.sharing * 64, self.sharing * 128)
        if self.block_m not in rows:
            return Refusal(
                f"block_m={self.block_m}: one of {rows[0]}, {rows[1]} if {self.schedule}"
            )
        if self.block_m * self.block_n > self.sharing * MAX_ACCUMULATORS:
            return Refusal("a tile's accumulators exceed the registers")
        if self.products > 1 and (
            self.schedule == "pingpong" or self.splits > 1 or self.block_m > CONSUMERS * 64
        ):
            return Refusal("three products are those of cooperative whole tiles of 128 rows")
        if self.products > 1 and self.block_n > MAX_SPLIT_COLUMNS:
            return Refusal("a tile's accumulators, kept twice, exceed the registers")
        if self.block_n % self.store_channels:
            return Refusal(f"{self.store_channels} staged output channels do not divide a tile's")
        return super().refusal()


def shared_bytes(problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig) -> int:
    """Dynamic shared memory of a block that computes `problem`."""
    is_by_depth = problem.filter_by_in_channel
    block_n = config.block_n
    loaded = block_n if is_by_depth else -(-block_n // BLOCK_K) * BLOCK_K
    loaded *= 2 if config.products > 1 else 1
    stage = (config.block_m + loaded) * SWIZZLE_BYTES
    staging = CONSUMERS * 64 * (config.store_channels * problem.result_bytes + _CHUNK_BYTES)
    barriers = 2 * 8 * config.stages + _CHUNK_BYTES
    zeros = min(problem.out_channels * 2, MAX_ZERO_BYTES)
    return _ATOM_BYTES + config.stages * stage + staging + zeros + barriers


def tile_count(problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig) -> int:
    """Tiles of all phases."""
    rows = sum(-(-phase.pixels // config.block_m) for phase in problem.phases)
    return rows * -(-problem.out_channels // config.block_n)


def split_schedule(
    problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig
) -> Schedule | Refusal:
    """How the blocks of each tile share the steps of the shortest ones, or why they do not."""
    if problem.has_zero_fills:
        return Refusal("zero-filled outputs are stored beside whole tiles, not their splits")
    partition = Partition(SPLIT_K, config.splits, "reduce-scatter")
    counts = (tile_count(problem, config), problem.least_steps, config.blocks)
    return schedule_refusal(partition, *counts) or Schedule(partition, *counts)


def refusal(
    problem: Sm90ImplicitGemmProblem, config: Sm90ImplicitGemmConfig, target: Target
) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    refused = config.refusal()
    if refused is not None:
        return refused
    if (config.products > 1) != problem.is_split:
        return Refusal("three products are those of f32 in IEEE arithmetic, and no others")
    piece = problem.out_channels // len(problem.pieces)
    if problem.fused_zero_fills and config.store_channels < problem.out_channels:
        return Refusal(
            "zero-filled outputs behind rows of few channels are stored with them, whole"
        )
    if len(problem.pieces) > 1 and piece % config.store_channels:
        return Refusal("staged output channels belong to different output pixels")
    if config.splits > 1:
        schedule = split_schedule(problem, config)
        if isinstance(schedule, Refusal):
            return schedule
    return target.shared_refusal(shared_bytes(problem, config))
