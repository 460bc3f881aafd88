"""Halo tiles: what instructions read of swizzled boxes, what is stored, what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contraction_readings import reading, readings
from conv_lines import BACKWARD_DATA, FORWARD
from conv_lines import conv_line as line
from gpu import nvrtc_or_skip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm import candidates, launch
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.config import HaloConfig
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.family import SM90_HALO_IMPLICIT_GEMM
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.layout import (
    Box,
    Layout,
    Plane,
    Tap,
    layout_of,
    stage_bytes,
    tiles_of,
    used_groups,
)
from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import problem_of
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of
from convir.runtime.cuda.toolchain.compile import kernel_usage

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.sm90_halo_implicit_gemm.problem import HaloProblem
    from convir.runtime.program import Array

VOLUME = line("bf16", 2, 32, 64, (8, 10, 12), 3, 1, 1)
STRIDED = line("bf16", 2, 32, 64, (8, 10, 12), 3, 1, 2, FORWARD)
PHASES = line("f16", 2, 16, 32, (9, 10, 12), 3, 1, 2)
IMAGES = line("f16", 2, 64, 64, (13, 15), 3, 1, 1, FORWARD)


def of_line(text: str) -> HaloProblem:
    problem = problem_of(reading(text).contraction)
    assert not isinstance(problem, Refusal), problem.reason
    return problem


def swizzled(address: Array, row_bytes: int) -> Array:
    """Where a swizzle of `row_bytes` puts an address: by its own bits, whatever begins where."""
    return address ^ (((address >> 7) & (row_bytes // 16 - 1)) << 4)


def stage_in_memory(
    problem: HaloProblem, config: HaloConfig, planes: tuple[Plane, ...], a: Array, first: Array
) -> Array:
    """Shared memory behind the copies of the boxes of a tile that begins with pixel `first`, whose
    innermost axis is the first one."""
    layout, row_bytes = layout_of(problem, config), config.row_bytes
    memory = np.full(stage_bytes(problem, config) // 2, np.nan)
    for box, plane in zip(layout.boxes, planes, strict=True):
        x, y, z, c = np.meshgrid(*map(np.arange, (*box.pixels, row_bytes // 2)), indexing="ij")
        of_plane = a[(slice(None), *map(_plane_of, plane.first[::-1], problem.pitch[::-1]))]
        assert of_plane.shape[1:4] == plane.extents[::-1]
        places = [
            i + at + start for i, at, start in zip((x, y, z), plane.at, first[:3], strict=True)
        ]
        inside = c < a.shape[-1]
        for place, extent in zip(places, plane.extents, strict=True):
            inside &= (place >= 0) & (place < extent)
        u, v, w = (np.where(inside, place, 0) for place in places)
        values = np.where(inside, of_plane[first[3], w, v, u, np.where(inside, c, 0)], 0)
        pixel = box.start + (z * box.pixels[1] + y) * box.pixels[0] + x
        memory[swizzled(pixel * row_bytes + 2 * c, row_bytes) // 2] = values
    return memory


def _plane_of(first: int, pitch: int) -> slice:
    return slice(first, None, pitch)


def computed(problem: HaloProblem, config: HaloConfig, a: Array, b: Array) -> Array:
    """The output pixels of all phases as the kernel computes them."""
    layout, row_bytes = layout_of(problem, config), config.row_bytes
    phases = len(problem.phases)
    c = np.full((phases, *reversed(problem.sizes), b.shape[2]), np.nan)
    chunks = [slice(i, i + config.chunk) for i in range(0, problem.in_channels, config.chunk)]
    m = np.arange(layout.tiles * 64)[:, None]
    steps = zip(tiles_of(problem, config), (config.cols, config.rows, 1), strict=True)
    starts = [range(0, count * step, step) for count, step in steps]
    of_slice = len(problem.taps) // len(layout.slices)
    for *first, image in product(*starts, range(problem.sizes[-1])):
        sums = np.zeros((phases, len(m), b.shape[2]))
        for chunk, (number, planes) in product(chunks, enumerate(layout.slices)):
            place = np.array((*first, image))
            memory = stage_in_memory(problem, config, planes, a[..., chunk], place)
            for i in range(number * of_slice, (number + 1) * of_slice):
                tap = layout.taps[i]
                pixel = tap.shift + m // 8 * tap.group + m % 8
                for phase, matrix in enumerate(problem.taps[i][1]):
                    if matrix is not None:
                        weights = b[matrix][chunk]
                        k = np.arange(len(weights))[None]
                        read = memory[swizzled(pixel * row_bytes + 2 * k, row_bytes) // 2]
                        sums[phase] += read @ weights
        for phase, i in product(range(phases), range(len(m))):
            y, x = divmod(i, layout.line)
            place = (first[0] + x, first[1] + y, first[2])
            inside = x < config.cols and y < config.rows
            sizes = problem.phases[phase][0]
            if inside and all(j < size for j, size in zip(place, sizes, strict=False)):
                where = (phase, image, place[2], place[1], place[0])
                assert np.isnan(c[where]).all(), "stored twice"
                c[where] = sums[phase][i]
    return c


def wanted(problem: HaloProblem, a: Array, b: Array) -> Array:
    """The sum over taps, from the contraction's own numbers."""
    sizes = problem.sizes
    c = np.zeros((len(problem.phases), *reversed(sizes), b.shape[2]))
    for at, matrices in problem.taps:
        taken = a
        for axis, offset in enumerate(at):
            row = np.arange(sizes[axis]) * problem.pitch[axis] + problem.corner[axis] + offset
            inside = (row >= 0) & (row < problem.extents[axis])
            picked = np.take(taken, np.where(inside, row, 0), axis=3 - axis)
            shape = [1] * 5
            shape[3 - axis] = -1
            taken = picked * inside.reshape(shape)
        for phase, matrix in enumerate(matrices):
            if matrix is not None:
                c[phase] += taken @ b[matrix]
    for phase, (of_phase, _) in enumerate(problem.phases):
        outside = np.ones(c.shape[1:5], bool)
        outside[tuple(slice(size) for size in of_phase[::-1])] = False
        c[phase][outside] = np.nan
    return c


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([8, 16, 24, 32, 40, 64]),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(2, 4),
    st.integers(0, 4),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([FORWARD, BACKWARD_DATA]),
    st.data(),
)
def test_instructions_read_what_taps_read(
    channels: int,
    spatial: list[int],
    taps: int,
    pad: int,
    dilation: int,
    stride: int,
    direction: int,
    data: st.DataObject,
) -> None:
    assume(min(spatial) + 2 * pad >= (taps - 1) * dilation + 1)
    text = line("f16", 2, channels, channels, spatial, taps, pad, stride, direction, dilation)
    found = readings(text)
    # None: no gradient reaches the input.
    assume(len(found) == 1 and not isinstance(found[0], Refusal))
    (found,) = found
    assert not isinstance(found, Refusal)
    configs = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assume(not isinstance(configs, Refusal))
    assert not isinstance(configs, Refusal)
    config = data.draw(st.sampled_from(configs))
    problem = problem_of(found.contraction)
    assert not isinstance(problem, Refusal)
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (*reversed(problem.extents), channels)).astype(float)
    b = rng.integers(-4, 5, (problem.matrices, channels, 2)).astype(float)
    np.testing.assert_array_equal(computed(problem, config, a, b), wanted(problem, a, b))


