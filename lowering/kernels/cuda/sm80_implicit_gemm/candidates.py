"""Which configs of an implicit GEMM are considered: tiles, and how often reductions are split.

Of the splits of a tile only the one that is predicted to be the fastest is a candidate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.layout_conversion.copies import copied, copyable
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import (
    Sm80ImplicitGemmConfig,
    blocks_of,
    has_mma,
    refusal,
    splits_f32,
)
from convir.lowering.kernels.cuda.sm80_implicit_gemm.predict import split_times, work
from convir.lowering.kernels.cuda.sm80_implicit_gemm.vector_widths import (
    orientation,
    reduced_of,
    unsupported,
    widths,
)

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

MIN_STEPS = 8
"""A part of a split reduction has at least so many steps: fewer do not pay for adding it."""
MAX_SPLIT = 264
"""The most parts that were measured."""
SPLITS = (2, 3, *((4 + quarter) << power for power in range(6) for quarter in range(4)))
"""Numbers of parts that are tried for any tile: up to 224, a fifth apart or less."""
MOST_WAVES = 4
"""Waves of blocks that parts fill wholly."""

_MMA_TILES = (
    Sm80ImplicitGemmConfig(128, 256, 32, 4, (2, 4)),
    Sm80ImplicitGemmConfig(128, 128, 32, 4, (2, 2)),
    Sm80ImplicitGemmConfig(128, 128, 64, 3, (2, 4)),
    Sm80ImplicitGemmConfig(256, 64, 32, 4, (4, 1)),
    Sm80ImplicitGemmConfig(128, 64, 32, 4, (2, 2)),
    Sm80ImplicitGemmConfig(64, 128, 32, 4, (2, 2)),
    Sm80ImplicitGemmConfig(64, 64, 32, 5, (2, 2)),
    Sm80ImplicitGemmConfig(64, 64, 64, 4, (2, 2)),
    Sm80ImplicitGemmConfig(128, 32, 32, 4, (4, 1)),
    Sm80ImplicitGemmConfig(64, 32, 32, 4, (2, 1)),
    Sm80ImplicitGemmConfig(32, 64, 32, 4, (1, 2)),
    Sm80ImplicitGemmConfig(128, 16, 32, 4, (4, 1)),
    Sm80ImplicitGemmConfig(64, 16, 32, 4, (4, 1)),
    Sm80ImplicitGemmConfig(128, 8, 32, 4, (4, 1)),
    Sm80ImplicitGemmConfig(32, 8, 32, 4, (2, 1)),
)
SPLIT_TILES = (
    Sm80ImplicitGemmConfig(128, 64, 16, 4, (2, 2), products=3),
    Sm80ImplicitGemmConfig(64, 128, 16, 4, (1, 4), products=3),
    Sm80ImplicitGemmConfig(64, 64, 32, 4, (2, 2), products=3),
    Sm80ImplicitGemmConfig(64, 64, 16, 4, (2, 2), products=3),
    Sm80ImplicitGemmConfig(64, 64, 16, 4, (1, 2), products=3),
    Sm80ImplicitGemmConfig(128, 32, 16, 4, (4, 1), products=3),
    Sm80ImplicitGemmConfig(64, 32, 16, 4, (2, 1), products=3),
)
"""Tiles of f32 as three products of TF32."""
_FMA_TILES = (
    Sm80ImplicitGemmConfig(128, 128, 16, 3, (16, 16), is_mma=False),
    Sm80ImplicitGemmConfig(128, 64, 16, 3, (16, 8), is_mma=False),
    Sm80ImplicitGemmConfig(64, 64, 16, 3, (16, 16), is_mma=False),
    Sm80ImplicitGemmConfig(64, 64, 16, 3, (8, 8), is_mma=False),
    Sm80ImplicitGemmConfig(256, 32, 16, 3, (32, 8), is_mma=False),
    Sm80ImplicitGemmConfig(64, 16, 16, 3, (16, 4), is_mma=False),
    Sm80ImplicitGemmConfig(32, 32, 16, 3, (8, 8), is_mma=False),
)
"""Tiles that are considered, where they are legal."""


def plan(
    spec: Contraction, epilogue: Epilogue, gpu: Target
) -> tuple[Sm80ImplicitGemmConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, one for each tile and choice of copies."""
    refused = unsupported(spec)
    if refused is not None:
        return refused
    found: list[Sm80ImplicitGemmConfig] = []
    for operands in _copies(spec):
        on_copies, _ = copied(spec, operands)
        for tile in _tiles(on_copies):
            reason = refusal(on_copies, epilogue, tile, gpu)
            if reason is None:
                split = _best_split(on_copies, epilogue, tile, gpu)
                found.append(replace(split, converted=operands))
            else:
                refused = reason
    return tuple(found) or refused or Refusal("no tile is legal")


def _tiles(spec: Contraction) -> tuple[Sm80ImplicitGemmConfig, ...]:
    """Tiles to choose from; those of TF32 have as many bytes, and so half the input channels."""
    if not has_mma(spec):
        return _FMA_TILES if splits_f32(spec) else (*_FMA_TILES, *SPLIT_TILES)
    return tuple(replace(tile, k=tile.k // 2) for tile in _MMA_TILES) if spec.tf32 else _MMA_TILES


def _copies(spec: Contraction) -> tuple[str, ...]:
    """The operands whose copies are read, as letters: each choice that is considered.

    Tensor cores read copies in wider vectors, more than once. FMA units read those or none, or the
    filter's alone, where that gives a step of the reduction one tap, or its vectors more elements:
    they have no issue slots to spare for addresses.
    """
    if max(phase.taps for phase in spec.phases) == 1:
        return ("",)
    chosen = ""
    inputs = "ab" if spec.result == "C" else "a"
    for operand in (each for each in copyable(spec) if each in inputs):
        before, after = widths(spec), widths(copied(spec, operand)[0])
        wider = after.a > before.a if operand == "a" else after.other > before.other
        chosen += operand if wider or (operand == "b" and chosen) else ""
    if has_mma(spec):
        return ("", "b") if chosen == "b" else (chosen,)
    return tuple(dict.fromkeys(("", "b" if _copies_filter(spec) else "", chosen)))


def _copies_filter(spec: Contraction) -> bool:
    """Whether FMA units gain by a copy of the filter alone."""
    if spec.result != "C" or "b" not in copyable(spec):
        return False
    is_wider = widths(copied(spec, "b")[0]).other > widths(spec).other
    return is_wider or orientation(spec).tap_minor


def _best_split(
    spec: Contraction, epilogue: Epilogue, tile: Sm80ImplicitGemmConfig, gpu: Target
) -> Sm80ImplicitGemmConfig:
    """`tile`, its reduction split as often as is predicted to be the fastest."""
    if len(spec.phases) > 1:
        return tile
    most = min(-(-max(reduced_of(spec)) // tile.k) // MIN_STEPS, MAX_SPLIT)
    whole = work(spec, epilogue, tile, gpu)
    counts = (1, *_splits(blocks_of(spec, tile), most, gpu))
    times = split_times(whole, counts, gpu)
    return replace(tile, splits=min(times, key=lambda parts: times[parts]))


def _splits(blocks: int, most: int, gpu: Target) -> list[int]:
    """Numbers of parts to try: small ones, those that fill whole waves, and some between."""
    waves = {gpu.multiprocessors * wave // blocks for wave in range(1, MOST_WAVES + 1)}
    return sorted(parts for parts in {*SPLITS, *waves, most} if 1 < parts <= most)
