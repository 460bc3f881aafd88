"""Which config of an implicit GEMM is tried first: waves of blocks, and what a block costs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.contraction.spec import STORAGE_BYTES
from convir.lowering.cuda.contraction.channels_last import copied, copyable
from convir.lowering.cuda.contraction.implicit_gemm_config import (
    BASE_REGISTERS,
    ImplicitGemmConfig,
    has_mma,
    legality,
)
from convir.lowering.cuda.contraction.implicit_gemm_widths import (
    reduced_of,
    refusal,
    rows_of,
    widths,
)

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.cuda.contraction.epilogue import Epilogue
    from convir.lowering.cuda.gpu import Gpu

MIN_STEPS = 8
"""A part of a split reduction has at least so many steps: fewer do not pay for adding it."""
MAX_SPLIT = 64

_MMA_TILES = (
    ImplicitGemmConfig(128, 256, 32, 4, (2, 4)),
    ImplicitGemmConfig(128, 128, 32, 4, (2, 2)),
    ImplicitGemmConfig(128, 128, 64, 3, (2, 4)),
    ImplicitGemmConfig(256, 64, 32, 4, (4, 1)),
    ImplicitGemmConfig(128, 64, 32, 4, (2, 2)),
    ImplicitGemmConfig(64, 128, 32, 4, (2, 2)),
    ImplicitGemmConfig(64, 64, 32, 5, (2, 2)),
    ImplicitGemmConfig(64, 64, 64, 4, (2, 2)),
    ImplicitGemmConfig(256, 32, 32, 4, (4, 1)),
    ImplicitGemmConfig(128, 32, 32, 4, (4, 1)),
    ImplicitGemmConfig(64, 32, 32, 4, (2, 1)),
    ImplicitGemmConfig(32, 64, 32, 4, (1, 2)),
    ImplicitGemmConfig(128, 16, 32, 4, (4, 1)),
    ImplicitGemmConfig(64, 16, 32, 4, (4, 1)),
    ImplicitGemmConfig(128, 8, 32, 4, (4, 1)),
    ImplicitGemmConfig(32, 8, 32, 4, (2, 1)),
)
_FMA_TILES = (
    ImplicitGemmConfig(128, 128, 16, 3, (16, 16), is_mma=False),
    ImplicitGemmConfig(128, 64, 16, 3, (16, 8), is_mma=False),
    ImplicitGemmConfig(64, 64, 16, 3, (16, 16), is_mma=False),
    ImplicitGemmConfig(64, 64, 16, 3, (8, 8), is_mma=False),
    ImplicitGemmConfig(64, 16, 16, 3, (16, 4), is_mma=False),
    ImplicitGemmConfig(32, 32, 16, 3, (8, 8), is_mma=False),
)
"""What is chosen from; the rule below ranks them."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Gpu
) -> tuple[ImplicitGemmConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    refused = refusal(spec)
    if refused is not None:
        return refused
    copies = _copies(spec)
    spec, _ = copied(spec, copies)
    tiles = _MMA_TILES if has_mma(spec) else _FMA_TILES
    legal = [tile for tile in tiles if legality(spec, epilogue, tile, gpu.shared_bytes) is None]
    if not legal:
        return Refusal(str(legality(spec, epilogue, tiles[-1], gpu.shared_bytes)))
    split = [replace(_split(spec, tile, gpu), copies=copies) for tile in legal]
    return tuple(sorted(split, key=lambda config: _cost(spec, config, gpu)))


def _copies(spec: Contraction) -> str:
    """The operands whose copies are read in wider vectors, by tensor cores, more than once."""
    if not has_mma(spec) or max(phase.taps for phase in spec.phases) == 1:
        return ""
    chosen = ""
    for operand in copyable(spec):
        before, after = widths(spec), widths(copied(spec, operand)[0])
        wider = after.a > before.a if operand == "a" else after.other > before.other
        chosen += operand if wider or (operand == "b" and chosen) else ""
    return chosen


def _split(spec: Contraction, tile: ImplicitGemmConfig, gpu: Gpu) -> ImplicitGemmConfig:
    """`tile`, its reduction split where its blocks do not fill the GPU."""
    if len(spec.phases) > 1:
        return tile
    steps = -(-max(reduced_of(spec)) // tile.k)
    blocks = blocks_of(spec, tile)
    resident = gpu.multiprocessors * _blocks_at_once(spec, tile, gpu)
    parts = min(resident // blocks, steps // MIN_STEPS, MAX_SPLIT)
    return replace(tile, split=max(1, parts))


def blocks_of(spec: Contraction, tile: ImplicitGemmConfig) -> int:
    """Tiles of the result, each a block for every part of its reduction."""
    rows = sum(-(-rows // tile.m) for rows in rows_of(spec))
    return rows * spec.groups * -(-spec.columns // tile.n)


def _blocks_at_once(spec: Contraction, tile: ImplicitGemmConfig, gpu: Gpu) -> int:
    """Blocks that one multiprocessor holds, by shared memory and threads."""
    stage = tile.k * (tile.m + tile.n) * STORAGE_BYTES[spec.a.type] * tile.stages
    staging = tile.m * tile.n * STORAGE_BYTES[spec.element]
    registers = tile.threads * (BASE_REGISTERS + _FRAGMENT_REGISTERS + tile.sums)
    blocks = min(gpu.shared_bytes // max(stage, staging), _REGISTERS // registers)
    return max(1, min(blocks, _MAX_THREADS // tile.threads))


_REGISTERS, _FRAGMENT_REGISTERS, _MAX_THREADS = 1 << 16, 48, 2048
"""Registers of a multiprocessor, of a thread's fragments, and threads of a multiprocessor."""


def _cost(spec: Contraction, config: ImplicitGemmConfig, gpu: Gpu) -> float:
    """Time in units of one multiplication on one multiprocessor, roughly.

    Blocks run in waves; a step costs its multiplications at the rate that the tile allows, and its
    copies; every block pays to begin, to end, and to store.
    """
    at_once = _blocks_at_once(spec, config, gpu)
    total = 0.0
    columns = -(-spec.columns // config.n)
    for rows, reduced in zip(rows_of(spec), reduced_of(spec), strict=True):
        blocks = -(-rows // config.m) * spec.groups * columns * config.split
        steps = ceil(ceil(reduced / config.k) / config.split)
        waves = blocks / gpu.multiprocessors
        waves = max(waves, 1.0) if waves < at_once else waves
        tail = 1 + 0.5 / max(1.0, waves / at_once)
        multiply = config.m * config.n * config.k / _efficiency(config)
        moved = (config.m + config.n) * config.k * _BYTES_COST
        total += waves * (steps * (multiply + moved) + _BLOCK_COST * config.m * config.n) * tail
    parts = config.split * config.m * config.n * blocks_of(spec, config) / gpu.multiprocessors
    return total + (_ADDING_COST * parts + _LAUNCH_COST if config.split > 1 else 0)


_BYTES_COST = 14.0
"""Multiplications in the time in which one element is addressed and copied to shared memory."""
_BLOCK_COST = 48.0
"""The same for one result: its sum is staged, converted and stored, while nothing is multiplied."""
_ADDING_COST = 24.0
_LAUNCH_COST = 3.0e6


def _efficiency(config: ImplicitGemmConfig) -> float:
    """The part of the peak that a warp's tile reaches: what it reads is reused as often as it is
    wide."""
    if not config.is_mma:
        return min(1.0, config.sums / 64) / 8
    warp_m, warp_n = config.m // config.over[0], config.n // config.over[1]
    return warp_m * warp_n / (warp_m * warp_n + 16 * (warp_m + warp_n))
