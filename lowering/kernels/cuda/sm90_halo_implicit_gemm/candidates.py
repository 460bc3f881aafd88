"""Which tiles of halos are worth considering."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import (
    INSTRUCTION_ROWS,
    PATCH,
    HaloConfig,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.layout import (
    MOST_BOX,
    layout_of,
    refusal,
    tiles_of,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import halo_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import HaloProblem
    from convir.lowering.kernels.target import Target

MOST_SHAPES = 5
"""Of tiles, those first that waste the fewest products."""
MOST_TILES = 2
"""Instructions that cover a tile."""
STAGES = (4, 3, 2)
CONSUMERS = (4, 3, 2)
CHUNKS = (64, 32)
PARTS = (1, 2, 3, 4)
"""Of an image's line, and of the output channels."""
LEAST_COLUMNS, MOST_COLUMNS = 32, 128
"""Of a part of the output channels."""


def plan(spec: Contraction, epilogue: Epilogue, gpu: Target) -> tuple[HaloConfig, ...] | Refusal:
    """The configs that are legal for `spec` on `gpu`, each with as many stages as fit."""
    problem = halo_problem(spec, epilogue)
    if isinstance(problem, Refusal):
        return problem
    found = tuple(_configs(problem, gpu))
    return found or Refusal(
        f"its weights leave no stages in {gpu.shared_bytes} bytes of shared memory"
    )


def _configs(problem: HaloProblem, gpu: Target) -> Iterator[HaloConfig]:
    shapes = _shapes(problem, gpu)
    for columns, (rows, cols), consumers in product(_columns(problem), shapes, CONSUMERS):
        stores = _stores(problem, columns)
        for chunk, stages, store in product(_chunks(problem), STAGES, stores):
            config = HaloConfig(
                rows, cols, chunk, columns, stages, consumers, store, gpu.multiprocessors
            )
            if refusal(problem, config, gpu) is None:
                yield config
                break


def _columns(problem: HaloProblem) -> list[int]:
    """Output channels of a block: all, or parts of them alike; of phases, those of some."""
    if len(problem.phases) > 1:
        of_phase, count = problem.phase_columns, len(problem.phases)
        return [
            of_phase * size
            for size in range(1, count + 1)
            if count % size == 0 and of_phase * size <= MOST_COLUMNS
        ]
    found = [-(-problem.out_channels // (16 * part)) * 16 for part in PARTS]
    least = min(LEAST_COLUMNS, found[0])
    return [n for n in dict.fromkeys(found) if least <= n <= MOST_COLUMNS]


def _chunks(problem: HaloProblem) -> list[int]:
    """Input channels of a stage, first those of the fewest stages and empty channels."""
    channels = problem.in_channels
    padded = {chunk: -(-channels // chunk) * chunk for chunk in CHUNKS}
    return [chunk for chunk in CHUNKS if padded[chunk] < min(channels + 32, 2 * channels)] or [16]


def _stores(problem: HaloProblem, columns: int) -> list[int]:
    """Columns that may be staged at a time, the longest runs of C first."""
    if len(problem.phases) > 1:
        of_phase = problem.phase_columns
        columns = min(columns, of_phase * (problem.run if of_phase == problem.out_channels else 1))
    return [n for n in range(columns, 0, -16) if columns % n == 0 and n in (columns, 64, 32, 16)]


def _shapes(problem: HaloProblem, gpu: Target) -> list[tuple[int, int]]:
    """Rows and columns of tiles, those first of which most of the products are stored."""
    width, height, *_ = problem.sizes
    span = problem.span[0] // problem.pitch[0]
    shapes = [(PATCH * tiles, PATCH) for tiles in range(1, MOST_TILES + 1)]
    for part, tiles in product(PARTS, range(1, MOST_TILES + 1)):
        room = INSTRUCTION_ROWS * tiles
        cols = min(-(-width // part), room, MOST_BOX - span)
        rows = (room - cols) // (cols + span) + 1
        shapes.append((min(rows, height), cols))

    def waste(shape: tuple[int, int]) -> tuple[int, int]:
        config = HaloConfig(*shape, 16, 16, 2, 2, 16, gpu.multiprocessors)
        layout = layout_of(problem, config)
        across, down, _ = tiles_of(problem, config)
        return across * down * layout.tiles, -layout.tiles

    return sorted(dict.fromkeys(shapes), key=waste)[:MOST_SHAPES]