@pytest.mark.parametrize(
    ("channels", "chunk"), [(8, 16), (16, 16), (24, 32), (40, 64), (64, 64), (96, 32)]
)
def test_chunks(channels: int, chunk: int) -> None:
    found = reading(line("f16", 2, channels, 64, (9, 9), 3, 1, 1, FORWARD))
    configs = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    assert configs[0].chunk == chunk


def test_a_patch_has_a_line_of_the_box_for_every_group() -> None:
    problem = of_line(IMAGES)
    patch, lines = Layout.of(problem, 8, 8), Layout.of(problem, 4, 14)
    assert (patch.boxes, patch.line, patch.tiles) == ((Box((10, 10, 1), 0),), 8, 1)
    assert (lines.boxes, lines.line, lines.tiles) == ((Box((16, 6, 1), 0),), 16, 1)
    assert patch.taps[5] == Tap(12, 10)
    assert lines.taps[5] == Tap(18, 8)


def test_taps_of_a_stride_are_shifts_of_planes() -> None:
    problem = of_line(line("f16", 2, 32, 64, (13, 15), 3, 1, 2, FORWARD))
    layout = Layout.of(problem, 8, 8)
    # Columns -1, 1, … and 0, 2, …; rows alike.
    assert [(plane.first[:2], plane.at[:2]) for plane in layout.slices[0]] == [
        ((1, 1), (-1, -1)),
        ((0, 1), (0, -1)),
        ((1, 0), (-1, 0)),
        ((0, 0), (0, 0)),
    ]
    assert [box.pixels for box in layout.boxes] == [(9, 9, 1), (8, 9, 1), (9, 8, 1), (8, 8, 1)]
    assert [plane.extents for plane in layout.planes] == [
        (7, 6, 1),
        (8, 6, 1),
        (7, 7, 1),
        (8, 7, 1),
    ]
    assert layout.taps[:3] == (Tap(0, 9), Tap(88, 8), Tap(1, 9))


