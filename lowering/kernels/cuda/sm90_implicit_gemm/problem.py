"""A contraction as the wgmma kernel family sees it: phases, taps, tensor maps and zero-filled
outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise, product
from math import gcd, prod
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda import result_planes
from convir.lowering.kernels.cuda.epilogue_operands import linear_operands
from convir.lowering.kernels.cuda.launch import Scalar
from convir.lowering.kernels.cuda.sizes import ANY_SIZE
from convir.lowering.kernels.cuda.sm90_implicit_gemm.pieces import in_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from convir.lowering.bodies.contraction.spec import Axis, Contraction, Phase, StorageType
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.epilogue_operands import LinearOperand
    from convir.lowering.kernels.protocol import Size

MAX_SPATIAL = 3
MAX_AXES = MAX_SPATIAL + 1
MAX_ROWS = 1 << 30
SWIZZLE_BYTES = 128
"""Of a row of a stage."""
TF32_MULTIPLE = 32
"""What input channels and columns of TF32 are multiples of: other forms were not run on a GPU
yet."""
MIN_SPLIT_REDUCED = 96
"""The least that is reduced by three products of TF32: from here on the bound of their error is at
most that of multiply-adds one after the other."""
ZERO_FILL_BYTES = 2
"""Of an element of a result whose zero-filled outputs the kernel family fills."""
ALIGNMENT = 8
"""Elements of 16 bits that TMA's addresses and strides are multiples of."""
MAX_FUSED_BYTES = 128
"""Rows of C up to so long are stored together with the zero-filled outputs behind them, whole
cache lines."""
PIECE_CHUNKS = 256
"""Chunks of 16 bytes that a warp fills of a zero-filled output before it looks for another
piece."""

# The driver's limits of im2col maps, by their number of spatial axes: corners in
# [-limit, limit), offsets below twice that.
_CORNER_LIMIT = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}
_MAX_STEP = 8


@dataclass(frozen=True)
class Slide:
    """Where the pixels of an im2col map lie along one spatial axis."""

    size: int
    """Output pixels."""
    extent: int
    step: int
    corner: int
    """The position of A that output pixel 0 maps to."""
    row_stride: int

    @property
    def upper(self) -> int:
        """The last position, relative to the last one of A."""
        return self.corner + (self.size - 1) * self.step - (self.extent - 1)


@dataclass(frozen=True)
class RowMap:
    """A tensor map of A: pixels that slide over it, or rows of a matrix where none do."""

    rows: int
    """Of the batch axis, or of the matrix."""
    row_stride: int
    slides: tuple[Slide, ...]
    """Innermost first."""


@dataclass(frozen=True)
class PlannedPhase:
    """Output pixels with their taps; axes innermost first, the batch last."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    map: int
    taps: tuple[tuple[tuple[int, ...], int], ...]
    """Per tap the offsets from the corner, innermost first, and the number of its matrix."""

    @property
    def pixels(self) -> int:
        """Rows of the product."""
        return prod(self.sizes)


@dataclass(frozen=True)
class ZeroFill:
    """Runs of `run` zero elements, at every position of axes, innermost first."""

    run: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Sm90ImplicitGemmProblem:
    """What the generated `Problem` struct says."""

    maps: tuple[RowMap, ...]
    phases: tuple[PlannedPhase, ...]
    """The longest first."""
    zero_fills: tuple[ZeroFill, ...]
    tap_stride: int
    """Elements of B between two of its matrices."""
    matrices: int
    filter_by_in_channel: bool
    """Whether input channels, not columns, have stride 1 in B."""
    out_channels: int
    """Of the product, all pieces together."""
    chunks: int
    """Steps of a tap: channels of A that a stage holds."""
    pieces: tuple[int, ...] = (0,)
    """Parts of the columns, and the elements of C from a row's position to where each begins."""
    cell_zero_fills: tuple[ZeroFill, ...] = ()
    """Zero-filled outputs at the output pixels of the only phase; their offsets are relative to
    its own."""
    fused_zero_fills: int = 0
    """Pixels of zeros that are stored behind every row, and behind every row of zeros."""
    row_pixels: int = 0
    """Pixels of C along the innermost axis, where zero-filled outputs are fused."""
    operands: tuple[LinearOperand, ...] = ()
    """What the epilogue reads besides."""
    result_bytes: int = 2
    """Of an element of C."""
    planes: result_planes.ResultPlanes = result_planes.NO_PLANES
    """How C is stored if its channels are planes."""
    is_split: bool = False
    """Whether A and B are f32 in IEEE arithmetic, each product of which is three of TF32."""

    @property
    def images(self) -> Size:
        """Output pixels along the last axis, where phases and zero-filled outputs have as many."""
        placed = (*self.phases, *self.zero_fills, *self.cell_zero_fills)
        return shared_size(each.sizes for each in placed)

    @property
    def spatial(self) -> int:
        """Axes that the maps of A slide over."""
        return len(self.maps[0].slides)

    @property
    def least_steps(self) -> int:
        """Steps of the tiles that have the fewest."""
        return self.chunks * min(len(phase.taps) for phase in self.phases)

    @property
    def has_zero_fills(self) -> bool:
        """Whether some elements of C are stored without being computed."""
        return bool(self.zero_fills or self.cell_zero_fills or self.fused_zero_fills)

    def groups(self) -> list[list[PlannedPhase]]:
        """Neighbouring phases whose tiles may alternate."""
        keyed = groupby(self.phases, key=lambda phase: (len(phase.taps), phase.pixels))
        return [list(group) for _, group in keyed]


