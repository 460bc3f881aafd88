"""Contractions on copies of their operands: the same products, by templates for neighbours."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from contraction_products import products_of
from cuda_contractions import contraction_of_line, contractions_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.launch import Pointer, Scalar
from convir.lowering.kernels.cuda.layout_conversion.copies import (
    Copy,
    copied,
    copy_launches,
    copyable,
)
from convir.lowering.kernels.cuda.layout_conversion.family import FAMILY
from convir.lowering.kernels.registry import FAMILIES, legal_plans
from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction, StorageType

conversion = next(template for template in FAMILIES if template.name == FAMILY)


def results_of(spec: Contraction) -> list[int]:
    """The elements of C that a contraction stores, zeros included."""
    found: list[int] = []
    for phase in spec.phases:
        sizes = (range(axis.size) for axis in phase.axes)
        for *position, group, column in product(
            *sizes, range(spec.groups), range(spec.out_channels)
        ):
            steps = (x * axis.out_stride for x, axis in zip(position, phase.axes, strict=True))
            channel = group * spec.c.group_stride + column * spec.c.stride
            found.append(phase.out_offset + sum(steps) + channel)
    return found


def place_of(copy: Copy) -> dict[int, int]:
    """The element of an operand for each element of its copy."""
    found: dict[int, int] = {}
    for position in product(*(range(size) for size, _ in copy.pixels)):
        steps = zip(position, copy.pixels, strict=True)
        planes = sum(x * stride for x, (_, stride) in steps)
        for channel in range(copy.channels):
            found[len(found)] = planes + channel * copy.stride
    return found


@st.composite
def lines(draw: st.DrawFn) -> str:
    groups, deep, wide = (
        draw(st.sampled_from([1, 2])),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
    )
    sizes = {"-n": draw(st.integers(1, 2)), "-c": groups * deep, "-k": groups * wide, "-g": groups}
    axes = [("-H", "-y", "-p", "-u", "-l"), ("-W", "-x", "-q", "-v", "-j")]
    for size, window, pad, stride, dilation in axes:
        sizes |= {
            size: draw(st.integers(1, 6)),
            window: draw(st.integers(1, 3)),
            pad: draw(st.integers(0, 2)),
            stride: draw(st.integers(1, 2)),
            dilation: draw(st.integers(1, 2)),
        }
        assume(sizes[size] + 2 * sizes[pad] > sizes[dilation] * (sizes[window] - 1))
    words = " ".join(f"{flag} {size}" for flag, size in sizes.items())
    layouts = [
        f"{flag} {draw(st.sampled_from(['NCHW', 'NHWC']))}"
        for flag in ("--in_layout", "--fil_layout", "--out_layout")
    ]
    return f"convfp16 {words} -F {draw(st.sampled_from([1, 2, 4]))} {' '.join(layouts)}"


@settings(deadline=None)
@given(lines())
def test_copies_have_the_same_products(line: str) -> None:
    (problem,) = parse_line(line).problems.values()
    found = contractions_of(problem)
    assume(len(found) == 1)
    spec = found[0].contraction
    letters = copyable(spec)
    assume(letters != "")
    moved, copies = copied(spec, letters)
    assert "".join(copy.operand for copy in copies) == letters
    places = {copy.operand: place_of(copy) for copy in copies}
    assert products_of(moved, places) == products_of(spec, {})
    for copy in copies:
        # A result's copy is all that there is of it.
        is_result = spec.result == copy.operand.upper()
        assert copy.back == is_result
        if is_result:
            written = places[copy.operand].values()
            assert sorted(written) == list(range(len(written)))
            if copy.operand == "c":
                assert sorted(results_of(moved)) == sorted(written)


PLANES = "-n 8 -c 256 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1"
NARROW_PLANES = "-n 8 -c 128 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1"


@pytest.mark.parametrize(
    ("line", "config"),
    [
        (f"convfp16 {PLANES} -g 32 -F 2", "layout_conversion abc sm90_grouped_direct "),
        (f"convfp16 {NARROW_PLANES} -g 32 -F 2", "layout_conversion ac grouped_direct "),
        (f"convfp16 {PLANES} -g 32 -F 4", "layout_conversion ac grouped_wgrad "),
        (f"convfp16 {PLANES} -F 4", "layout_conversion abc sm90_wgrad "),
        (f"convfp16 {PLANES} -u 2 -v 2 -F 2", "layout_conversion abc sm90_implicit_gemm "),
        (f"convbfp16 {PLANES} -F 1", "layout_conversion abc sm90_implicit_gemm "),
        # The result is stored as planes.
        (f"convbfp16 {PLANES} -F 1", "layout_conversion ab sm90_implicit_gemm "),
        (f"convfp16 {NARROW_PLANES} -F 2", "layout_conversion ab sm90_halo_implicit_gemm "),
        (f"convbfp16 {PLANES} -F 1 --in_layout NHWC", "layout_conversion b sm90_implicit_gemm "),
        (f"convbfp16 {PLANES} -F 1 --in_layout NHWC", "layout_conversion bc sm90_implicit_gemm "),
        (f"convbfp16 {PLANES} -F 1 --out_layout NHWC", "layout_conversion ab sm90_implicit_gemm "),
    ],
)
def test_which_template_takes_the_copies(line: str, config: str) -> None:
    problem = contraction_of_line(line)
    configs = conversion.candidates(problem, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    assert any(str(each).startswith(config) for each in configs)
    for each in configs:
        assert conversion.parse(str(each)) == each


def test_copies_come_before_and_behind() -> None:
    problem = contraction_of_line(f"convfp16 {NARROW_PLANES} -g 32 -F 2")
    plans = legal_plans(problem, DEFAULT_TARGET)
    plan = next(
        plan
        for each, plan in plans
        if str(each.config).startswith("layout_conversion ac grouped_direct ")
    )
    first, grouped, last = plan.kernels
    assert (first.symbol, last.symbol) == ("to_channels_last", "to_channels_first")
    numbers = (Scalar(8 * 28 * 28), Scalar(first.grid[0]))
    assert first.arguments == (problem.place(Pointer("a")), Pointer("workspace", 0), *numbers)
    assert last.arguments == (Pointer("workspace", 1), Pointer("output"), *numbers)
    buffers = {getattr(argument, "buffer", argument) for argument in grouped.arguments}
    assert {Pointer("workspace", 0), Pointer("workspace", 1)} < buffers
    assert plan.workspace == (2 * 8 * 128 * 28 * 28,) * 2


@st.composite
def planes(draw: st.DrawFn) -> Copy:
    """Operands whose channels are planes, whole or in rows that are apart."""
    n, c, h = draw(st.integers(1, 3)), draw(st.integers(1, 70)), draw(st.integers(1, 9))
    w = draw(st.sampled_from([1, 2, 4, 6, 7, 8, 16, 24, 56]))
    row = w + draw(st.sampled_from([0, 0, 2, 8]))
    dtype: StorageType = draw(st.sampled_from(["f16", "f32"]))
    step = draw(st.sampled_from([1, 1, 2, 3, 4]))
    if w % step != 0:
        step = 1
    gap = draw(st.sampled_from([1, step]))
    pixels = ((n, c * h * row), (h, row), (w // step, step))
    return Copy("a", dtype, pixels, c, h * row, gap=gap)


@settings(max_examples=200, deadline=None)
@given(planes())
def test_patches_of_all_threads_are_the_copy(copy: Copy) -> None:
    """As `PatchPlace` of kernel.cuh counts: every element once, and every access aligned."""
    assume(not copy.cuts_runs)
    places = place_of(copy)
    warp_pixels = 32 // copy.lanes * copy.plane_width
    tiles = -(-copy.channels // (copy.lanes * copy.patch_channels))
    found: dict[int, int] = {}
    for block, thread in product(range(copy.blocks), range(128)):
        warp, lane = divmod(thread, 32)
        pixel = (
            block // tiles * 4 * warp_pixels
            + warp * warp_pixels
            + lane // copy.lanes * copy.plane_width
        )
        channel = (block % tiles * copy.lanes + lane % copy.lanes) * copy.patch_channels
        if pixel >= copy.rows or channel >= copy.channels:
            continue
        for c in range(channel, channel + copy.patch_channels):
            first = places[pixel * copy.channels + c]
            # Pixels between those of the copy are read too, none outside of the rows.
            width, step = copy.plane_width * copy.plane_step, copy.plane_step
            assert first % width == 0
            assert step == 1 or first + width <= max(places.values()) + step
            for p in range(copy.plane_width):
                element = (pixel + p) * copy.channels + c
                assert places[element] == first + p * step
                assert found.setdefault(element, first + p * step) == first + p * step
        elements = copy.plane_width * copy.patch_channels
        for i in range(0, elements, copy.channel_width):
            p, c = divmod(i, copy.patch_channels)
            start = (pixel + p) * copy.channels + channel + c
            assert start % copy.channel_width == 0
            ends = divmod(i + copy.channel_width - 1, copy.patch_channels)
            assert ends[0] == p or copy.patch_channels == copy.channels
    assert found == places


@pytest.mark.parametrize(
    ("copy", "patch", "lanes"),
    [
        # Vectors of 16 bytes on both sides; a warp has whole lines of pixels.
        (Copy("a", "f16", ((8, 64 * 3136), (3136, 1)), 64, 3136), (8, 8), 8),
        (Copy("a", "f32", ((8, 64 * 4096), (4096, 1)), 64, 4096), (4, 4), 8),
        # Odd planes are read by aligned vectors, and shifted.
        (Copy("a", "f16", ((8, 512 * 49), (49, 1)), 512, 49), (8, 8), 8),
        # Runs of nine pixels would be half empty: they are read element by element.
        (Copy("a", "f16", ((8, 512 * 9), (9, 1)), 512, 9), (1, 8), 2),
        # All of few channels: eight pixels of three are three vectors.
        (Copy("a", "f16", ((8, 3 * 3136), (3136, 1)), 3, 3136), (8, 3), 1),
        (Copy("a", "f16", ((8, 21 * 3136), (3136, 1)), 21, 3136), (8, 21), 1),
        # Every second pixel of even rows.
        (Copy("a", "f16", ((8, 512 * 784), (14, 56), (14, 2)), 512, 784, gap=2), (2, 8), 8),
        # 25 patches of channels: lanes of a narrower warp are idle less often.
        (Copy("a", "f16", ((8, 200 * 64), (64, 1)), 200, 64), (8, 8), 4),
    ],
)
def test_patches(copy: Copy, patch: tuple[int, int], lanes: int) -> None:
    assert (copy.plane_width, copy.patch_channels) == patch
    assert copy.lanes == lanes


@pytest.mark.parametrize(
    ("window", "pixels"),
    [
        # Every second pixel of every second row.
        ("-y 1 -x 1 -u 2 -v 2", 2 * 14 * 14),
        ("-y 3 -x 1 -p 1 -u 2 -v 2", 2 * 28 * 14),
        ("-y 3 -x 3 -p 2 -q 2 -u 2 -v 2 -l 2 -j 2", 2 * 14 * 14),
        # The pixels between them are read too.
        ("-y 1 -x 1 -p 1 -q 1 -u 2 -v 2", 2 * 28 * 28),
        ("-y 3 -x 3 -p 1 -q 1 -u 2 -v 2", 2 * 28 * 28),
    ],
)
def test_pixels_that_no_tap_reads_are_not_copied(window: str, pixels: int) -> None:
    spec = contraction_of_line(f"convfp16 -n 2 -c 64 -H 28 -W 28 -k 64 {window} -F 1").contraction
    _, (copy,) = copied(spec, "a")
    assert copy.rows == pixels


def test_copies_before_a_kernel_are_one_launch() -> None:
    spec = contraction_of_line(f"convfp16 {PLANES} -F 1").contraction
    _, copies = copied(spec, "abc")
    places = [(copy, Pointer("workspace", i)) for i, copy in enumerate(copies)]
    (before,), (after,) = copy_launches(places), copy_launches(places, back=True)
    rows, weights, result = (copy.blocks for copy in copies)
    assert before.grid == (rows + weights, 1, 1)
    assert after.grid == (result, 1, 1)
    # The blocks of the smaller copy come first.
    ends = [each.value for each in before.arguments if isinstance(each, Scalar)][1::2]
    assert ends == [min(rows, weights), rows + weights]
    assert copy_launches([]) == ()


def test_batches_share_the_code() -> None:
    one, two = (
        copy_launches([(Copy("a", "f16", ((n, 12544), (196, 1)), 64, 196), Pointer("workspace"))])
        for n in (3, 200)
    )
    assert [each.source for each in one] == [each.source for each in two]
    assert one[0].grid < two[0].grid


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layout_conversion", "operands are one of"),
        ("layout_conversion ca grouped_direct 64x28", "operands are one of"),
        ("layout_conversion ac", "there is no family of ''"),
        ("layout_conversion ac warp-magic 1", "there is no family of 'warp-magic 1'"),
        (
            "layout_conversion ac layout_conversion ac sm80_implicit_gemm",
            "there is no family of 'layout_conversion ac sm80_implicit_gemm'",
        ),
        (
            "layout_conversion ac sm80_implicit_gemm 128x8x32",
            "there is no family of 'sm80_implicit_gemm",
        ),
        (
            "layout_conversion ac sm90_implicit_gemm 128",
            "it is written sm90_implicit_gemm BLOCK_MxBLOCK_N",
        ),
    ],
)
def test_what_is_no_config(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        conversion.parse(text)


LAST = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"


def test_channels_that_are_neighbours_are_not_copied() -> None:
    problem = contraction_of_line(f"convfp16 {PLANES} -g 32 -F 2 {LAST}")
    assert isinstance(conversion.candidates(problem, DEFAULT_TARGET), Refusal)
    gradient = contraction_of_line(f"convfp16 {PLANES} -F 4 {LAST}")
    refused = conversion.candidates(gradient, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert "contiguous channels" in refused.reason
    moved = contraction_of_line(f"convfp16 {PLANES} -g 32 -F 2")
    configs = conversion.candidates(moved, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    assert isinstance(conversion.launch(problem, configs[0], DEFAULT_TARGET), Refusal)


def test_a_filter_alone_is_copied_where_a_family_wants_its_copy() -> None:
    line = f"convfp16 {PLANES} -g 32 -F 2 --in_layout NHWC --out_layout NHWC"
    configs = conversion.candidates(contraction_of_line(line), DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    assert {str(config).split()[1] for config in configs} == {"b"}
