"""What `depthwise` sees of a contraction, and how a tile lies in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, lcm
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.depthwise.config import CHUNK
from convir.lowering.kernels.cuda.direct.problem import flat_channels
from convir.lowering.kernels.cuda.direct.source import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.depthwise.config import DepthwiseConfig
    from convir.lowering.kernels.cuda.direct.problem import DirectProblem, Taps
    from convir.lowering.kernels.cuda.epilogue import Epilogue

VECTOR_BYTES = 16
BANK_BYTES = 128
MOST_CHANNELS = 4
"""Of a group: more of them fill tensor cores otherwise."""
MOST_CHUNKS = 12
"""Of a strip's window in a row."""
MOST_PRODUCTS = 1536
"""Matrix instructions, or rows of taps in f32, that are unrolled."""
PART_SUMS = 64
"""Sums of a lane for some filter rows of wgrad."""
HELD_SUMS = 64
"""Sums of a lane of wgrad that stay in registers from tile to tile."""
MMA_STRIPS, LANES = 16, 32


@dataclass(frozen=True)
class DepthwiseForm:
    """What a kernel of `depthwise` needs of a problem besides its sizes."""

    a_channel: int
    """Elements between two channels of A."""
    c_channel: int
    a_planar: bool
    """Whether channels of A are not contiguous."""
    c_planar: bool
    a_vector: int
    """Channels, or pixels of a plane, of an access."""
    c_vector: int
    shift: int
    """Columns before a strip's window, by which rows begin where vectors do."""
    chunks: int
    """Of a strip's window in a row."""
    is_wgrad: bool
    row_phases: int = 1
    """Phases whose rows alternate in C, and those whose columns do: a tile has them as they lie."""
    col_phases: int = 1

    def in_channels(self, spec: Contraction, channels: int) -> int:
        """Channels of A for so many of C."""
        return channels // spec.out_channels * spec.in_channels

    def steps(self, problem: DirectProblem) -> int:
        """Rows of windows that are added up for an output channel."""
        return problem.contraction.in_channels * problem.slices.taps

    def unit(self, spec: Contraction) -> int:
        """What the channels of C of a tile are a multiple of: groups, and whole vectors of both."""
        of_a = 1 if self.a_planar else self.a_vector
        of_c = 1 if self.c_planar else self.c_vector
        groups = lcm(of_a // gcd(of_a, spec.in_channels), of_c // gcd(of_c, spec.out_channels))
        return groups * spec.out_channels


def read(
    contraction: Contraction, epilogue: Epilogue
) -> tuple[DirectProblem, DepthwiseForm] | Refusal:
    """A contraction as the family sees it, or why the family does not take it."""
    return reading(contraction, epilogue, _form, contraction.result, anywhere=True)


def _form(problem: DirectProblem) -> DepthwiseForm | Refusal:
    spec = problem.contraction
    of_a, of_c = spec.in_channels, spec.out_channels
    if max(of_a, of_c) > MOST_CHANNELS or (spec.groups == 1 and of_a * of_c > 1):
        return Refusal(f"{spec.groups} groups of {of_a} and {of_c} channels")
    flat = flat_channels(spec)
    if isinstance(flat, Refusal):
        return flat
    a_channel, c_channel = flat
    if problem.taps * problem.slices.taps == 1:
        return Refusal("it has one tap")
    if not all(map(_is_even, (taps for p in problem.phases for taps in (p.rows, p.cols)))):
        return Refusal("its taps are not evenly spaced")
    size = STORAGE_BYTES[spec.a.type]
    rows, cols, slices = problem.rows, problem.cols, problem.slices
    a_planar, c_planar = a_channel != 1, c_channel != 1
    a_steps = [problem.a_image, slices.a_stride, rows.a_stride]
    c_steps = [problem.c_image, slices.c_stride, rows.c_stride]
    c_steps += [phase.offset for phase in problem.phases]
    widest = VECTOR_BYTES // size
    shift, chunks = 0, _chunks(problem, 0)
    a_vector, c_vector = 1, 1
    if not a_planar:
        a_vector = gcd(widest, spec.groups * of_a, cols.a_stride, *a_steps)
    elif cols.a_stride == 1:
        a_vector = gcd(widest, a_channel, cols.extent, *a_steps)
        while _chunks(problem, cols.origin % a_vector) > chunks:
            a_vector //= 2
        shift = cols.origin % a_vector
    if not c_planar:
        c_vector = gcd(widest, spec.groups * of_c, cols.c_stride, *c_steps)
    elif cols.c_stride == 1:
        widths = [phase.cols.size for phase in problem.phases]
        c_vector = gcd(widest, c_channel, *widths, *c_steps)
    row_phases, col_phases = _alternating(problem) if c_planar else (1, 1)
    if col_phases > 1:
        width = rows.c_stride // row_phases
        c_vector = gcd(widest, c_channel, problem.c_image, slices.c_stride, width)
    if chunks > MOST_CHUNKS:
        return Refusal(f"a window of {cols.window} columns")
    is_wgrad = spec.result == "B"
    if is_wgrad and len(problem.phases[0].cols.pixels) > PART_SUMS:
        return Refusal(f"{len(problem.phases[0].cols.pixels)} sums of a filter row")
    return DepthwiseForm(
        a_channel,
        c_channel,
        a_planar,
        c_planar,
        a_vector,
        c_vector,
        shift,
        chunks,
        is_wgrad,
        row_phases,
        col_phases,
    )


def _alternating(problem: DirectProblem) -> tuple[int, int]:
    """Phases along rows and columns where all of them together are whole rows of C; ones where
    they are not."""
    cols, rows, phases = problem.cols.c_stride, 0, problem.phases
    if cols > 1 and len(phases) % cols == 0:
        rows = len(phases) // cols
    if rows == 0 or problem.rows.c_stride % rows != 0:
        return 1, 1
    width = problem.rows.c_stride // rows
    # Phases are in the order of their offsets.
    places = [row * width + col for row in range(rows) for col in range(cols)]
    are_whole = sum(phase.cols.size for phase in phases[:cols]) == width
    is_grid = [phase.offset for phase in phases] == places and all(
        phase.cols.size == phases[i % cols].cols.size
        and phase.rows.size == phases[i // cols * cols].rows.size
        for i, phase in enumerate(phases)
    )
    return (rows, cols) if is_grid and are_whole else (1, 1)


def _chunks(problem: DirectProblem, shift: int) -> int:
    cols = problem.cols
    return -(-((CHUNK - 1) * cols.step + cols.window + shift) // CHUNK)


def _is_even(taps: Taps) -> bool:
    return all(
        len({after - before for before, after in pairwise(values)}) <= 1
        for values in (taps.pixels, taps.weights)
    )


@dataclass(frozen=True)
class TileLayout:
    """A tile in shared memory; elements if not said otherwise."""

    window_chunks: int
    shift: int
    is_whole: int
    """Whether a tile holds all rows of an image, and what a window has outside of it is not
    there."""
    in_rows: int
    in_chunks: int
    in_row: int
    in_slice: int
    in_image: int
    in_plane: int
    in_vector: int
    out_row: int
    out_image: int
    out_phase: int
    out_plane: int
    out_vector: int
    row_phases: int
    col_phases: int
    vector_pad: int
    filters_at: int
    planes_at: int
    results_at: int
    sums_at: int
    """Bytes."""
    sums: int
    scratch_at: int
    """Bytes."""
    scratch: int
    """Of a warp."""
    part_rows: int
    holds_sums: int
    """Whether a warp of wgrad has registers for the sums of all of its channels."""
    shared_bytes: int


def tap_counts(problem: DirectProblem) -> tuple[int, int]:
    """Filter rows and columns of the phase with the most."""
    rows = max(len(phase.rows.pixels) for phase in problem.phases)
    return rows, max(len(phase.cols.pixels) for phase in problem.phases)


def strips(config: DepthwiseConfig) -> int:
    """Strips of a tile."""
    return config.images * (config.rows // config.unroll) * (config.cols // CHUNK)


def _align(elements: int) -> int:
    return -(-elements // CHUNK) * CHUNK


def layout(problem: DirectProblem, form: DepthwiseForm, config: DepthwiseConfig) -> TileLayout:
    """How a tile lies in shared memory."""
    spec = problem.contraction
    size = STORAGE_BYTES[spec.a.type]
    rows, cols, slices = problem.rows, problem.cols, problem.slices
    in_channels, steps = form.in_channels(spec, config.channels), form.steps(problem)
    tile_chunks = config.cols // CHUNK
    needed_rows = (config.rows - 1) * rows.step + rows.window
    is_whole = needed_rows > rows.extent and config.rows >= problem.row_count
    in_rows = rows.extent if is_whole else needed_rows
    in_chunks = (tile_chunks - 1) * cols.step + form.chunks
    # Strips of neighbouring rows or images lie in other banks.
    odd = 1 if tile_chunks < CHUNK else 0
    in_row = (in_chunks | odd) * CHUNK
    in_slice = in_rows * in_row
    in_image = (slices.taps * in_slice // CHUNK | odd) * CHUNK
    is_last = not form.a_planar and not form.c_planar and form.a_vector == form.c_vector
    vectors = max(in_channels, config.channels) // form.a_vector
    pad = _pad(vectors, size) if is_last else 0
    in_plane = config.images * in_image
    planes = in_channels * in_plane + vectors * pad
    filter_row = cols.window + 1
    filters = steps * len(problem.phases) * rows.window * filter_row
    zeros = (form.chunks + 1) // 2 * 2 * CHUNK
    filters_at = zeros
    planes_at = _align(zeros + (0 if form.is_wgrad else config.channels * filters))
    tiles = -(-strips(config) // (MMA_STRIPS if size == 2 else LANES))
    fits = config.rows <= in_rows and tile_chunks <= in_chunks
    in_place = (
        not form.is_wgrad
        and len(problem.phases) == spec.in_channels * spec.out_channels == 1
        and fits
        and (not is_whole or tiles == 1)
    )
    if in_place:
        out_row, out_image, out_phase, out_plane = in_row, in_image, 0, in_plane
        results_at = planes_at
        end = planes_at + planes
    else:
        out_row = tile_chunks * CHUNK * form.col_phases
        out_image = config.rows * form.row_phases * out_row
        out_plane = config.images * out_image
        out_phase = 0
        if form.col_phases == 1:
            out_phase, out_plane = out_plane, out_plane * len(problem.phases)
        results_at = _align(planes_at + planes)
        end = results_at + config.channels * out_plane + vectors * pad
    row_taps, col_taps = tap_counts(problem)
    of_row = -(-form.chunks // 2) * 4 if size == 2 else col_taps
    part_rows = max(1, min(row_taps, PART_SUMS // of_row))
    jobs, warps = config.channels * steps, config.warps
    holds_sums = (
        part_rows == row_taps
        and jobs % warps == 0
        and jobs // warps * part_rows * of_row <= HELD_SUMS
    )
    sums = scratch = 0
    sums_at = -(-end * size // VECTOR_BYTES) * VECTOR_BYTES
    scratch_at = sums_at
    if form.is_wgrad:
        sums = -(-config.channels * steps * row_taps * col_taps // 4) * 4
        scratch_at = sums_at + sums * 4
        if size == 2:
            at_once = max(1, min(part_rows, LANES // col_taps))
            scratch = at_once * (-(-form.chunks // 2)) * 16 * (CHUNK + 1)
    return TileLayout(
        window_chunks=form.chunks,
        shift=form.shift,
        is_whole=int(is_whole),
        in_rows=in_rows,
        in_chunks=in_chunks,
        in_row=in_row,
        in_slice=in_slice,
        in_image=in_image,
        in_plane=in_plane,
        in_vector=form.a_vector,
        out_row=out_row,
        out_image=out_image,
        out_phase=out_phase,
        out_plane=out_plane,
        out_vector=form.c_vector,
        row_phases=form.row_phases,
        col_phases=form.col_phases,
        vector_pad=pad,
        filters_at=filters_at,
        planes_at=planes_at,
        results_at=results_at,
        sums_at=sums_at,
        sums=sums,
        scratch_at=scratch_at,
        scratch=scratch,
        part_rows=part_rows,
        holds_sums=int(form.is_wgrad and holds_sums),
        shared_bytes=max(
            scratch_at + config.warps * scratch * 4,
            config.warps * LANES * VECTOR_BYTES if form.is_wgrad else 0,
        ),
    )


def _pad(vectors: int, size: int) -> int:
    """Elements between vectors of channels, so that threads of a warp write to different banks."""
    if vectors < 2:
        return 0
    return max(1, BANK_BYTES // vectors // VECTOR_BYTES) * VECTOR_BYTES // size


def unrolled(problem: DirectProblem, form: DepthwiseForm, config: DepthwiseConfig) -> int:
    """Matrix instructions, or rows of taps in f32, in the code of a strip."""
    taps = sum(len(phase.rows.pixels) for phase in problem.phases)
    is_tensor = STORAGE_BYTES[problem.contraction.a.type] == 2
    return config.unroll * taps * (-(-form.chunks // 2) if is_tensor else max(_widths(problem)))


def _widths(problem: DirectProblem) -> Sequence[int]:
    return [max(1, len(phase.cols.pixels)) for phase in problem.phases]
