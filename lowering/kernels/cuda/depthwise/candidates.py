"""`depthwise`: the configs worth considering."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.depthwise.config import CHUNK, DepthwiseConfig
from convir.lowering.kernels.cuda.depthwise.launch import refusal
from convir.lowering.kernels.cuda.depthwise.predict import time_of, work_of
from convir.lowering.kernels.cuda.depthwise.problem import layout, read
from convir.lowering.kernels.cuda.prediction.fastest import fastest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.depthwise.problem import DepthwiseForm, TileLayout
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.target import Target

FEW = 6
"""Configs that are considered: the fastest by prediction."""
CHANNEL_BYTES = (32, 64, 128)
"""Of a pixel of a tile, channels last: a sector at least."""
PLANAR_CHANNELS = (1, 2, 4, 8, 16)
COLS = (32, 64, 128, 256, 512)
UNROLLS = (1, 2, 4, 7, 8)
ROW_GROUPS = (1, 2, 4, 8)
IMAGES = (1, 2, 4, 8, 16)
BLOCKS = ((8, 1), (8, 2), (8, 3), (8, 4), (4, 6))
"""Warps, and blocks of a multiprocessor."""
MOST_STRIPS = 128


def plan(
    contraction: Contraction, epilogue: Epilogue, target: Target
) -> tuple[DepthwiseConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why there are none."""
    found = read(contraction, epilogue)
    if isinstance(found, Refusal):
        return found
    problem, form = found

    @cache
    def tile_of(alone: DepthwiseConfig) -> TileLayout:
        return layout(problem, form, alone)

    def judged(config: DepthwiseConfig) -> float | Refusal:
        tile = tile_of(replace(config, resident=1))  # which a tile does not depend on
        refused = refusal(problem, form, config, tile, target)
        if refused is not None:
            return refused
        return time_of(work_of(problem, form, config, tile, epilogue, target), target)

    return fastest(_shapes(problem, form), judged, FEW)


def _shapes(problem: DirectProblem, form: DepthwiseForm) -> Iterator[DepthwiseConfig]:
    rows, cols = problem.row_count, problem.col_count
    whole = -(-cols // CHUNK) * CHUNK
    widths = {min(whole, width) for width in COLS}
    # As many tiles of the same width, and little of them beside the image.
    widths = {ceil(cols / ceil(cols / width) / CHUNK) * CHUNK for width in widths}
    unrolls = {min(unroll, rows) for unroll in UNROLLS}
    is_planar = form.a_planar or form.c_planar
    spec = problem.contraction
    unit = form.unit(spec)
    size = STORAGE_BYTES[spec.a.type]
    counts = PLANAR_CHANNELS if is_planar else [nbytes // size for nbytes in CHANNEL_BYTES]
    every = spec.groups * spec.out_channels
    channels = {-(-min(count, every) // unit) * unit for count in counts}
    for width in sorted(widths):
        for unroll in sorted(unrolls):
            for row_groups in ROW_GROUPS:
                if (row_groups - 1) * unroll >= rows:
                    continue
                for images in IMAGES:
                    if images > 1 and (images > problem.images.value or row_groups * unroll < rows):
                        continue
                    if images * row_groups * width // CHUNK > MOST_STRIPS:
                        continue
                    for count in sorted(channels):
                        for warps, resident in BLOCKS:
                            yield DepthwiseConfig(
                                row_groups * unroll, width, images, count, unroll, warps, resident
                            )
