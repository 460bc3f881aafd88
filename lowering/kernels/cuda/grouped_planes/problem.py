"""What `grouped_planes` sees of a contraction, and how a tile lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.direct.problem import TENSOR_CORE_TYPES, flat_channels
from convir.lowering.kernels.cuda.direct.source import reading
from convir.lowering.kernels.cuda.grouped_planes.config import CHUNK

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.grouped_planes.config import GroupedPlanesConfig

ELEMENT_BYTES = 2
VECTOR = 8
"""Elements of the widest access."""
LEAST_CHANNELS, MOST_CHANNELS = 4, 64
"""Of a group: fewer are depthwise, more fill the tiles of a GEMM."""
MOST_STEP = 2
"""Columns of A from an output to the next."""
MOST_SHIFT = 8
"""Columns between an output and what a tap reads: those of a chunk or its neighbour."""
MOST_TAPS = 64


@dataclass(frozen=True)
class PlanesForm:
    """What a kernel of `grouped_planes` needs of a problem besides its sizes."""

    packed: int
    """Groups that are one to the kernel, with zeros between them."""
    groups: int
    """Those of the kernel; so are channels."""
    in_channels: int
    out_channels: int
    a_channel: int
    """Elements between two channels of A."""
    c_channel: int
    a_vector: int
    """Pixels of a copy of A, and of C in wgrad."""
    c_vector: int
    is_wgrad: bool


def read(
    contraction: Contraction, epilogue: Epilogue
) -> tuple[DirectProblem, PlanesForm] | Refusal:
    """A contraction as the family sees it, or why the family does not take it."""
    return reading(contraction, epilogue, _form, contraction.result, anywhere=True)


def _form(problem: DirectProblem) -> PlanesForm | Refusal:
    spec = problem.contraction
    of_a, of_c = spec.in_channels, spec.out_channels
    if spec.a.type not in TENSOR_CORE_TYPES:
        return Refusal(f"tensor cores do not multiply {spec.a.type}")
    if min(of_a, of_c) < LEAST_CHANNELS or max(of_a, of_c) > MOST_CHANNELS:
        return Refusal(f"groups of {of_a} and {of_c} channels")
    flat = flat_channels(spec)
    if isinstance(flat, Refusal):
        return flat
    a_channel, c_channel = flat
    rows, cols, slices = problem.rows, problem.cols, problem.slices
    if slices.size * slices.taps * len(problem.phases) != 1:
        return Refusal("it has slices, or several phases")
    if 1 in (a_channel, c_channel) or cols.a_stride != 1 or cols.c_stride != 1:
        return Refusal("its operands are no planes")
    if not 0 < problem.taps <= MOST_TAPS:
        return Refusal(f"it has {problem.taps} taps")
    shifts = [cols.origin + pixel for pixel in problem.phases[0].cols.pixels]
    if cols.step > MOST_STEP or max(map(abs, shifts)) > MOST_SHIFT:
        return Refusal(f"its taps read columns {min(shifts)} to {max(shifts)}, step {cols.step}")
    packed = max(CHUNK // gcd(of_a, CHUNK), CHUNK // gcd(of_c, CHUNK))
    if spec.groups % packed != 0:
        return Refusal(f"{spec.groups} groups of {of_a} and {of_c} channels do not fill vectors")
    a_steps = (a_channel, problem.a_image, rows.a_stride)
    c_steps = (c_channel, problem.c_image, problem.phases[0].offset)
    return PlanesForm(
        packed,
        spec.groups // packed,
        packed * of_a,
        packed * of_c,
        a_channel,
        c_channel,
        gcd(VECTOR, cols.extent, *a_steps),
        gcd(VECTOR, *c_steps),
        spec.result == "B",
    )


@dataclass(frozen=True)
class TileLayout:
    """A tile in shared memory; elements if not said otherwise."""

    segment: int
    """Chunks of A."""
    segments: int
    lead: int
    """Chunks before a segment that its taps read."""
    trail: int
    """Those behind it."""
    tile_cols: int
    """Output columns."""
    in_rows: int
    in_cols: int
    in_row: int
    in_image: int
    in_plane: int
    in_vector: int
    is_flat: int
    """Whether rows of results follow each other as they do in memory."""
    out_row: int
    out_image: int
    out_plane: int
    out_vector: int
    sums: int
    """Of wgrad."""
    shared_bytes: int


def shifts(problem: DirectProblem) -> tuple[int, int]:
    """The least and the greatest column that taps read of A at output column 0."""
    cols = problem.cols
    pixels = [cols.origin + pixel for pixel in problem.phases[0].cols.pixels]
    return min(pixels), max(pixels)


def whole_chunks(problem: DirectProblem) -> int:
    """Chunks of A that belong to all output columns."""
    return -(-problem.col_count * problem.cols.step // CHUNK)


def layout(problem: DirectProblem, form: PlanesForm, config: GroupedPlanesConfig) -> TileLayout:
    """How a tile lies in shared memory."""
    rows, cols = problem.rows, problem.cols
    chunks = config.segment * config.segments
    is_whole = chunks >= whole_chunks(problem)
    least, most = shifts(problem)
    is_cut = config.segments > 1 or not is_whole
    lead = int(is_cut and least < 0)
    trail = int(most > 0 and (is_cut or cols.extent > chunks * CHUNK))
    tile_cols = problem.col_count if is_whole else chunks * CHUNK // cols.step
    in_rows = (config.rows - 1) * rows.step + rows.window
    in_cols = (lead + chunks + trail) * CHUNK
    in_image = in_rows * in_cols
    channels = config.groups * form.in_channels
    in_plane = _odd(config.images * in_image)
    is_flat = is_whole and rows.c_stride == problem.col_count
    if form.is_wgrad:
        is_flat = False
        out_row = _chunked(-(-chunks * CHUNK // cols.step))
    else:
        out_row = problem.col_count if is_flat else _chunked(tile_cols)
    if is_flat:
        ends = (config.rows * problem.col_count, problem.row_count * problem.col_count)
    else:
        ends = (tile_cols, problem.col_count, rows.c_stride)
    out_vector = gcd(form.c_vector, *ends)
    out_image = _chunked(config.rows * out_row)
    out_plane = _odd(config.images * out_image)
    window = channels * in_plane
    results = config.groups * form.out_channels * out_plane
    sums = 0
    if form.is_wgrad:
        sums = problem.taps * config.groups * form.in_channels * form.out_channels
        nbytes = max(config.stages * (window + results) * ELEMENT_BYTES, 4 * sums)
        nbytes = max(nbytes, config.warps * 32 * 16)
    else:
        nbytes = (config.stages * window + results) * ELEMENT_BYTES
    return TileLayout(
        segment=config.segment,
        segments=config.segments,
        lead=lead,
        trail=trail,
        tile_cols=tile_cols,
        in_rows=in_rows,
        in_cols=in_cols,
        in_row=in_cols,
        in_image=in_image,
        in_plane=in_plane,
        in_vector=form.a_vector,
        is_flat=int(is_flat),
        out_row=out_row,
        out_image=out_image,
        out_plane=out_plane,
        out_vector=out_vector,
        sums=sums,
        shared_bytes=nbytes,
    )


def _chunked(elements: int) -> int:
    """Rounded up to whole chunks."""
    return -(-elements // CHUNK) * CHUNK


def _odd(elements: int) -> int:
    """The pitch of planes of so many elements: eight planes lie in different banks."""
    return (-(-elements // CHUNK) | 1) * CHUNK
