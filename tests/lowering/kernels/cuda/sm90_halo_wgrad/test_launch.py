"""Gradients from halos: what instructions read of swizzled boxes, what is stored, refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from contraction_readings import reading, readings
from conv_lines import BACKWARD_WEIGHT, FORWARD
from conv_lines import conv_line as line
from gpu import nvrtc_or_skip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_halo_wgrad import candidates, launch
from convir.lowering.kernels.cuda.sm90_halo_wgrad.config import HaloWgradConfig
from convir.lowering.kernels.cuda.sm90_halo_wgrad.family import SM90_HALO_WGRAD
from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import problem_of
from convir.lowering.kernels.cuda.sm90_halo_wgrad.sets import (
    TapSet,
    box_pixels,
    channel_tiles,
    columns_of,
    sets_of,
    tap_sets,
    tiles_of,
)
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of
from convir.runtime.cuda.toolchain.compile import kernel_usage

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Axis, Contraction
    from convir.lowering.kernels.cuda.sm90_halo_wgrad.problem import HaloWgradProblem
    from convir.runtime.program import Array

VOLUME = line("bf16", 2, 32, 32, (8, 10, 12), 3, 1, 1, BACKWARD_WEIGHT)
IMAGES = line("f16", 2, 64, 64, (13, 15), 3, 1, 1, BACKWARD_WEIGHT)


def spec_of(text: str) -> Contraction:
    return reading(text).contraction


def of_line(text: str) -> HaloWgradProblem:
    problem = problem_of(spec_of(text))
    assert not isinstance(problem, Refusal), problem.reason
    return problem


def swizzled(address: Array, row_bytes: int) -> Array:
    """Where a swizzle of `row_bytes` puts an address: by its own bits, whatever begins where."""
    return address ^ (((address >> 7) & (row_bytes // 16 - 1)) << 4)


def box_in_memory(values: Array, at: tuple[int, ...], box: tuple[int, ...], channels: int) -> Array:
    """Shared memory behind a copy of a box at `at`, both with the innermost axis first.

    `values` have a batch, three axes, the innermost last, and channels.
    """
    row_bytes = 2 * channels
    x, y, z, c = np.meshgrid(*map(np.arange, (*box, channels)), indexing="ij")
    places = [i + start for i, start in zip((x, y, z), at[:3], strict=True)]
    inside = c < values.shape[-1]
    for place, extent in zip(places, values.shape[3:0:-1], strict=True):
        inside &= (place >= 0) & (place < extent)
    u, v, w = (np.where(inside, place, 0) for place in places)
    found = np.where(inside, values[at[3], w, v, u, np.where(inside, c, 0)], 0)
    pixel = (z * box[1] + y) * box[0] + x
    memory = np.full(pixel.size + 4096, np.nan)
    memory[swizzled(pixel * row_bytes + 2 * c, row_bytes) // 2] = found
    return memory


def operand(memory: Array, pixels: Array, blocks: Array, channels: int) -> Array:
    """What an instruction reads: a row for each of `blocks` and its channels, a column for each
    pixel."""
    c = np.arange(channels)
    address = (blocks[:, None, None] + pixels[None, None, :]) * 2 * channels + 2 * c[None, :, None]
    return memory[swizzled(address, 2 * channels) // 2].reshape(-1, len(pixels))


def computed(problem: HaloWgradProblem, config: HaloWgradConfig, a: Array, c: Array) -> Array:
    """B as the kernel computes it, one value an element; channels as its last axes."""
    size = max(
        sum(max(axis.tap_weights) for axis in problem.axes)
        + (problem.in_channels - 1) * problem.b_in_channel
        + (problem.out_channels - 1) * problem.b_out_channel
        + 1,
        1,
    )
    b = np.full(size, np.nan)
    (of_a, of_c), sets = config.channels, tap_sets(problem, config)
    span_x, span_y, span_z = problem.span
    box_a = (config.cols + span_x, config.rows + span_y, config.depth)
    box_c = (config.cols, config.rows, config.depth + span_z)
    assert (np.prod(box_a), np.prod(box_c)) == box_pixels(problem, config)
    lines = product(range(config.depth), range(config.rows), range(0, config.cols, 8))
    eights = [(z * box_a[1] + y) * box_a[0] + x for z, y, x in lines]
    pixels_a = np.array(eights)[:, None] + np.arange(8)
    pixels_c = np.arange(len(eights) * 8)
    slices = np.arange(len(problem.shifts)) * problem.dilation * config.rows * config.cols
    starts = [
        range(0, count * step, step)
        for count, step in zip(
            tiles_of(problem, config), (config.cols, config.rows, config.depth), strict=True
        )
    ]
    tiles_a, tiles_c = channel_tiles(problem, config)
    for tile_a, tile_c in product(range(tiles_a), range(tiles_c)):
        some_a = a[..., tile_a * of_a : (tile_a + 1) * of_a]
        some_c = c[..., tile_c * of_c : (tile_c + 1) * of_c]
        sums = np.zeros((len(sets), 64, columns_of(problem, config)))
        for x, y, z, image in product(*starts, range(a.shape[0])):
            corner = problem.corner
            memory_a = box_in_memory(some_a, (x + corner[0], y + corner[1], z, image), box_a, of_a)
            memory_c = box_in_memory(some_c, (x, y, z + corner[2], image), box_c, of_c)
            for i, each in enumerate(sets):
                blocks = each.pixel + np.arange(config.taps_of_set) * each.apart
                rows = operand(memory_a, pixels_a.ravel(), blocks, of_a)
                # What no tap's accumulators read may be anything.
                rows = np.nan_to_num(rows)
                sums[i] += rows @ operand(memory_c, pixels_c, slices, of_c).T
        for i, row, column in product(*map(range, sums.shape)):
            tap = sets[i].taps[row // of_a]
            in_channel, out_channel = tile_a * of_a + row % of_a, tile_c * of_c + column % of_c
            if tap is None or in_channel >= problem.in_channels:
                continue
            if out_channel < problem.out_channels:
                place = tap + problem.shifts[column // of_c]
                place += in_channel * problem.b_in_channel + out_channel * problem.b_out_channel
                assert np.isnan(b[place]), "stored twice"
                b[place] = sums[i, row, column]
    return b


def wanted(spec: Contraction, problem: HaloWgradProblem, a: Array, c: Array, b: Array) -> Array:
    """The sum over pixels, from the contraction's own numbers."""
    expected = np.full_like(b, np.nan)
    axes = problem.axes
    for taps in product(*(range(len(axis.tap_rows)) for axis in axes)):
        taken = a
        for i, (axis, tap) in enumerate(zip(axes, taps, strict=True)):
            taken = np.take(*_rows(taken, axis, tap, 3 - i), axis=3 - i) * _inside(axis, tap, 3 - i)
        product_of_tap = np.einsum("nzyxd,nzyxk->dk", taken, c)
        weight = sum(axis.tap_weights[tap] for axis, tap in zip(axes, taps, strict=True))
        for d, k in np.ndindex(product_of_tap.shape):
            expected[weight + d * spec.b.in_channel_stride + k * spec.b.out_channel_stride] = (
                product_of_tap[d, k]
            )
    return expected


