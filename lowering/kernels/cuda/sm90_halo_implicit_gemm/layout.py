"""Tiles of halos: what lies where in shared memory, and what fits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.result_planes import MOST_ELEMENTS, NO_PLANES, ResultPlanes
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import (
    INSTRUCTION_ROWS,
    PATCH,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import PAIR

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import HaloProblem
    from convir.lowering.kernels.target import Target

MOST_BOX = 256
"""Elements of a box along an axis."""
MOST_BOXES = 16
"""Tensor maps of A, and boxes of a stage."""
MOST_ACCUMULATORS = {2: 64, 3: 64, 4: 48}
"""Of a thread, by how many warpgroups share the registers."""
MOST_PHASE_ACCUMULATORS = {2: 128, 3: 64, 4: 48}
"""The same where an instruction has the columns of some phases alone."""
MOST_CHUNK_COLUMNS = 384
"""Columns of a tile's instructions and chunks, up to which accumulators stay in registers."""
BOX_LINES = 2
"""Of a patch, that are rows of a warp."""
PARTS = 4
"""Of the matrices of a chunk, which arrive one after the other."""
PATTERN = 8
"""Pixels after which the pattern of any swizzle repeats: boxes begin with it."""
_ATOM_BYTES, _CHUNK_BYTES, _BARRIER_BYTES = 1024, 16, 8


@dataclass(frozen=True)
class Plane:
    """The pixels of A that have one remainder by the pitch, along each axis: what is the distance
    of a pitch in A is one of a pixel here."""

    first: tuple[int, ...]
    """The first pixel of A."""
    at: tuple[int, ...]
    """The plane's pixel that the box of output pixel 0 begins with."""
    extents: tuple[int, ...]
    """Pixels along each axis."""


@dataclass(frozen=True)
class Box:
    """The part of a stage that one copy fills; axes innermost first."""

    pixels: tuple[int, int, int]
    start: int
    """Pixels of the stage before it."""


@dataclass(frozen=True)
class Tap:
    """What a tap multiplies of a stage."""

    shift: int
    """Pixels of the stage to its first one."""
    group: int
    """Pixels of the box between two groups of eight rows."""


