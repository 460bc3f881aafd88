"""The configs of `reduction` that are worth considering for a problem."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.reduction.config import MOST_HELD, MOST_THREADS, ReductionConfig
from convir.lowering.kernels.cuda.reduction.launch import BATCH, WARP, refusal, units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.kernels.cuda.reduction.problem import Rows
    from convir.lowering.kernels.target import Target

BLOCK = (128, 256)
"""Threads of a block whose rows are of fewer."""
STREAMED = (256, 512, 1024)
BLOCKS = (2, 4, 8)
"""Of a multiprocessor, where blocks share rows."""
LEAST_POSITIONS = BATCH
"""Of a thread of a block that shares rows."""
COLUMNS = (4, 8, 16, 32)
"""Neighbouring vectors of a block."""
CLUSTERED_COLUMNS = (2, *COLUMNS)
CLUSTERS = (2, 4, 8)
CLUSTER_THREADS = (256, 512)
"""Of a block."""
CLUSTERED_BLOCKS = 4
"""Of a multiprocessor at most: more of them have their rows for themselves."""


def candidates(rows: Rows, target: Target) -> tuple[ReductionConfig, ...]:
    """Legal configs, each once."""
    found = _along(rows, target) if rows.is_along else _across(rows, target)
    every = (*found, *_clustered(rows, target))
    legal = (config for config in every if refusal(rows, config, target) is None)
    return tuple(dict.fromkeys(legal))


def _along(rows: Rows, target: Target) -> Iterator[ReductionConfig]:
    x = 4
    while x <= MOST_THREADS:
        held = -(-rows.positions // x)
        if held <= MOST_HELD and (held > 1 or x == 4 or 2 * rows.positions > x):
            for threads in BLOCK:
                yield ReductionConfig(x, max(1, threads // x), held)
        x *= 2
    for threads in STREAMED:
        for splits in _splits(rows, target, rows.images, threads):
            yield ReductionConfig(threads, 1, 0, splits)


def _across(rows: Rows, target: Target) -> Iterator[ReductionConfig]:
    for most in COLUMNS:
        x = _tile(rows, most)
        tiles = -(-rows.columns // x)
        for threads in STREAMED:
            y = _sharing(x, threads)
            yield ReductionConfig(x, y, max(1, min(MOST_HELD, -(-rows.positions // y))))
            for splits in _splits(rows, target, rows.images * tiles, y):
                yield ReductionConfig(x, y, 0, splits)


def _clustered(rows: Rows, target: Target) -> Iterator[ReductionConfig]:
    """Rows so few that a block for each of them leaves multiprocessors without one."""
    for threads in CLUSTER_THREADS:
        for blocks in CLUSTERS:
            for x, y in _shapes(rows, threads):
                sharing = x if rows.is_along else y
                held = -(-rows.positions // (sharing * blocks))
                config = ReductionConfig(x, y, min(MOST_HELD, held), cluster=blocks)
                if units(rows, config) * blocks <= CLUSTERED_BLOCKS * target.multiprocessors:
                    yield config


def _shapes(rows: Rows, threads: int) -> Iterator[tuple[int, int]]:
    """Threads of a block, as configs have them."""
    if rows.is_along:
        yield threads, 1
        return
    for most in CLUSTERED_COLUMNS:
        x = _tile(rows, most)
        yield x, _sharing(x, threads)


def _sharing(x: int, threads: int) -> int:
    """Threads for each of `x` columns, of whole warps."""
    y = WARP // gcd(x, WARP)
    while 2 * y * x <= threads:
        y *= 2
    return y


def _tile(rows: Rows, most: int) -> int:
    """Columns of a block: even shares of all, of whole runs."""
    tiles = -(-rows.columns // most)
    x = -(-rows.columns // tiles)
    while x * rows.width % rows.run:
        x += 1
    return x


def _splits(rows: Rows, target: Target, units: int, sharing: int) -> Iterator[int]:
    """Into how many parts a row is cut: one, or so many that blocks fill the GPU and the threads of
    each read whole batches."""
    yield 1
    most = rows.positions // (sharing * LEAST_POSITIONS)
    for blocks in BLOCKS:
        wanted = min(most, -(-target.multiprocessors * blocks // units))
        if wanted > 1:
            batches = max(1, round(rows.positions / (wanted * sharing * BATCH)))
            yield max(2, -(-rows.positions // (batches * sharing * BATCH)))