def shared_size(sizes: Iterable[tuple[int, ...]]) -> Size:
    """The size along the last axis, if it is the same everywhere; else that of one more axis, 1."""
    first, *others = {each[-1] for each in sizes}
    return 1 if others else Scalar(first)


def of_image(sizes: tuple[int, ...], images: Size) -> tuple[int, ...]:
    """Sizes as code has them: none along the last axis if a launch hands that over."""
    return (*sizes[:-1], ANY_SIZE) if isinstance(images, Scalar) else sizes


def problem_of(contraction: Contraction) -> Sm90ImplicitGemmProblem | Refusal:
    """Plan a contraction that computes C, or say why the kernel family cannot compute it."""
    refusal = unsupported(contraction, takes_f32=True, takes_planes=True)
    refusal = refusal or _unsupported_split(contraction)
    if refusal is not None:
        return refusal
    contraction, pieces = in_pieces(contraction)
    active = [phase for phase in contraction.phases if phase.taps]
    if not active:
        return Refusal("nothing is multiplied")
    rows = row_maps(active)
    if isinstance(rows, Refusal):
        return rows
    maps, corners = rows
    weights = weight_numbers(active)
    if isinstance(weights, Refusal):
        return weights
    tap_stride, matrices = weights
    distinct = tuple(dict.fromkeys(maps))
    phases = tuple(
        PlannedPhase(
            padded([axis.size for axis in phase.axes], 1),
            padded([axis.out_stride for axis in phase.axes], 0),
            phase.out_offset,
            distinct.index(row_map),
            taps_of(phase, corners, tap_stride),
        )
        for phase, row_map in zip(active, maps, strict=True)
    )
    ordered = tuple(sorted(phases, key=lambda p: (-len(p.taps), -p.pixels)))
    zero_fills = [
        _zero_fill(phase, contraction.out_channels)
        for phase in contraction.phases
        if not phase.taps
    ]
    problem = Sm90ImplicitGemmProblem(
        maps=distinct,
        phases=ordered,
        zero_fills=tuple(zero_fills),
        tap_stride=tap_stride,
        matrices=matrices,
        filter_by_in_channel=contraction.b.out_channel_stride != 1,
        out_channels=contraction.out_channels,
        chunks=-(-contraction.in_channels // channels_of_stage(contraction.a.type)),
        pieces=pieces,
        result_bytes=STORAGE_BYTES[contraction.c.type],
        planes=result_planes.planes_of(active, contraction.c.stride, pieces),
        is_split=splits_f32(contraction),
    )
    return _with_zero_fills(problem, contraction.out_channels)


def splits_f32(contraction: Contraction) -> bool:
    """Whether operands are f32 that may not be rounded to TF32."""
    return contraction.a.type == contraction.b.type == "f32" and not contraction.tf32


def _unsupported_split(contraction: Contraction) -> Refusal | None:
    """Why f32 is not multiplied as three products of TF32; None if it is, or is no f32."""
    if not splits_f32(contraction):
        return None
    taps = min((phase.taps for phase in contraction.phases if phase.taps), default=0)
    if 0 < taps * contraction.in_channels < MIN_SPLIT_REDUCED:
        return Refusal(
            f"a reduction of {taps * contraction.in_channels} is shorter than {MIN_SPLIT_REDUCED}:"
            " three products may be less accurate than f32"
        )
    _, pieces = in_pieces(contraction)
    return Refusal("f32 of several pixels in one row") if len(pieces) > 1 else None


def unsupported(
    contraction: Contraction, *, takes_f32: bool = False, takes_planes: bool = False
) -> Refusal | None:
    """Why a kernel family of Hopper's does not take a contraction, whatever its phases are; f32,
    and 16-bit results whose channels are planes, where the family takes those."""
    types = {contraction.a.type, contraction.b.type}
    is_f32 = takes_f32 and (contraction.tf32 or types == {"f32"})
    if contraction.result != "C" or contraction.accumulate:
        return Refusal("it computes the gradient of the weights, or adds to C")
    if contraction.groups != 1:
        return Refusal("it has groups")
    is_half = len(types) == 1 and types <= {"f16", "bf16"}
    if contraction.element != "f32" or not (is_half or is_f32):
        return Refusal("A and B are not both f16, both bf16 or both f32")
    if contraction.c.type not in (("f32",) if is_f32 else ("f16", "bf16")):
        return Refusal("C is not of A's size")
    are_planes = contraction.c.stride != 1
    if contraction.a.stride != 1 or (are_planes and (is_f32 or not takes_planes)):
        return Refusal("channels are not innermost")
    b = contraction.b
    if is_f32 and b.in_channel_stride != 1:
        return Refusal("input channels of B are not contiguous, as TF32 has to have them")
    if 1 not in (b.in_channel_stride, b.out_channel_stride):
        return Refusal("neither input nor output channels of B are contiguous")
    if len(contraction.phases[0].axes) > MAX_AXES:
        return Refusal(f"it has more than {MAX_AXES} axes")
    axes = [axis for phase in contraction.phases for axis in phase.axes]
    strides = [axis.row_stride for axis in axes if axis.extent > 1]
    if not are_planes:
        strides += [axis.out_stride for axis in axes if axis.size > 1]
        strides += [phase.out_offset for phase in contraction.phases]
    # The stride that is not 1; one matrix row alone has none.
    strides.append(max(b.in_channel_stride, b.out_channel_stride))
    if any(stride % ALIGNMENT for stride in (*strides, contraction.out_channels)):
        return Refusal(f"rows of A, B or C do not start at multiples of {ALIGNMENT} elements")
    # Rows are numbered in 32 bits, those of the last tile that lie outside included.
    if max(phase.pixels for phase in contraction.phases) >= MAX_ROWS:
        return Refusal(f"it has {MAX_ROWS} rows or more")
    return None


def _is_identity(axis: Axis) -> bool:
    return axis.tap_rows == (0,) and axis.step == 1 and axis.size == axis.extent


def row_maps(active: Sequence[Phase]) -> tuple[list[RowMap], tuple[int, ...]] | Refusal:
    """The tensor maps of A, one per phase, and the corner that they share, innermost first."""
    return _matrix_maps(active) or sliding_maps(active)


def _matrix_maps(active: Sequence[Phase]) -> tuple[list[RowMap], tuple[int, ...]] | None:
    """Maps of a matrix, if the rows of every phase are all rows of A in their order."""
    maps: list[RowMap] = []
    for phase in active:
        axes = [axis for axis in phase.axes if axis.size > 1 or axis.extent > 1]
        if not all(_is_identity(axis) for axis in phase.axes):
            return None
        dense = [
            outer.row_stride == inner.row_stride * inner.size for outer, inner in pairwise(axes)
        ]
        if not all(dense):
            return None
        maps.append(RowMap(phase.pixels, axes[-1].row_stride if axes else ALIGNMENT, ()))
    return maps, (0,) * MAX_SPATIAL


def sliding_maps(
    active: Sequence[Phase],
) -> tuple[list[RowMap], tuple[int, ...]] | Refusal:
    """Im2col maps, one per phase, and the corner that they share, innermost axis first."""
    spatial = len(active[0].axes) - 1
    if not 1 <= spatial <= MAX_SPATIAL or not all(_is_identity(p.axes[0]) for p in active):
        return Refusal("its first axis is not a batch before 1 to 3 spatial axes")
    limit = _CORNER_LIMIT[spatial]
    corners = tuple(
        min(row for phase in active for row in phase.axes[-1 - i].tap_rows) for i in range(spatial)
    )
    maps: list[RowMap] = []
    for phase in active:
        inner = list(reversed(phase.axes[1:]))
        slides = tuple(
            Slide(axis.size, axis.extent, axis.step, corner, axis.row_stride)
            for axis, corner in zip(inner, corners, strict=True)
        )
        for axis, slide in zip(inner, slides, strict=True):
            if not (-limit <= slide.corner < limit and -limit <= slide.upper < limit):
                return Refusal("its pixels begin or end too far from the border of A")
            apart = max(axis.tap_rows) - slide.corner >= 2 * limit
            if apart or not 1 <= slide.step <= _MAX_STEP:
                return Refusal("its taps or steps are too far apart, or walk backwards")
        batch = phase.axes[0]
        maps.append(RowMap(batch.extent, batch.row_stride, slides))
    return maps, (*corners, *(0,) * (MAX_SPATIAL - spatial))


def weight_numbers(active: Sequence[Phase]) -> tuple[int, int] | Refusal:
    """The stride between matrices of B, and how many there are."""
    offsets = {
        sum(offset)
        for phase in active
        for offset in product(*(axis.tap_weights for axis in phase.axes))
    }
    if min(offsets) < 0 or any(offset % ALIGNMENT for offset in offsets):
        return Refusal(f"matrices of B do not start at multiples of {ALIGNMENT} elements")
    stride = gcd(*offsets) or ALIGNMENT
    return stride, max(offsets) // stride + 1


def taps_of(
    phase: Phase, corners: Sequence[int], tap_stride: int
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """The taps of a phase: their offsets from the corner, innermost first, and their matrices."""
    per_axis = [list(zip(axis.tap_rows, axis.tap_weights, strict=True)) for axis in phase.axes]
    taps: list[tuple[tuple[int, ...], int]] = []
    for tap in product(*per_axis):
        rows = [row for row, _ in reversed(tap[1:])]
        offsets = tuple(row - corner for row, corner in zip(rows, corners, strict=False))
        offsets = (*offsets, *(0,) * (MAX_SPATIAL - len(offsets)))
        taps.append((offsets, sum(weight for _, weight in tap) // tap_stride))
    return tuple(taps)


def padded(values: Sequence[int], unit: int) -> tuple[int, ...]:
    """Values of axes, innermost first, the batch last, with `unit` for axes that are missing."""
    batch, *inner = values
    return (*reversed(inner), *(unit,) * (MAX_AXES - len(values)), batch)


def _zero_fill(phase: Phase, out_channels: int) -> ZeroFill:
    return ZeroFill(
        out_channels,
        padded([axis.size for axis in phase.axes], 1),
        padded([axis.out_stride for axis in phase.axes], 0),
        phase.out_offset,
    )


def _with_zero_fills(
    problem: Sm90ImplicitGemmProblem, out_channels: int
) -> Sm90ImplicitGemmProblem:
    """The problem with its zero-filled outputs in cells around the rows where that can be, or in
    long runs."""
    if len(problem.phases) == 1 and all(_in_cell(h, problem.phases[0]) for h in problem.zero_fills):
        return _in_cells(problem, out_channels)
    zero_fills: list[ZeroFill] = []
    for line in _lines(problem.zero_fills, out_channels):
        first = line[0]
        if first.strides[0] == len(line) * out_channels:
            pixels = sum(zero_fill.sizes[0] for zero_fill in line)
            sizes, strides = (1, *first.sizes[1:]), (0, *first.strides[1:])
            zero_fills.append(ZeroFill(pixels * out_channels, sizes, strides, first.offset))
        else:
            zero_fills.extend(line)
    return replace(problem, zero_fills=tuple(zero_fills))


def _in_cell(zero_fill: ZeroFill, phase: PlannedPhase) -> bool:
    """Whether every position of a zero-filled output has a position of the phase."""
    fits = all(size <= limit for size, limit in zip(zero_fill.sizes, phase.sizes, strict=True))
    return fits and zero_fill.strides == phase.strides


def _in_cells(problem: Sm90ImplicitGemmProblem, out_channels: int) -> Sm90ImplicitGemmProblem:
    phase = problem.phases[0]
    cells = [
        replace(zero_fill, offset=zero_fill.offset - phase.offset)
        for zero_fill in problem.zero_fills
    ]
    behind = [zero_fill for zero_fill in cells if 0 < zero_fill.offset < phase.strides[0]]
    is_whole = len(behind) == phase.strides[0] // out_channels - 1 > 0
    if out_channels * 2 > MAX_FUSED_BYTES or not is_whole:
        return replace(problem, zero_fills=(), cell_zero_fills=tuple(cells))
    pixels = phase.sizes[0] + sum(zero_fill.sizes[0] for zero_fill in behind)
    lines = tuple(
        zero_fill
        for zero_fill in cells
        if zero_fill not in behind
        and zero_fill.sizes[0] == phase.sizes[0]
        and _starts_line(zero_fill, cells, behind)
    )
    return replace(
        problem,
        zero_fills=(),
        cell_zero_fills=lines,
        fused_zero_fills=len(behind),
        row_pixels=pixels,
    )


def _starts_line(
    zero_fill: ZeroFill, cells: Sequence[ZeroFill], behind: Sequence[ZeroFill]
) -> bool:
    """Whether the pixels behind a zero-filled output's are zero-filled outputs as well."""
    offsets = {cell.offset for cell in cells}
    return all(zero_fill.offset + pixel.offset in offsets for pixel in behind)


def _lines(zero_fills: Sequence[ZeroFill], out_channels: int) -> list[list[ZeroFill]]:
    """Zero-filled outputs that are contiguous along the innermost axis, put together."""
    lines: list[list[ZeroFill]] = []
    for zero_fill in sorted(zero_fills, key=lambda h: h.offset):
        for line in lines:
            if (
                zero_fill
                == replace(
                    line[-1],
                    sizes=(zero_fill.sizes[0], *line[-1].sizes[1:]),
                    offset=zero_fill.offset,
                )
                and zero_fill.offset == line[-1].offset + out_channels
            ):
                line.append(zero_fill)
                break
        else:
            lines.append([zero_fill])
    return lines


def channels_of_stage(element: StorageType) -> int:
    """Elements of a row of the swizzle."""
    return SWIZZLE_BYTES // STORAGE_BYTES[element]


@lru_cache(maxsize=256)
def sm90_problem(spec: Contraction, epilogue: Epilogue) -> Sm90ImplicitGemmProblem | Refusal:
    """What the family sees of a contraction and its epilogue, or why it does not take them."""
    operands = linear_operands(spec, epilogue)
    if isinstance(operands, Refusal):
        return operands
    problem = problem_of(spec)
    if isinstance(problem, Refusal):
        return problem
    planes = problem.planes
    if problem.has_zero_fills and (planes.exist or problem.result_bytes != ZERO_FILL_BYTES):
        return Refusal("it stores zero-filled outputs of 32 bits, or of planes")
    if planes.exist and epilogue.operands:
        return result_planes.PLANES_WITH_OPERANDS
    is_f32 = spec.tf32 or problem.is_split
    if is_f32 and epilogue.operands:
        return Refusal("its epilogue reads operands beside sums of TF32")
    if is_f32 and (spec.in_channels % TF32_MULTIPLE or spec.out_channels % TF32_MULTIPLE):
        return Refusal(f"input or output channels of TF32 are no multiples of {TF32_MULTIPLE}")
    if epilogue.zero_fills_read_operands and problem.has_zero_fills:
        return Refusal("its epilogue reads operands for zero-filled outputs")
    return replace(problem, operands=operands)