def _rows(values: Array, axis: Axis, tap: int, at: int) -> tuple[Array, Array]:
    row = np.arange(axis.size) + axis.tap_rows[tap]
    return values, np.where((row >= 0) & (row < values.shape[at]), row, 0)


def _inside(axis: Axis, tap: int, at: int) -> Array:
    row = np.arange(axis.size) + axis.tap_rows[tap]
    shape = [1] * 5
    shape[at] = -1
    return ((row >= 0) & (row < axis.extent)).reshape(shape)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([16, 24, 32, 40, 64]),
    st.sampled_from([16, 24, 32, 48]),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 2),
    st.data(),
)
def test_instructions_read_what_taps_read(
    in_channels: int,
    out_channels: int,
    spatial: list[int],
    taps: int,
    pad: int,
    dilation: int,
    data: st.DataObject,
) -> None:
    assume(min(spatial) + 2 * pad >= (taps - 1) * dilation + 1)
    text = line(
        "f16", 2, in_channels, out_channels, spatial, taps, pad, 1, BACKWARD_WEIGHT, dilation
    )
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
    images = problem.images.value
    extents = [axis.extent for axis in problem.axes[::-1]]
    sizes = [axis.size for axis in problem.axes[::-1]]
    a = rng.integers(-4, 5, (images, *extents, in_channels)).astype(float)
    c = rng.integers(-4, 5, (images, *sizes, out_channels)).astype(float)
    b = computed(problem, config, a, c)
    np.testing.assert_array_equal(b, wanted(found.contraction, problem, a, c, b))


def test_sets_have_each_tap_once() -> None:
    taps = tuple((10 * y + x, 3 * y + x) for y in range(3) for x in range(3))
    assert sets_of(taps, 2) == (
        TapSet(0, 1, (0, 1)),
        TapSet(10, 1, (3, 4)),
        TapSet(20, 1, (6, 7)),
        TapSet(2, 10, (2, 5)),
        TapSet(21, 1, (None, 8)),
    )
    assert [each.taps for each in sets_of(taps, 4)] == [
        (0, 1, 2, None),
        (3, 4, 5, None),
        (6, 7, 8, None),
    ]
    assert all(len(each.taps) == 1 for each in sets_of(taps, 1))


