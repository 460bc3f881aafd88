"""Plans of the wgmma template for gradients of weights: taps, configs, and what is refused."""

from __future__ import annotations

from itertools import product

import pytest
from contraction_readings import reading
from conv_lines import BACKWARD_WEIGHT, conv_line
from cuda_contractions import refusal_of_text
from gpu import nvrtc_or_skip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import Im2colMap, TensorMap
from convir.lowering.kernels.cuda.sm90_wgrad import candidates as sm90_wgrad_candidates
from convir.lowering.kernels.cuda.sm90_wgrad import launch as sm90_wgrad
from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
from convir.lowering.kernels.cuda.sm90_wgrad.family import SM90_WGRAD
from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem, problem_of
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of
from convir.runtime.cuda.toolchain.compile import kernel_usage


def line(
    n: int,
    c: int,
    k: int,
    spatial: tuple[int, ...],
    taps: int,
    pad: int,
    stride: int,
    dilation: int = 1,
) -> str:
    return conv_line("f16", n, c, k, spatial, taps, pad, stride, BACKWARD_WEIGHT, dilation)


def planned(text: str) -> WgradProblem:
    problem = problem_of(reading(text).contraction)
    assert not isinstance(problem, Refusal), problem.reason
    return problem


def config_of(text: str) -> Sm90WgradConfig:
    """The config `TILE STAGES CLUSTER PARTITION [ROLES]`."""
    return Sm90WgradConfig.parse(text_of(text))


def text_of(text: str) -> str:
    """The text of the config `TILE STAGES CLUSTER PARTITION [ROLES]`."""
    tile, stages, cluster, partition, *roles = text.split()
    return (
        f"sm90_wgrad {tile} stages={stages} roles={roles[0] if roles else '4:8'} "
        f"cluster={cluster} partition={partition} blocks=132"
    )


def _meets_every_tap(size: int, taps: int, pad: int, stride: int, dilation: int) -> bool:
    pixels = range(-pad, size + pad - (taps - 1) * dilation, stride)
    return all(
        any(0 <= position + tap * dilation < size for position in pixels) for tap in range(taps)
    )


@pytest.mark.parametrize(
    ("text", "config", "take_turns"),
    [
        (line(32, 128, 128, (28, 28), 1, 0, 1), "64x64 8 1 split-k:24:reduce-scatter 1:4", True),
        (line(32, 128, 128, (28, 28), 1, 0, 1), "64x64 8 1 stream-k:linear 1:4", False),
        (line(32, 512, 512, (28, 28), 1, 0, 1), "128x128 6 1 split-k:4:reduce-scatter", False),
        (line(32, 128, 128, (14, 14), 3, 1, 1), "128x64 8 1 split-k:7:reduce-scatter", False),
    ],
)
def test_parts_of_products_that_are_read_once_take_turns(
    text: str, config: str, take_turns: bool
) -> None:
    found = reading(text)
    plan = sm90_wgrad.kernels(found.contraction, found.epilogue, config_of(config), DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (kernel,) = plan.kernels
    assert f"kInterleavesSplits = {str(take_turns).lower()};" in kernel.source


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(5, 12), st.integers(5, 12)),
    st.integers(2, 4),
    st.integers(0, 5),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_taps_read_and_write_what_the_contraction_says(
    spatial: tuple[int, int], taps: int, pad: int, stride: int, dilation: int
) -> None:
    assume(min(spatial) + 2 * pad > (taps - 1) * dilation)
    # The only position reads no row through some tap: its gradient is a hole of the result.
    assume(all(_meets_every_tap(size, taps, pad, stride, dilation) for size in spatial))
    text = line(2, 8, 16, spatial, taps, pad, stride, dilation)
    contraction = reading(text).contraction
    # With fewer positions than taps it is read as a forward convolution.
    assume(contraction.result == "B")
    (phase,) = contraction.phases
    problem = planned(text)
    slides = problem.rows.slides
    found = {
        (
            tuple(
                slide.corner + axis.first_offset + i * axis.step
                for slide, axis, i in zip(slides, problem.tap_axes, tap, strict=True)
            ),
            problem.first_weight
            + sum(i * axis.weight_step for axis, i in zip(problem.tap_axes, tap, strict=True)),
        )
        for tap in product(*(range(axis.taps) for axis in problem.tap_axes))
    }
    inner = list(reversed(phase.axes[1:]))
    rows = product(*(axis.tap_rows for axis in inner))
    weights = product(*(axis.tap_weights for axis in inner))
    assert found == {(row, sum(weight)) for row, weight in zip(rows, weights, strict=True)}
    assert [slide.size for slide in slides] == [axis.size for axis in inner]


