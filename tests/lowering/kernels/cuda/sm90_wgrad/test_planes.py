"""Plans of the wgmma template for gradients of weights whose pixels are contiguous: which pixels
its copies bring together, what is refused, and that its kernels compile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from contraction_products import products_of
from contraction_readings import reading, readings
from conv_lines import NCHW, PLANES
from gpu import nvrtc_or_skip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import TensorMap
from convir.lowering.kernels.cuda.sm90_wgrad import candidates, launch, problem
from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import kernel_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contraction_products import Products

    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.sm90_wgrad.planes import PlaneMap, Planes
    from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem

PIXELS = "--in_layout NHWC --fil_layout NCHW --out_layout NCHW"
"""Of C's pixels alone are neighbours contiguous."""
VOLUME = "--in_layout NCDHW --fil_layout NCDHW --out_layout NCDHW"
TIME = "--in_layout NCW --fil_layout NCW --out_layout NCW"

POINTWISE = f"convbfp16 -n 32 -c 512 -H 28 -W 28 -k 512 -y 1 -x 1 -F 4 {NCHW}"
COLUMN = f"convfp16 -n 8 -c 72 -H 32 -W 48 -k 136 -y 3 -x 1 -p 1 -F 4 {NCHW}"
WINDOW = f"convbfp16 -n 8 -c 128 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1 -F 4 {PIXELS}"
SLICES = (
    "convfp16 --spatial_dim 3 -n 2 -c 64 --in_d 9 -H 16 -W 8 -k 64 --fil_d 3 -y 3 -x 1 --pad_d 1 "
    "-p 1 -q 0 --conv_stride_d 2 -u 1 -v 1 --dilation_d 1 -l 1 -j 1 -F 4 "
) + VOLUME
DILATED = f"convbfp16 --spatial_dim 1 -n 4 -c 40 -W 128 -k 24 -x 3 -q 8 -v 1 -j 8 -F 4 {TIME}"
TF32 = f"conv -n 4 -c 72 -H 20 -W 20 -k 136 -y 1 -x 1 -F 4 {NCHW}"


def contraction_of(text: str) -> Contraction:
    """What the template sees of a line; f32 may be rounded to TF32."""
    found = reading(text).contraction
    return replace(found, tf32=True) if found.a.type == "f32" else found


def planned(spec: Contraction) -> tuple[WgradProblem, Planes]:
    found = problem.problem_of(spec)
    assert not isinstance(found, Refusal), found.reason
    assert found.planes is not None
    return found, found.planes


def element(each: PlaneMap, channel: int, at: Sequence[int]) -> int | None:
    """The element at a place of a tensor map, None outside of it, where copies have zeros."""
    place = (at[0], channel, *at[1:])
    if not all(0 <= x < size for x, size in zip(place, each.sizes, strict=True)):
        return None
    strides = zip(place, (1, *each.strides), strict=True)
    return each.offset + sum(x * stride for x, stride in strides)


def rows_of(spec: Contraction, found: WgradProblem, pixel: int, tap: Sequence[int]) -> int | None:
    """The row of A, channels innermost, that output pixel `pixel` of all images has at a tap."""
    rows = found.rows
    if not rows.slides:
        return pixel * rows.row_stride if pixel < rows.rows else None
    row = 0
    for slide, axis, number in zip(rows.slides, found.tap_axes, tap, strict=False):
        pixel, x = divmod(pixel, slide.size)
        x = x * slide.step + slide.corner + axis.first_offset + number * axis.step
        if not 0 <= x < slide.extent:
            return None
        row += x * slide.row_stride
    return row + pixel * rows.row_stride if pixel < rows.rows else None


