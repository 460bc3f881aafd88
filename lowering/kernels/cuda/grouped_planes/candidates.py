"""`grouped_planes`: the configs worth considering."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.grouped_planes.config import GroupedPlanesConfig
from convir.lowering.kernels.cuda.grouped_planes.launch import refusal
from convir.lowering.kernels.cuda.grouped_planes.predict import time_of, work_of
from convir.lowering.kernels.cuda.grouped_planes.problem import layout, read, whole_chunks
from convir.lowering.kernels.cuda.prediction.fastest import fastest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_planes.problem import PlanesForm
    from convir.lowering.kernels.target import Target

FEW = 6
"""Configs that are considered: the fastest by prediction."""
MOST_SEGMENT = 8
SEGMENTS = (1, 2, 4, 8)
ROWS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 56)
IMAGES = (1, 2, 4, 8)
GROUPS = (1, 2, 4)
CHANNELS = (8, 16, 32)
WARPS = (4, 6, 7, 8)
BLOCKS = ((1, 4), (1, 6), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (3, 2), (3, 3))
"""Stages, and blocks of a multiprocessor."""


def plan(
    contraction: Contraction, epilogue: Epilogue, target: Target
) -> tuple[GroupedPlanesConfig, ...] | Refusal:
    """The configs for a contraction, best first, or why there are none."""
    found = read(contraction, epilogue)
    if isinstance(found, Refusal):
        return found
    problem, form = found

    def judged(config: GroupedPlanesConfig) -> float | Refusal:
        tile = layout(problem, form, config)
        refused = refusal(problem, form, config, tile, target)
        if refused is not None:
            return refused
        return time_of(work_of(problem, form, config, tile, epilogue, target), target)

    return fastest(_shapes(problem, form), judged, FEW)


def _shapes(problem: DirectProblem, form: PlanesForm) -> Iterator[GroupedPlanesConfig]:
    chunks = whole_chunks(problem)
    segment = ceil(chunks / ceil(chunks / MOST_SEGMENT))
    widths = [count for count in SEGMENTS if count == 1 or (count - 1) * segment < chunks]
    channels = [count for count in CHANNELS if form.out_channels % count == 0]
    groups = [count for count in GROUPS if form.groups % count == 0]
    for unroll, rows in _rows(problem.row_count):
        images = [
            count
            for count in IMAGES
            if count == 1 or (count <= problem.images.value and rows >= problem.row_count)
        ]
        for segments in widths:
            for count in images:
                for octets in channels:
                    for of_block in groups:
                        for warps in WARPS:
                            for stages, resident in BLOCKS:
                                yield GroupedPlanesConfig(
                                    rows,
                                    segment,
                                    segments,
                                    of_block,
                                    count,
                                    octets,
                                    unroll,
                                    warps,
                                    stages,
                                    resident,
                                )


def _rows(rows: int) -> Iterator[tuple[int, int]]:
    """Output rows for which a row of A is read once, and those of a tile."""
    for unroll in (1, 2, 4):
        whole = ceil(rows / unroll) * unroll
        found = {min(whole, ceil(count / unroll) * unroll) for count in ROWS}
        for count in sorted(found):
            if unroll <= max(1, rows):
                yield unroll, count
