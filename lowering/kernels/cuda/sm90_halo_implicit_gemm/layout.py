"""Tiles of halos: what lies where in shared memory, and what fits."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import (
    INSTRUCTION_ROWS,
    PATCH,
)

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import HaloProblem
    from convir.lowering.kernels.target import Target

MOST_BOX = 256
"""Elements of a box along an axis."""
MOST_ACCUMULATORS = {2: 64, 3: 64, 4: 48}
"""Of a thread, by how many warpgroups share the registers."""
MOST_CHUNK_COLUMNS = 384
"""Columns of a tile's instructions and chunks, up to which accumulators stay in registers."""
PARTS = 4
"""Of the matrices of a chunk, which arrive one after the other."""
_ATOM_BYTES, _CHUNK_BYTES, _BARRIER_BYTES = 1024, 16, 8


@dataclass(frozen=True)
class Layout:
    """A tile of output pixels as rows of products, and its halo as a box of pixels.

    Row m of the product is output pixel (m // line, m % line); it reads the pixel of the box that
    lies `m // 8 * group + m % 8` behind a tap's own.
    """

    box: tuple[int, int, int]
    """Pixels along the axes, innermost first."""
    line: int
    """Rows of the product between two lines of output pixels."""
    group: int
    """Pixels of the box between two groups of eight rows."""
    tiles: int
    """Instructions that cover the rows."""

    @staticmethod
    def of(problem: HaloProblem, config: HaloConfig) -> Layout:
        """The layout of a config."""
        span = problem.span
        box = (config.cols + span[0], config.rows + span[1], 1 + span[2])
        line = PATCH if config.is_patch else box[0]
        rows = (config.rows - 1) * line + config.cols
        group = box[0] if config.is_patch else PATCH
        return Layout(box, line, group, -(-rows // INSTRUCTION_ROWS))

    def shift(self, at: tuple[int, ...]) -> int:
        """Pixels of the box from its first one to a tap's."""
        return (at[2] * self.box[1] + at[1]) * self.box[0] + at[0]

    def pixels(self, span: tuple[int, ...]) -> int:
        """Pixels of the box, and those behind it that rows without output pixels read."""
        rows = self.tiles * INSTRUCTION_ROWS
        last = (rows // 8 - 1) * self.group + 7 + self.shift(span)
        return max(prod(self.box), last + 1)


def tiles_of(problem: HaloProblem, config: HaloConfig) -> tuple[int, int, int]:
    """Tiles of an image along the axes, innermost first."""
    cols, rows, slices, _ = problem.sizes
    return -(-cols // config.cols), -(-rows // config.rows), slices


def column_tiles(problem: HaloProblem, config: HaloConfig) -> int:
    """Parts of the output channels; a block has one of them."""
    return -(-problem.out_channels // config.columns)


def chunks_of(problem: HaloProblem, config: HaloConfig) -> int:
    """Parts of the input channels, each a box of its own."""
    return -(-problem.in_channels // config.chunk)


def block_columns(config: HaloConfig) -> int:
    """Output channels that are contiguous in shared memory, where B has those innermost."""
    return next(width for width in (64, 32, 16) if config.columns % width == 0)


def stage_bytes(problem: HaloProblem, config: HaloConfig) -> int:
    """Of a chunk of a halo."""
    pixels = Layout.of(problem, config).pixels(problem.span)
    return -(-pixels * config.row_bytes // _ATOM_BYTES) * _ATOM_BYTES


def weight_bytes(problem: HaloProblem, config: HaloConfig) -> int:
    """Of the matrices of B that a block keeps."""
    return len(problem.taps) * chunks_of(problem, config) * config.columns * config.row_bytes


def shared_bytes(problem: HaloProblem, config: HaloConfig) -> int:
    """Dynamic shared memory of a block."""
    stages = config.consumers * config.stages * stage_bytes(problem, config)
    staged = config.consumers * INSTRUCTION_ROWS * (config.store_channels * 2 + _CHUNK_BYTES)
    parts = chunks_of(problem, config) * min(len(problem.taps), PARTS)
    barriers = (2 * config.consumers * config.stages + parts) * _BARRIER_BYTES
    return _ATOM_BYTES + stages + weight_bytes(problem, config) + staged + barriers


def refusal(problem: HaloProblem, config: HaloConfig, target: Target) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    layout = Layout.of(problem, config)
    if max(layout.box) > MOST_BOX:
        return Refusal(f"a halo of {layout.box} pixels is no box of at most {MOST_BOX}")
    held = layout.tiles * config.columns // 2
    if held > MOST_ACCUMULATORS[config.consumers]:
        return Refusal(f"{held} accumulators of a thread exceed its registers")
    if layout.tiles * config.columns * chunks_of(problem, config) > MOST_CHUNK_COLUMNS:
        return Refusal("its chunks are too many: accumulators would lie in local memory")
    if config.columns % config.store_channels:
        return Refusal(f"{config.store_channels} staged channels do not divide {config.columns}")
    if column_tiles(problem, config) > config.blocks:
        return Refusal("there are fewer blocks than parts of the output channels")
    return target.shared_refusal(shared_bytes(problem, config))