def copied_products(spec: Contraction) -> Products:
    """The products of what a kernel's copies bring together, step by step."""
    found, planes = planned(spec)
    sizes = (planes.line_steps, *planes.outer, planes.images.size)
    products: Products = Counter()
    for step, tap in product(
        range(planes.steps), product(*(range(a.taps) for a in found.tap_axes))
    ):
        at: list[int] = []
        for size in sizes[:-1]:
            step, x = divmod(step, size)
            at.append(x)
        weight = found.first_weight
        weight += sum(x * axis.weight_step for x, axis in zip(tap, found.tap_axes, strict=False))
        for pixel in range(planes.block_k):
            of_c = (at[0] * planes.block_k + pixel, *at[1:], step)
            for column, channel in product(range(spec.out_channels), range(spec.in_channels)):
                c = element(planes.c, column, of_c)
                if planes.a is None:
                    # A copy of an image's last pixels goes on in the next one, beside zeros of C.
                    number = step * planes.axes[0].size + of_c[0]
                    a = rows_of(spec, found, number, tap)
                    a = None if a is None else a + channel
                else:
                    slid = zip(of_c, found.rows.slides, found.tap_axes, tap, strict=False)
                    of_a = [
                        x * slide.step + slide.corner + axis.first_offset + number * axis.step
                        for x, slide, axis, number in slid
                    ]
                    a = element(planes.a, channel, [*of_a, step])
                if a is not None and c is not None:
                    b = weight + channel * found.in_channel_stride
                    products[a, b + column * found.out_channel_stride, c] += 1
    return products


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Lines of one to three axes, the innermost of which has rows of whole 16 bytes or not."""
    rank = draw(st.integers(1, 3))
    words = [f"--spatial_dim {rank} -n {draw(st.integers(1, 2))} -c 2 -k 3"]
    names = [
        ("--in_d", "--fil_d", "--pad_d", "--conv_stride_d", "--dilation_d"),
        ("-H", "-y", "-p", "-u", "-l"),
        ("-W", "-x", "-q", "-v", "-j"),
    ][3 - rank :]
    for i, (size, window, pad, stride, dilation) in enumerate(names):
        is_inner = i == rank - 1
        taps, apart, around = (
            draw(st.integers(1, 3)),
            draw(st.integers(1, 2)),
            draw(st.integers(0, 3)),
        )
        length = draw(st.sampled_from([8, 16, 72]) if is_inner else st.integers(1, 4))
        if is_inner and draw(st.booleans()):
            # As many pixels of C.
            assume((taps - 1) * apart % 2 == 0)
            around = (taps - 1) * apart // 2
        step = 1 if is_inner else draw(st.integers(1, 2))
        assume(length + 2 * around > (taps - 1) * apart)
        words.append(f"{size} {length} {window} {taps} {pad} {around} {stride} {step}")
        words.append(f"{dilation} {apart}")
    first = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank]
    last = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
    layout = draw(st.sampled_from([first, first, last]))
    layouts = f"--in_layout {layout} --fil_layout {first} --out_layout {first}"
    kind = draw(st.sampled_from(["convfp16", "conv"]))
    return f"{kind} {' '.join(words)} -F 4 {layouts}"


def _never(_: Planes) -> bool:
    return False


@settings(deadline=None, max_examples=60)
@given(lines())
def test_copies_bring_together_what_is_multiplied(text: str) -> None:
    # Some have weights that no pixel meets: two kernels, or none of the family's.
    (found, *others) = readings(text)
    assume(not others and not isinstance(found, Refusal))
    spec = contraction_of(text)
    assume(spec.result == "B")
    with pytest.MonkeyPatch.context() as patch:
        # Taps at any distance: what copies of them bring does not depend on where they begin.
        patch.setattr(problem, "SHIFT_BYTES", 1)
        patch.setattr(problem, "_reads_behind_lines", _never)
        patch.setattr(problem, "ALIGNMENT", 1)
        assume(not isinstance(problem.problem_of(spec), Refusal))
        assert copied_products(spec) == products_of(spec, {})


@pytest.mark.parametrize("text", [POINTWISE, COLUMN, WINDOW, SLICES, DILATED, TF32])
def test_copies_of_lines_fit_tensor_maps(text: str) -> None:
    spec = contraction_of(text)
    _, planes = planned(spec)
    config = Sm90WgradConfig.parse(text_of("64x64 4 1 split-k:2:reduce-scatter 1:4"))
    plan = launch.kernels(spec, reading(text).epilogue, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    maps = [each for each in plan.kernels[0].arguments if isinstance(each, TensorMap)]
    # Of channels that are innermost the map is an im2col one.
    assert len(maps) == (1 if planes.a is None else 2)
    for each in maps:
        assert len(each.sizes) == len(each.box) == len(each.strides) + 1 <= 5
        assert not any(stride % 16 for stride in (*each.strides, each.offset))
        assert each.box[0] * (4 if each.element == "f32" else 2) == each.swizzle == 128
        assert each.is_tf32 == (each.element == "f32")


def test_lines_are_as_long_as_no_tap_reaches_across() -> None:
    def lengths(text: str) -> tuple[int, ...]:
        return tuple(axis.size for axis in planned(contraction_of(text))[1].axes)

    assert lengths(POINTWISE) == (28 * 28,)
    assert lengths(COLUMN) == (32 * 48,)
    assert lengths(SLICES) == (16 * 8, 5)
    # C alone has no taps.
    assert lengths(WINDOW) == (28 * 28,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # Rows, and images, of other than whole 16 bytes.
        (POINTWISE.replace("-H 28 -W 28", "-H 7 -W 7"), "multiples of 16 bytes"),
        (POINTWISE.replace("-H 28 -W 28", "-H 14 -W 14"), "multiples of 16 bytes"),
        (TF32.replace("-H 20 -W 20", "-H 7 -W 7"), "multiples of 16 bytes"),
        (COLUMN.replace("-W 48", "-W 50"), "taps shift lines"),
        (WINDOW.replace("-H 28 -W 28", "-H 27 -W 27"), "multiples of 16 bytes"),
        # Windows along lines.
        (WINDOW.replace("NHWC", "NCHW"), "multiples of 16 bytes"),
        (WINDOW.replace("NHWC", "NCHW").replace("-W 28", "-W 32"), "taps shift lines"),
        (DILATED.replace("-j 8", "-j 4").replace("-q 8", "-q 4"), "taps shift lines"),
        (COLUMN.replace("-H 32", "-H 30"), "no whole steps of 64"),
        (DILATED.replace("-W 128", "-W 104"), "no whole steps of 64"),
        # 3 channels beside planes of C.
        (WINDOW.replace("-c 128", "-c 3"), "rows of A do not start at multiples of 8"),
        (POINTWISE + " -u 2 -v 2", "it has strides"),
        # Pixels of A alone are contiguous; those of C alone, in f32.
        (WINDOW.replace(PIXELS, PLANES), "innermost"),
        (POINTWISE + " -g 32", "groups of 16 and 16 channels fill less"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    found = problem.problem_of(contraction_of(text))
    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_f32_is_rounded_only_where_that_is_allowed() -> None:
    found = reading(TF32)
    config = Sm90WgradConfig.parse(text_of("128x128 4 1 data-parallel"))
    for spec, products in ((found.contraction, 3), (contraction_of(TF32), 1)):
        right, wrong = (
            launch.kernels(spec, found.epilogue, replace(config, products=each), DEFAULT_TARGET)
            for each in (products, 4 - products)
        )
        assert not isinstance(right, Refusal), right.reason
        maps = [each for each in right.kernels[0].arguments if isinstance(each, TensorMap)]
        assert [each.is_tf32 for each in maps] == [products == 1] * 2
        assert isinstance(wrong, Refusal)
        assert "three products are those of f32" in wrong.reason


@pytest.mark.parametrize("text", [POINTWISE, COLUMN, WINDOW, SLICES, DILATED, TF32])
def test_every_planned_config_is_legal(text: str) -> None:
    spec, epilogue = contraction_of(text), reading(text).epilogue
    configs = candidates.plan(spec, epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    found, _ = planned(spec)
    for config in configs:
        assert not candidates.spills(found, config)
        plan = launch.kernels(spec, epilogue, config, DEFAULT_TARGET)
        assert not isinstance(plan, Refusal), plan.reason


def text_of(text: str) -> str:
    """The text of the config `TILE STAGES CLUSTER PARTITION [ROLES]`."""
    tile, stages, cluster, partition, *roles = text.split()
    return (
        f"sm90_wgrad {tile} stages={stages} roles={roles[0] if roles else '4:8'} "
        f"cluster={cluster} partition={partition} blocks=132"
    )


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (POINTWISE, "128x128 6 1 split-k:8:reduce-scatter"),
        (POINTWISE, "256x128 4 1 data-parallel"),
        (POINTWISE, "64x64 8 1 split-k:2:tree 1:4"),
        (POINTWISE, "128x128 6 3 split-k:3:reduce-scatter"),
        (POINTWISE, "128x160 5 1 stream-k:tree"),
        (POINTWISE, "128x128 6 1 split-k:8:reduce-scatter 0:8"),
        (COLUMN, "128x128 6 1 split-k:4:reduce-scatter"),
        (COLUMN, "64x192 5 1 data-parallel 1:4"),
        (WINDOW, "128x192 5 1 split-k:8:reduce-scatter"),
        (WINDOW, "256x128 4 1 stream-k:linear"),
        (WINDOW, "128x64 7 5 split-k:5:reduce-scatter"),
        (SLICES, "64x128 8 1 split-k:3:linear 1:4"),
        (DILATED, "64x64 8 1 split-k:2:reduce-scatter 1:4"),
        (TF32, "128x128 6 1 split-k:4:reduce-scatter"),
        (TF32, "256x128 4 1 data-parallel"),
    ],
)
def test_kernels_compile_without_spills_or_waits_between_products(text: str, config: str) -> None:
    nvrtc_or_skip()
    chosen = Sm90WgradConfig.parse(text_of(config))
    spec = contraction_of(text)
    assert not candidates.spills(planned(spec)[0], chosen)
    plan = launch.kernels(spec, reading(text).epilogue, chosen, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (kernel,) = plan.kernels
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert not usage.spill_bytes
    assert not usage.is_serial


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (WINDOW, "128x192 5 1 split-k:16:reduce-scatter"),
        (POINTWISE, "128x192 5 2 split-k:2:reduce-scatter"),
        (WINDOW, "256x128 4 1 split-k:4:linear"),
        (WINDOW, "128x256 4 1 split-k:16:reduce-scatter"),
    ],
)
def test_configs_that_spill_are_not_planned(text: str, config: str) -> None:
    chosen = Sm90WgradConfig.parse(text_of(config))
    assert candidates.spills(planned(contraction_of(text))[0], chosen)
