"""Which config of an implicit GEMM is tried first: waves of blocks, and what a block costs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copyable
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import (
    ImplicitGemmConfig,
    blocks_of,
    has_mma,
    refusal,
)
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    reduced_of,
    rows_of,
    unsupported,
    widths,
)

if TYPE_CHECKING:
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

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
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[ImplicitGemmConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, by falling estimate of their speed."""
    refused = unsupported(spec)
    if refused is not None:
        return refused
    copies = _copies(spec)
    spec, _ = copied(spec, copies)
    tiles = _tiles(spec)
    refusals = [refusal(spec, epilogue, tile, gpu) for tile in tiles]
    legal = [tile for tile, refused in zip(tiles, refusals, strict=True) if refused is None]
    if not legal:
        return refusals[-1] or Refusal("no tile is legal")
    best = [_best_split(spec, replace(tile, copies=copies), gpu) for tile in legal]
    return tuple(sorted(best, key=lambda config: _cost(spec, config, gpu)))


def _tiles(spec: Contraction) -> tuple[ImplicitGemmConfig, ...]:
    """Tiles to choose from; those of TF32 have as many bytes, and so half the depths."""
    if not has_mma(spec):
        return _FMA_TILES
    return tuple(replace(tile, k=tile.k // 2) for tile in _MMA_TILES) if spec.tf32 else _MMA_TILES


def _copies(spec: Contraction) -> str:
    """The operands whose copies are read in wider vectors, by tensor cores, more than once."""
    if not has_mma(spec) or max(phase.taps for phase in spec.phases) == 1:
        return ""
    chosen = ""
    inputs = "ab" if spec.result == "C" else "a"
    for operand in (each for each in copyable(spec) if each in inputs):
        before, after = widths(spec), widths(copied(spec, operand)[0])
        wider = after.a > before.a if operand == "a" else after.other > before.other
        chosen += operand if wider or (operand == "b" and chosen) else ""
    return chosen


def _best_split(spec: Contraction, tile: ImplicitGemmConfig, gpu: Target) -> ImplicitGemmConfig:
    """`tile`, its reduction split as often as costs least: blocks then come out in whole waves."""
    if len(spec.phases) > 1:
        return tile
    most = min(-(-max(reduced_of(spec)) // tile.k) // MIN_STEPS, MAX_SPLIT)
    configs = [replace(tile, split=parts) for parts in range(1, max(1, most) + 1)]
    return min(configs, key=lambda config: _cost(spec, config, gpu))


def _cost(spec: Contraction, config: ImplicitGemmConfig, gpu: Target) -> float:
    """Time in units of one multiplication on one multiprocessor, roughly.

    A block's steps cost multiplications at the rate that its tile allows, and copies; it pays once
    more to store. The multiprocessor with the most blocks decides; one that has a single block
    has nothing to do while that block waits.
    """
    vectors = widths(spec)
    elements = config.k * (config.m * _copy_cost(vectors.a) + config.n * _copy_cost(vectors.other))
    wide = _TF32_COST if config.is_mma and spec.tf32 else 1
    multiply = wide * config.m * config.n * config.k / _efficiency(config)
    step = max(multiply + elements, wide * _BANDWIDTH_COST * config.k * (config.m + config.n))
    columns = -(-spec.columns // config.n)
    total, blocks = 0.0, 0
    for rows, reduced in zip(rows_of(spec), reduced_of(spec), strict=True):
        phase = -(-rows // config.m) * spec.groups * columns * config.split
        steps = ceil(ceil(reduced / config.k) / config.split)
        total += phase * (steps * step + _STORE_COST * config.m * config.n)
        blocks += phase
    waves = blocks / gpu.multiprocessors
    slots = max(1, min(_MAX_SLOTS, _RESIDENT_SUMS // (config.m * config.n)))
    full, rest = divmod(ceil(waves), slots) if len(spec.phases) == 1 else (waves / slots, 1)
    time = total / blocks * (full * slots * (1 if slots > 1 else _ALONE) + rest * _ALONE)
    parts = config.split * config.m * config.n * blocks_of(spec, config) / gpu.multiprocessors
    return time + (_ADDING_COST * parts + _LAUNCH_COST if config.split > 1 else 0)


def _copy_cost(width: int) -> float:
    """What it costs to address and copy one element, in vectors of `width`."""
    return _ELEMENT_COST + _VECTOR_COST / width


_ELEMENT_COST, _VECTOR_COST = 8.0, 48.0
"""Multiplications in the time in which an element, and a vector, is issued."""
_BANDWIDTH_COST = 40.0
"""The same for an element that comes from L2."""
_TF32_COST = 2
"""How much longer tensor cores take for a product of TF32, which has twice the bytes."""
_FMA_COST = 7.3
"""How much longer a product of f32 takes than one of tensor cores."""
_LOADED_SUMS = 6.0
"""Multiplications in the time in which a thread reads its operands of one step: as measured, tiles
of 16 sums a thread take 1.25 times as long as tiles of 64."""
_STORE_COST = 100.0
"""The same for one result: its sum is staged, converted and stored."""
_ADDING_COST = 250.0
"""The same for one sum of a part, written and read again."""
_LAUNCH_COST = 3.0e6
_ALONE = 1.4
"""How much longer a block takes where its multiprocessor has fewer blocks than it could hold."""
_RESIDENT_SUMS = 1 << 15
"""Sums for which a multiprocessor has registers."""
_MAX_SLOTS = 4
"""Blocks beyond which no more waiting is hidden."""


def _efficiency(config: ImplicitGemmConfig) -> float:
    """The part of the peak that a warp's tile reaches, which reads each operand once a step."""
    if not config.is_mma:
        return config.sums / (config.sums + _LOADED_SUMS) / _FMA_COST
    warp_m, warp_n = config.m // config.over[0], config.n // config.over[1]
    return warp_m * warp_n / (warp_m * warp_n + 16 * (warp_m + warp_n))
