"""Plans of joined phases: what is stored where, which rows meet which matrices, what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from contraction_readings import reading, readings
from conv_lines import conv_line as line
from gpu import nvrtc_or_skip
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_fused_dgrad import launch as sm90_fused_dgrad
from convir.lowering.kernels.cuda.sm90_fused_dgrad.config import FusedDgradConfig
from convir.lowering.kernels.cuda.sm90_fused_dgrad.family import SM90_FUSED_DGRAD
from convir.lowering.kernels.cuda.sm90_fused_dgrad.problem import problem_of
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of
from convir.runtime.cuda.toolchain.compile import kernel_usage

VOLUME = line("bf16", 2, 32, 64, (8, 10, 12), 3, 1, 2)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([32, 64]),
    st.lists(st.integers(3, 9), min_size=1, max_size=3),
    st.integers(2, 5),
    st.integers(0, 2),
    st.integers(2, 3),
)
def test_every_element_is_stored_once(
    c: int, spatial: list[int], taps: int, pad: int, stride: int
) -> None:
    assume(min(spatial) + 2 * pad >= taps)
    found, *others = readings(line("f16", 2, c, 16, spatial, taps, pad, stride))
    assume(not others and not isinstance(found, Refusal))
    assert not isinstance(found, Refusal)
    problem = problem_of(found.contraction)
    assume(not isinstance(problem, Refusal))
    assert not isinstance(problem, Refusal)
    stored = [
        np.arange(c) + offset + int(np.dot(x, problem.strides))
        for x in product(*map(range, problem.sizes))
        for sizes, offset in problem.phases
        if all(i < size for i, size in zip(x, sizes, strict=True))
    ]
    expected = np.arange(2 * c * int(np.prod(spatial)))
    assert np.array_equal(np.sort(np.concatenate(stored)), expected)
    products = sum(phase.taps for phase in found.contraction.phases)
    assert problem.taps == products > len(problem.shifts)


def test_a_shift_has_a_matrix_for_every_phase_that_reads_it() -> None:
    problem = problem_of(reading(line("f16", 2, 64, 64, (8, 10), 3, 1, 2)).contraction)
    assert not isinstance(problem, Refusal)
    assert problem.shifts == ((0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0))
    assert problem.matrices == ((4, 5, 7, 8), (-1, -1, 1, 2), (-1, 3, -1, 6), (-1, -1, -1, 0))
    assert problem.run == 2


def test_rows_of_a_volume_are_loaded_for_eight_shifts() -> None:
    problem = problem_of(reading(VOLUME).contraction)
    assert not isinstance(problem, Refusal)
    assert (len(problem.shifts), problem.taps, len(problem.phases)) == (8, 27, 8)
    assert problem.weight_bytes == 27 * 32 * 64 * 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line("f16", 2, 64, 64, (8, 8), 3, 1, 1), "a single phase"),
        (line("f16", 2, 64, 64, (9, 9), 1, 0, 2), "zero-filled outputs"),
        (line("f16", 2, 128, 64, (8, 8), 3, 1, 2), "4 phases of 128 output channels"),
        (line("f16", 2, 40, 64, (8, 8), 3, 1, 2), "4 phases of 40 output channels"),
        (line("f16", 2, 64, 1024, (8, 8), 3, 1, 2), "leave no stages"),
        (line("f16", 2, 64, 64, (9,), 2, 1, 2), "share rows"),
        (line("f16", 2, 64, 64, (8, 8), 2, 0, 2), "differ in their weights alone"),
        (line("f16", 2, 20, 64, (8, 8), 3, 1, 2), "multiples of 8 elements"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    found = reading(text)
    refused = sm90_fused_dgrad.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_other_architectures_are_refused() -> None:
    found = reading(VOLUME)
    gpu = target_of("sm_80", 108, 163 << 10)
    refused = SM90_FUSED_DGRAD.candidates(found, gpu)
    assert isinstance(refused, Refusal)
    assert "sm_80 has no wgmma" in refused.reason


def test_configs_print_and_parse() -> None:
    config = FusedDgradConfig(6, 64, 132)
    assert str(config) == "sm90_fused_dgrad stages=6 store=64 blocks=132"
    assert FusedDgradConfig.parse(str(config)) == config
    for wrong in (
        "sm90_fused_dgrad stages=6",
        "sm90_fused_dgrad 64 stages=6 store=64 blocks=132",
        "sm90_fused_dgrad stages=1 store=64 blocks=132",
        "sm90_fused_dgrad stages=6 store=48 blocks=132",
        "sm90_implicit_gemm stages=6 store=64 blocks=132",
    ):
        allowed = "stages=1: at least 2|store=48: one of 64, 32"
        with pytest.raises(ValueError, match=rf"it is written|is not a config|{allowed}"):
            FusedDgradConfig.parse(wrong)


@pytest.mark.parametrize(
    ("text", "config", "reason"),
    [
        (VOLUME, "stages=9 store=64", "bytes of shared memory"),
        (line("f16", 2, 32, 64, (40,), 7, 2, 3), "stages=4 store=64", "different output pixels"),
    ],
)
def test_illegal_configs(text: str, config: str, reason: str) -> None:
    found = reading(text)
    parsed = FusedDgradConfig.parse(f"sm90_fused_dgrad {config} blocks=132")
    problem = problem_of(found.contraction)
    assert not isinstance(problem, Refusal)
    refused = sm90_fused_dgrad.kernels(found.contraction, found.epilogue, parsed, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


@pytest.mark.parametrize(
    "text",
    [
        VOLUME,
        line("f16", 2, 64, 128, (13, 15), 3, 1, 2),
        line("f16", 2, 64, 128, (13, 15), 3, 1, 2).replace(
            "--fil_layout NHWC", "--fil_layout CHWN"
        ),
        line("bf16", 3, 32, 136, (131,), 4, 1, 2),
    ],
)
def test_kernels_compile_without_spills(text: str) -> None:
    nvrtc_or_skip()
    found = reading(text)
    configs = sm90_fused_dgrad.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal), configs.reason
    plan = sm90_fused_dgrad.kernels(found.contraction, found.epilogue, configs[0], DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (launch,) = plan.kernels
    assert not kernel_usage(launch.source, DEFAULT_TARGET.arch)[launch.symbol].spill_bytes