def test_one_by_one_filters_are_a_plain_product() -> None:
    problem = planned(line(2, 64, 72, (9, 11), 1, 0, 1))
    assert (problem.rows.slides, problem.pixels.value, problem.taps) == ((), 198, 1)
    strided = planned(line(2, 64, 72, (9, 11), 1, 0, 2))
    assert (len(strided.rows.slides), strided.pixels.value, strided.steps) == (2, 60, 1)


def test_configs_print_and_parse() -> None:
    text = (
        "sm90_wgrad 256x128 stages=4 roles=4:8 cluster=7 "
        "partition=split-k:7:reduce-scatter blocks=132"
    )
    config = Sm90WgradConfig.parse(text)
    assert str(config) == text
    assert (config.block_m, config.block_n, config.partition.splits) == (256, 128, 7)
    for wrong, reason in (
        ("sm90_wgrad 128x256", "and lacks stages"),
        (text.replace("split-k:7:reduce-scatter", "most"), "is not a partition"),
        (text.replace("cluster=7", "cluster=many"), "cluster=many: 1 to 8"),
        (text.replace("roles=4:8", "roles=4"), "roles=4: one of 0:4"),
        (text + " depth=3", "without 'depth'"),
        (text.replace("sm90_wgrad", "wgmma"), "not a config of sm90_wgrad"),
    ):
        with pytest.raises(ValueError, match=reason):
            Sm90WgradConfig.parse(wrong)