@dataclass(frozen=True)
class Layout:
    """A tile of output pixels as rows of products, and its halo as boxes of pixels.

    Row m of the product is output pixel (m // line, m % line); it reads the pixel of the box that
    lies `m // 8 * group + m % 8` behind a tap's own. Where output pixels read neighbours there is
    one box of all taps. With strides a stage has the taps of one slice of A, and a box for each
    remainder of their distances along the other axes.
    """

    boxes: tuple[Box, ...]
    slices: tuple[tuple[Plane, ...], ...]
    """Stages of a chunk: for each box what it is filled from."""
    taps: tuple[Tap, ...]
    line: int
    """Rows of the product between two lines of output pixels."""
    tiles: int
    """Instructions that cover the rows."""
    pixels: int
    """Of a stage, those behind its last box that rows without output pixels read among them."""

    @cached_property
    def planes(self) -> tuple[Plane, ...]:
        """One for each tensor map."""
        found = {plane.first: plane for planes in self.slices for plane in planes}
        return tuple(found.values())

    @cached_property
    def refusal(self) -> Refusal | None:
        """Why no config has it; None if some may."""
        if any(max(box.pixels) > MOST_BOX for box in self.boxes):
            return Refusal(
                f"a halo of {self.boxes[0].pixels} pixels is no box of at most {MOST_BOX}"
            )
        if len(self.planes) > MOST_BOXES:
            return Refusal(f"{len(self.planes)} boxes of a halo are more than {MOST_BOXES}")
        if any(min(plane.extents) < 1 for plane in self.planes):
            return Refusal("all that some taps read lies outside of A")
        return None

    @property
    def halo(self) -> int:
        """Pixels that are copied for a tile."""
        return len(self.slices) * sum(prod(box.pixels) for box in self.boxes)

    @staticmethod
    @lru_cache(maxsize=256)
    def of(problem: HaloProblem, rows: int, cols: int) -> Layout:
        """The layout of tiles of `rows` and `cols`."""
        is_patch = cols == PATCH and rows % PATCH == 0
        pitch = problem.pitch
        slices = list(dict.fromkeys(at[2] if problem.is_strided else 0 for at, _ in problem.taps))
        places = [at for at, _ in problem.taps]
        rests = list(dict.fromkeys((at[0] % pitch[0], at[1] % pitch[1]) for at in places))
        spans = [_span(problem, rest) for rest in rests]
        widest = max(span[0] for span in spans)
        boxes: list[Box] = []
        start = 0
        for span in spans:
            pixels = (cols + (span[0] if is_patch else widest), rows + span[1], 1 + span[2])
            boxes.append(Box(pixels, start))
            start += -(-prod(pixels) // PATTERN) * PATTERN
        line = PATCH if is_patch else boxes[0].pixels[0]
        taps: list[Tap] = []
        for at in places:
            box = boxes[rests.index((at[0] % pitch[0], at[1] % pitch[1]))]
            z = 0 if problem.is_strided else at[2]
            shift = (z * box.pixels[1] + at[1] // pitch[1]) * box.pixels[0] + at[0] // pitch[0]
            taps.append(Tap(box.start + shift, box.pixels[0] if is_patch else PATCH))
        tiles = -(-((rows - 1) * line + cols) // INSTRUCTION_ROWS)
        groups = tiles * INSTRUCTION_ROWS // 8 - 1
        read = max(tap.shift + groups * tap.group + 8 for tap in taps)
        return Layout(
            tuple(boxes),
            tuple(tuple(_plane(problem, (*rest, z)) for rest in rests) for z in slices),
            tuple(taps),
            line,
            tiles,
            max(start, read),
        )


def _span(problem: HaloProblem, rest: tuple[int, int]) -> tuple[int, int, int]:
    """Pixels of a plane from the first that a tap reads to the last, along each axis."""
    pitch = problem.pitch
    mine = [at for at, _ in problem.taps if (at[0] % pitch[0], at[1] % pitch[1]) == rest]
    depth = 0 if problem.is_strided else max(at[2] for at in mine)
    return max(at[0] // pitch[0] for at in mine), max(at[1] // pitch[1] for at in mine), depth


def _plane(problem: HaloProblem, place: tuple[int, ...]) -> Plane:
    """The plane of the pixels that lie `place` from the corner."""
    pixels = [corner + i for corner, i in zip(problem.corner, place, strict=True)]
    at, first = zip(*map(divmod, pixels, problem.pitch), strict=True)
    extents = problem.extents[:3]
    steps = zip(extents, first, problem.pitch, strict=True)
    return Plane(first, at, tuple(-(-(extent - i) // pitch) for extent, i, pitch in steps))


def layout_of(problem: HaloProblem, config: HaloConfig) -> Layout:
    """The layout of a config."""
    return Layout.of(problem, config.rows, config.cols)


def tiles_of(problem: HaloProblem, config: HaloConfig) -> tuple[int, int, int]:
    """Tiles of an image along the axes, innermost first."""
    cols, rows, slices, _ = problem.sizes
    return -(-cols // config.cols), -(-rows // config.rows), slices


def planes_of(problem: HaloProblem, config: HaloConfig) -> ResultPlanes:
    """How C is stored: runs of a line's output pixels, as far as a tile and an image have them."""
    if problem.channel_stride == 1:
        return NO_PLANES
    pairs = problem.run == PAIR and config.store_channels == PAIR * phase_columns(problem, config)
    step = PAIR if pairs else 1
    if problem.strides[0] != step:
        return ResultPlanes(problem.channel_stride)
    lines = [sizes[0] for sizes, _ in problem.phases]
    lines += [layout_of(problem, config).line] if config.rows > 1 else []
    run = gcd(MOST_ELEMENTS // step, config.cols, *lines)
    offsets = [offset for _, offset in problem.phases[::step]]
    run = gcd(run * step, problem.channel_stride, *problem.strides[1:], *offsets) // step
    steps = (problem.channel_stride, *problem.strides[1:], *offsets)
    has_boxes = config.is_patch and len(problem.phases) == 1
    has_boxes = has_boxes and not any(stride % MOST_ELEMENTS for stride in steps)
    lines = BOX_LINES if has_boxes else 0
    return ResultPlanes(problem.channel_stride, run, pairs, lines=lines)


def phases_of_group(problem: HaloProblem, config: HaloConfig) -> int:
    """Phases whose columns are one instruction's."""
    return 1 if len(problem.phases) == 1 else config.columns // problem.phase_columns


def groups_of(problem: HaloProblem, config: HaloConfig) -> int:
    """Instructions that have the columns of all phases."""
    return len(problem.phases) // phases_of_group(problem, config)


def phase_columns(problem: HaloProblem, config: HaloConfig) -> int:
    """Columns of an instruction that are a phase's."""
    return config.columns // phases_of_group(problem, config)


def used_groups(problem: HaloProblem, config: HaloConfig) -> tuple[tuple[int, ...], ...]:
    """For each tap the groups of phases of which some have it."""
    return _used_groups(problem, phases_of_group(problem, config))


@lru_cache(maxsize=256)
def _used_groups(problem: HaloProblem, size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(sorted({phase // size for phase, matrix in enumerate(each) if matrix is not None}))
        for _, each in problem.taps
    )


def products_of(problem: HaloProblem, config: HaloConfig) -> int:
    """Instructions along the reduction, of 64 rows of a tile and of all groups."""
    return problem.steps * sum(map(len, used_groups(problem, config)))


def column_tiles(problem: HaloProblem, config: HaloConfig) -> int:
    """Parts of the output channels; a block has one of them."""
    return 1 if len(problem.phases) > 1 else -(-problem.out_channels // config.columns)


def chunks_of(problem: HaloProblem, config: HaloConfig) -> int:
    """Parts of the input channels, each a box of its own."""
    return -(-problem.in_channels // config.chunk)


def block_columns(problem: HaloProblem, config: HaloConfig) -> int:
    """Output channels that are contiguous in shared memory, where B has those innermost."""
    columns = phase_columns(problem, config)
    return next(width for width in (64, 32, 16) if columns % width == 0)


def stage_bytes(problem: HaloProblem, config: HaloConfig) -> int:
    """Of a chunk of a halo, or of its slice, up to where the swizzle's pattern repeats."""
    pixels = layout_of(problem, config).pixels
    return -(-pixels // PATTERN) * PATTERN * config.row_bytes


def weight_bytes(problem: HaloProblem, config: HaloConfig) -> int:
    """Of the matrices of B that a block keeps."""
    matrices = chunks_of(problem, config) * sum(map(len, used_groups(problem, config)))
    return matrices * config.columns * config.row_bytes


def parts_of(problem: HaloProblem, config: HaloConfig) -> int:
    """Of the matrices of a chunk, each with a barrier of its own."""
    slices = len(layout_of(problem, config).slices)
    return slices if slices > 1 else min(len(problem.taps), PARTS)


def shared_bytes(problem: HaloProblem, config: HaloConfig) -> int:
    """Dynamic shared memory of a block."""
    stages = config.consumers * config.stages * stage_bytes(problem, config)
    stages = -(-stages // _ATOM_BYTES) * _ATOM_BYTES
    staged = config.consumers * INSTRUCTION_ROWS * (config.store_channels * 2 + _CHUNK_BYTES)
    parts = chunks_of(problem, config) * parts_of(problem, config)
    barriers = (2 * config.consumers * config.stages + parts) * _BARRIER_BYTES
    return _ATOM_BYTES + stages + weight_bytes(problem, config) + staged + barriers


def refusal(problem: HaloProblem, config: HaloConfig, target: Target) -> Refusal | None:
    """Why the kernel family's assertions, or the GPU, refuse `config`; None if they do not."""
    refused = _refused_columns(problem, config)
    if refused is not None:
        return refused
    layout = layout_of(problem, config)
    if layout.refusal is not None:
        return layout.refusal
    groups = groups_of(problem, config)
    held = groups * layout.tiles * config.columns // 2
    most = MOST_ACCUMULATORS if groups == 1 else MOST_PHASE_ACCUMULATORS
    if held > most[config.consumers]:
        return Refusal(f"{held} accumulators of a thread exceed its registers")
    chunks = chunks_of(problem, config)
    if (
        layout.tiles * config.columns * chunks > MOST_CHUNK_COLUMNS
        or min(chunks, len(layout.slices)) > 1
    ):
        return Refusal("its chunks are too many: accumulators would lie in local memory")
    if column_tiles(problem, config) > config.blocks:
        return Refusal("there are fewer blocks than parts of the output channels")
    return target.shared_refusal(shared_bytes(problem, config))


def _refused_columns(problem: HaloProblem, config: HaloConfig) -> Refusal | None:
    """Why columns are not divided as a config says."""
    run = config.columns
    if len(problem.phases) > 1:
        of_phase, count = problem.phase_columns, len(problem.phases)
        if config.columns % of_phase or count % (config.columns // of_phase):
            return Refusal(f"{config.columns} columns do not divide {count} phases of {of_phase}")
        run = min(run, of_phase * (problem.run if of_phase == problem.out_channels else 1))
    if run % config.store_channels:
        return Refusal(f"{config.store_channels} staged channels do not divide {run}")
    return None