def test_with_a_stride_a_stage_has_one_slice() -> None:
    layout = Layout.of(of_line(line("f16", 2, 32, 64, (9, 13, 15), 3, 1, 2, FORWARD)), 8, 8)
    assert [planes[0].at[2] for planes in layout.slices] == [-1, 0, 0]
    assert [planes[0].first[2] for planes in layout.slices] == [1, 0, 1]
    assert {box.pixels[2] for box in layout.boxes} == {1}
    assert len(layout.planes) == 8


def test_a_group_of_phases_has_the_taps_of_any() -> None:
    text = line("f16", 2, 16, 32, (8, 8, 8), 3, 1, 2)
    problem = of_line(text)
    config = HaloConfig(8, 8, 32, 64, 2, 4, 32, 132)
    assert (len(problem.phases), problem.run, len(problem.taps)) == (8, 2, 8)
    # Planes of dX with an even number have no tap that reads the next plane of dY.
    assert sum(map(len, used_groups(problem, config))) == 4 + 8
    assert sum(map(len, used_groups(problem, replace(config, columns=16)))) == 27


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line("f16", 2, 64, 64, (9, 9), 1, 0, 1), "read a single pixel"),
        (line("f16", 2, 64, 64, (9, 9), 2, 0, 2), "read a single pixel"),
        (line("f16", 2, 64, 64, (9, 9), 2, 0, 3), "zero-filled outputs"),
        (line("f16", 2, 512, 512, (9, 9), 3, 1, 1), "leave no stages"),
        (line("f16", 2, 64, 64, (30, 30), 23, 11, 1), "too many to unroll"),
        (line("f16", 2, 20, 64, (8, 8), 3, 1, 1), "multiples of 8 elements"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    found = reading(text)
    refused = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_other_architectures_are_refused() -> None:
    refused = SM90_HALO_IMPLICIT_GEMM.candidates(
        reading(VOLUME), target_of("sm_80", 108, 163 << 10)
    )
    assert isinstance(refused, Refusal)
    assert "sm_80 has no wgmma" in refused.reason


def test_configs_print_and_parse() -> None:
    config = HaloConfig(8, 8, 64, 64, 2, 4, 64, 132)
    text = (
        "sm90_halo_implicit_gemm 8x8 chunk=64 columns=64 stages=2 consumers=4 store=64 blocks=132"
    )
    assert str(config) == text
    assert HaloConfig.parse(text) == config
    for wrong in ("chunk=8", "columns=24", "stages=1", "consumers=5", "store=8"):
        key = wrong.partition("=")[0]
        words = [wrong if word.startswith(key) else word for word in text.split()]
        with pytest.raises(ValueError, match=wrong):
            HaloConfig.parse(" ".join(words))


@pytest.mark.parametrize(
    ("text", "config", "reason"),
    [
        (IMAGES, "8x8 chunk=64 columns=64 stages=9 consumers=4 store=64", "bytes of shared memory"),
        (IMAGES, "8x8 chunk=64 columns=64 stages=2 consumers=4 store=48", "do not divide"),
        (IMAGES, "16x8 chunk=64 columns=64 stages=2 consumers=4 store=64", "exceed its registers"),
        (PHASES, "8x8 chunk=32 columns=48 stages=2 consumers=2 store=16", "do not divide 8 phases"),
        (PHASES, "8x8 chunk=32 columns=64 stages=2 consumers=2 store=64", "do not divide 32"),
        (STRIDED, "8x8 chunk=16 columns=64 stages=2 consumers=2 store=64", "local memory"),
        (IMAGES, "1x255 chunk=64 columns=64 stages=2 consumers=2 store=64", "is no box"),
    ],
)
def test_illegal_configs(text: str, config: str, reason: str) -> None:
    found = reading(text)
    parsed = HaloConfig.parse(f"sm90_halo_implicit_gemm {config} blocks=132")
    refused = launch.kernels(found.contraction, found.epilogue, parsed, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("text", "consumers"),
    [
        *product([IMAGES, line("bf16", 3, 72, 136, (131,), 4, 1, 1)], [2, 3, 4]),
        (VOLUME, 3),
        (line("f16", 2, 96, 128, (28, 28), 3, 1, 1, FORWARD), 3),
        *product([STRIDED], [2, 3]),
        *product([PHASES], [2, 3]),
        (line("f16", 2, 32, 64, (9, 10, 12), 3, 1, 2), 2),
    ],
)
def test_kernels_compile_without_spills(text: str, consumers: int) -> None:
    nvrtc_or_skip()
    found = reading(text)
    configs = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    config = max(
        (config for config in configs if config.consumers == consumers),
        key=lambda c: (layout_of(of_line(text), c).tiles * c.columns, c.columns),
    )
    plan = launch.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (kernel,) = plan.kernels
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert not usage.spill_bytes + usage.stack_bytes
    assert not usage.is_serial
