"""Sets of taps that one instruction multiplies: they lie equally far apart in a halo."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import ELEMENT_BYTES, INSTRUCTION_ROWS

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import HaloWgradConfig
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import HaloWgradProblem

_ATOM_BYTES, _BARRIER_BYTES, _VECTOR_BYTES = 1024, 8, 16
MOST_COLUMNS = 256
"""Of an instruction."""


@dataclass(frozen=True)
class TapSet:
    """Taps `apart` pixels of the halo from each other, the first one at `pixel`."""

    pixel: int
    apart: int
    taps: tuple[int | None, ...]
    """Their elements of B; None where another set has the tap, or there is none."""


@lru_cache(maxsize=256)
def sets_of(taps: tuple[tuple[int, int], ...], of_set: int) -> tuple[TapSet, ...]:
    """Few sets of `of_set` taps each that have all of `taps`, pixels and elements of B by pixels.

    One after the other the set that has the most of what is left.
    """
    elements = dict(taps)
    pixels = sorted(elements)
    left = dict(elements)
    found: list[TapSet] = []
    while left:
        best = max(
            (
                (sum(pixel + i * apart in left for i in range(of_set)), -apart, -pixel)
                for pixel in pixels
                for apart in {other - pixel for other in pixels if other > pixel} or {1}
            ),
        )
        pixel, apart = -best[2], -best[1]
        members = tuple(left.pop(pixel + i * apart, None) for i in range(of_set))
        found.append(TapSet(pixel, apart, members))
    return tuple(found)


def tap_sets(problem: HaloWgradProblem, config: HaloWgradConfig) -> tuple[TapSet, ...]:
    """The sets of a config."""
    line = config.cols + problem.span[0]
    taps = tuple((y * line + x, element) for (x, y), element in problem.taps.items())
    return sets_of(taps, config.taps_of_set)


def columns_of(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """Of an instruction."""
    return len(problem.shifts) * config.channels[1]


def channel_tiles(problem: HaloWgradProblem, config: HaloWgradConfig) -> tuple[int, int]:
    """Parts of the channels of A, and of C."""
    a, c = config.channels
    return -(-problem.in_channels // a), -(-problem.out_channels // c)


def owners_of(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """Blocks whose elements of B differ."""
    a, c = channel_tiles(problem, config)
    return a * c * config.parts


def tiles_of(problem: HaloWgradProblem, config: HaloWgradConfig) -> tuple[int, int, int]:
    """Tiles of an image along each axis: of C, and along the axis of shifts of A."""
    x, y, z = problem.axes
    return -(-x.size // config.cols), -(-y.size // config.rows), -(-z.extent // config.depth)


def tile_count(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """Of all images."""
    x, y, z = tiles_of(problem, config)
    return problem.images.value * x * y * z


def splits_of(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """Blocks that share the tiles."""
    return min(config.blocks // owners_of(problem, config), tile_count(problem, config))


def box_pixels(problem: HaloWgradProblem, config: HaloWgradConfig) -> tuple[int, int]:
    """Pixels of a stage, of A and of C."""
    x, y, z = problem.span
    of_a = (config.cols + x) * (config.rows + y) * config.depth
    return of_a, config.cols * config.rows * (config.depth + z)


def stage_bytes(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """Of both boxes."""
    pixels = zip(box_pixels(problem, config), config.channels, strict=True)
    sizes = [count * channels * ELEMENT_BYTES for count, channels in pixels]
    return sum(-(-size // _ATOM_BYTES) * _ATOM_BYTES for size in sizes)


def sets_of_block(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """The most sets of a block."""
    count = len(tap_sets(problem, config))
    ends = [part * count // config.parts for part in range(config.parts + 1)]
    return max(end - begin for begin, end in pairwise(ends))


def sets_of_thread(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """The most sets of a warpgroup."""
    return -(-len(tap_sets(problem, config)) // (config.parts * config.consumers))


def part_bytes(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """What a block publishes."""
    sums = INSTRUCTION_ROWS * columns_of(problem, config)
    return sets_of_block(problem, config) * sums * 4


def shared_bytes(problem: HaloWgradProblem, config: HaloWgradConfig) -> int:
    """Dynamic shared memory of a block: stages, where a vector of each thread lies in the end."""
    stages = config.stages * stage_bytes(problem, config)
    vectors = config.consumers * 128 * _VECTOR_BYTES
    return _ATOM_BYTES + max(stages, vectors) + 2 * config.stages * _BARRIER_BYTES