@pytest.mark.parametrize(
    ("text", "drained"),
    [
        ("128x128 4 3 split-k:3:reduce-scatter", 0),
        ("128x128 5 3 split-k:3:reduce-scatter", 1),
        ("128x128 6 3 split-k:3:reduce-scatter", 2),
        ("128x160 5 4 split-k:4:reduce-scatter", 2),
        ("128x64 7 5 split-k:5:reduce-scatter", 0),
        ("64x128 8 5 split-k:5:reduce-scatter 1:4", 1),
        ("128x128 5 1 split-k:3:reduce-scatter", None),
    ],
)
def test_clusters_push_sums_beside_stages_or_over_them(text: str, drained: int | None) -> None:
    config = config_of(text)
    assert config.drained == drained
    assert config.refusal() is None
    assert config.shared_bytes <= DEFAULT_TARGET.shared_bytes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("96x128 4 1 data-parallel", "block_m=96: one of 64, 128, 256"),
        ("128x96 4 1 data-parallel", "block_n=96: one of 64, 128, 160, 192, 256"),
        ("64x192 4 1 data-parallel", "64 for each of 2 warpgroups"),
        ("64x160 4 1 data-parallel", "64 for each of 2 warpgroups"),
        ("128x128 2 1 data-parallel 0:4", "exceed the registers"),
        ("128x128 4 1 data-parallel 0:2", "roles=0:2: one of 0:4, 0:8"),
        ("256x192 2 1 data-parallel", "exceed the registers"),
        ("128x128 2 1 data-parallel 1:4", "exceed the registers"),
        ("128x128 4 1 data-parallel 2:8", "roles=2:8: one of 0:4, 0:8"),
        ("128x128 4 3 split-k:3:linear", "cluster=3 needs partition=split-k:3:reduce-scatter"),
        ("128x128 4 3 split-k:6:reduce-scatter", "cluster=3 needs partition=split-k:3:"),
        ("256x128 3 3 split-k:3:reduce-scatter", "no room for the accumulators"),
        ("256x128 4 7 split-k:7:reduce-scatter", "no room for the accumulators"),
        ("128x128 1 1 data-parallel", "stages=1: at least 2"),
        ("256x128 5 1 data-parallel", "bytes of shared memory"),
        ("128x128 4 1 split-k:9:linear", "8 steps are not divided into 9"),
        ("64x128 4 1 split-k:8:reduce-scatter", "units do not run at the same time"),
    ],
)
def test_illegal_configs(text: str, reason: str) -> None:
    found = reading(line(2, 256, 1024, (16, 16), 3, 1, 1))
    parse = Sm90WgradConfig.parse
    assert reason in refusal_of_text(sm90_wgrad.kernels, found, parse, text_of(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(2, 20, 64, (9, 9), 3, 1, 1), "multiples of 8 elements"),
        (line(2, 64, 36, (9, 9), 3, 1, 1), "multiples of 8 elements"),
        (line(2, 64, 64, (9, 9), 3, 1, 1).replace("fp16", "fp64"), "not both f16, both bf16 or"),
        (line(1, 64, 64, (9, 9), 3, 1, 1).replace("fp16", ""), "of 81 is shorter than 96"),
        (line(2, 64, 64, (9, 9), 3, 1, 1) + " -g 4", "groups of 16 and 16 channels fill less"),
        (line(2, 64, 64, (64, 64), 3, 1, 9), "steps are too far apart"),
        (line(2, 64, 64, (9, 9), 3, 1, 1).replace("fil_layout NHWC", "fil_layout NCHW"), "inner"),
        (line(2, 64, 64, (9, 9), 3, 1, 1).replace("-F 4", "-F 1"), "does not compute the gradient"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    found = reading(text)
    refused = sm90_wgrad_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_misses_bring_neighbours_of_what_the_cache_keeps() -> None:
    def promotions(size: int) -> list[int]:
        found = reading(line(32, 256, 64, (size, size), 1, 0, 1))
        config = config_of("64x64 8 1 split-k:24:reduce-scatter 1:4")
        plan = sm90_wgrad.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
        assert not isinstance(plan, Refusal)
        arguments = plan.kernels[0].arguments
        return [each.promotion for each in arguments if isinstance(each, TensorMap | Im2colMap)]

    assert promotions(28) == [256, 256]
    assert promotions(64) == [256, 128]  # C, of 64 columns, and A, of 256


def test_other_architectures_are_refused() -> None:
    found = reading(line(2, 64, 64, (9, 9), 3, 1, 1))
    refused = SM90_WGRAD.candidates(found, target_of("sm_80", 108, 163 << 10))
    assert isinstance(refused, Refusal)
    assert "sm_80 has no wgmma" in refused.reason


@pytest.mark.parametrize(
    "text",
    [
        line(2, 8, 8, (5, 6), 3, 1, 1),
        line(32, 256, 256, (13, 13), 3, 1, 1),
        line(4, 1024, 1024, (7, 7), 1, 0, 1),
        line(32, 256, 2376, (7, 7), 3, 1, 1),
    ],
)
def test_every_planned_config_is_legal(text: str) -> None:
    found = reading(text)
    configs = sm90_wgrad_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    assert len(set(configs)) == len(configs) > 1
    for config in configs:
        assert Sm90WgradConfig.parse(str(config)) == config
        plan = sm90_wgrad.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
        assert not isinstance(plan, Refusal), plan.reason


@pytest.mark.parametrize(
    ("text", "second"),
    [
        # All of a part fits into the ring; products that take longer than asking for copies.
        (line(4, 1024, 1024, (7, 7), 1, 0, 1), "64x128 8 1 data-parallel 0:4"),
        (line(32, 256, 256, (100, 100), 3, 1, 1), "256x128 4 1 split-k:7:reduce-scatter 0:8"),
        # Short products that follow each other; stages that drain; blocks with several parts.
        (line(32, 128, 128, (28, 28), 1, 0, 1), None),
        (line(32, 256, 256, (13, 13), 3, 1, 1), None),
        (line(32, 256, 2376, (50, 50), 3, 1, 1), None),
    ],
)
def test_a_uniform_pipeline_is_tried_where_it_hides_what_it_asks(
    text: str, second: str | None
) -> None:
    found = reading(text)
    configs = sm90_wgrad_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    assert configs[0].roles[0]
    uniform = [config for config in configs if not config.roles[0]]
    assert uniform == ([] if second is None else [configs[1]])
    assert second is None or configs[1] == config_of(second)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (line(2, 64, 64, (9, 11), 1, 0, 1), "64x128 3 1 split-k:2:reduce-scatter"),
        (line(2, 72, 136, (9, 11), 3, 1, 1), "128x256 4 1 data-parallel"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "256x128 4 1 stream-k:linear"),
        (line(3, 64, 96, (128,), 5, 4, 2), "128x192 4 1 split-k:2:tree"),
        (line(2, 32, 64, (6, 8, 7), 3, 1, 2), "64x256 4 1 split-k:2:linear"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "256x128 4 1 stream-k:tree 4:8"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "128x64 6 1 stream-k:linear 4:4"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "128x160 5 1 data-parallel 4:8"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "128x128 5 3 split-k:3:reduce-scatter 4:8"),
        (line(32, 128, 128, (14, 14), 3, 1, 1), "128x64 7 5 split-k:5:reduce-scatter 4:8"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "128x160 5 4 split-k:4:reduce-scatter 4:8"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "64x192 7 2 split-k:2:reduce-scatter 1:4"),
        (line(32, 128, 128, (14, 14), 3, 1, 1), "64x64 8 3 split-k:3:reduce-scatter 1:4"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "64x192 4 1 split-k:3:linear 1:4"),
        # A thread that multiplies asks for copies while a product is under way.
        (line(32, 128, 128, (28, 28), 1, 0, 1), "64x64 8 1 split-k:28:reduce-scatter 0:4"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "128x128 6 3 split-k:3:reduce-scatter 0:8"),
        (line(16, 128, 320, (14, 14), 3, 1, 1), "256x128 4 1 stream-k:tree 0:8"),
        (line(2, 256, 2376, (7, 7), 3, 1, 1), "128x256 4 1 stream-k:linear:blocks 0:8"),
        (line(2, 32, 64, (6, 8, 7), 3, 1, 2), "64x192 4 1 split-k:2:linear 0:4"),
    ],
)
def test_kernels_compile_without_spills_or_waits_between_products(text: str, config: str) -> None:
    nvrtc_or_skip()
    found = reading(text)
    plan = sm90_wgrad.kernels(found.contraction, found.epilogue, config_of(config), DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (launch,) = plan.kernels
    usage = kernel_usage(launch.source, DEFAULT_TARGET.arch)[launch.symbol]
    assert not usage.spill_bytes
    assert not usage.is_serial


def test_two_splits_that_one_block_adds_are_not_planned_where_they_spill() -> None:
    problem = planned(line(32, 1024, 2048, (50, 50), 1, 0, 2))
    spills = sm90_wgrad_candidates.spills
    assert spills(problem, config_of("256x128 4 1 split-k:2:linear 4:8"))
    assert not spills(problem, config_of("128x256 4 1 split-k:2:linear 4:8"))
    assert not spills(problem, config_of("256x128 4 1 split-k:3:linear 4:8"))