def test_shifts_are_along_the_axis_of_the_most_taps() -> None:
    text = VOLUME.replace("--fil_d 3", "--fil_d 1").replace("--pad_d 1", "--pad_d 0")
    assert [len(axis.tap_rows) for axis in of_line(text).axes] == [3, 1, 3]
    assert [axis.size for axis in of_line(text).axes] == [12, 8, 10]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line("f16", 2, 32, 32, (9, 9), 3, 1, 1, FORWARD), "not a gradient of weights"),
        (line("f16", 2, 32, 32, (9, 9), 3, 1, 2, BACKWARD_WEIGHT), "do not read neighbouring"),
        (line("f16", 2, 256, 32, (9, 9), 3, 1, 1, BACKWARD_WEIGHT), "not 16 to 64 channels"),
        (line("f16", 2, 32, 8, (9, 9), 3, 1, 1, BACKWARD_WEIGHT), "not 16 to 64 channels"),
        (line("f16", 2, 20, 32, (9, 9), 3, 1, 1, BACKWARD_WEIGHT), "multiples of 8 elements"),
        (line("f16", 2, 32, 32, (9, 9), 1, 0, 1, BACKWARD_WEIGHT), "a single tap"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    found = reading(text)
    refused = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_other_architectures_are_refused() -> None:
    refused = SM90_HALO_WGRAD.candidates(reading(VOLUME), target_of("sm_80", 108, 163 << 10))
    assert isinstance(refused, Refusal)
    assert "sm_80 has no wgmma" in refused.reason


def test_configs_print_and_parse() -> None:
    config = HaloWgradConfig(1, 4, 32, (32, 16), 4, 2, 1, 132)
    text = "sm90_halo_wgrad 1x4x32 channels=32x16 stages=4 consumers=2 parts=1 blocks=132"
    assert str(config) == text
    assert HaloWgradConfig.parse(text) == config
    for wrong in ("channels=48x16", "stages=1", "consumers=5", "parts=0"):
        key = wrong.partition("=")[0]
        words = [wrong if word.startswith(key) else word for word in text.split()]
        with pytest.raises(ValueError, match=wrong):
            HaloWgradConfig.parse(" ".join(words))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("1x4x32 channels=32x32 stages=9 consumers=2 parts=1", "bytes of shared memory"),
        ("1x4x32 channels=32x32 stages=2 consumers=4 parts=1", "exceed its registers"),
        ("1x4x32 channels=32x32 stages=2 consumers=2 parts=3", "fewer than what multiplies"),
        ("1x3x8 channels=32x32 stages=2 consumers=2 parts=1", "no instructions of 16"),
        ("1x4x32 channels=32x64 stages=2 consumers=1 parts=1", "exceed its registers"),
    ],
)
def test_illegal_configs(config: str, reason: str) -> None:
    found = reading(VOLUME)
    parsed = HaloWgradConfig.parse(f"sm90_halo_wgrad {config} blocks=132")
    refused = launch.kernels(found.contraction, found.epilogue, parsed, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_more_blocks_than_tiles_are_not_launched() -> None:
    found = reading(line("f16", 1, 32, 32, (8, 8), 3, 1, 1, BACKWARD_WEIGHT))
    config = HaloWgradConfig(8, 1, 8, (32, 32), 2, 2, 1, 132)
    plan = launch.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal)
    (kernel,) = plan.kernels
    assert (kernel.grid, kernel.is_cooperative) == ((1, 1, 1), False)
    smaller = replace(config, depth=4)
    plan = launch.kernels(found.contraction, found.epilogue, smaller, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal)
    (kernel,) = plan.kernels
    assert (kernel.grid, kernel.is_cooperative) == ((2, 1, 1), True)


@pytest.mark.parametrize("consumers", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "text",
    [VOLUME, IMAGES, line("f16", 2, 16, 32, (9, 13, 15), 3, 1, 1, BACKWARD_WEIGHT)],
)
def test_kernels_compile_without_spills(text: str, consumers: int) -> None:
    nvrtc_or_skip()
    found = reading(text)
    configs = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    config = next((config for config in configs if config.consumers == consumers), None)
    if config is None:
        pytest.skip(f"no config has {consumers} consumers")
    plan = launch.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (kernel,) = plan.kernels
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert not usage.spill_bytes + usage.stack_bytes
    assert not usage.is_serial
