"""Tiles whose steps several blocks share, on a GPU: every element, and the same bits every time.

Results and workspace are poisoned, and counters are left clean. Steps that splits do not divide,
splits of one step, more splits than columns to store, tails of rows, columns and channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conv_cases import small_integers, torch_answer
from conv_lines import FORWARD, conv_line
from family_problems import module_of, problem_of, reading_of
from fused_epilogues import BIAS, RELU, RESIDUAL, SCALE, Fused
from gpu import cupy_or_skip
from plan_runs import assert_computes, check_config

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.lowering.kernels.cuda.sm90_implicit_gemm.family import SM90_IMPLICIT_GEMM
from convir.reference import evaluate
from convir.runtime.cuda import toolkit

pytestmark = pytest.mark.gpu


def text_of(config: str) -> str:
    """The text of the config `TILE STAGES SCHEDULE STORE SPLITS`."""
    tile, stages, schedule, store, splits = config.split()
    return (
        f"sm90_implicit_gemm {tile} stages={stages} schedule={schedule} store={store} blocks=132 "
        f"splits={splits}"
    )


DEEP = conv_line("f16", 3, 328, 520, (7, 6), 3, 1, 1)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        # 81 steps, tails of rows, columns and channels, both roles, all heights of tiles.
        (DEEP, "64x64 8 pingpong 16 2"),
        (DEEP, "64x160 4 pingpong 32 11"),
        (DEEP, "128x64 4 pingpong 64 4"),
        (DEEP, "128x96 4 cooperative 48 8"),
        (DEEP, "128x128 4 cooperative 32 7"),
        (DEEP, "128x256 3 cooperative 16 16"),
        (DEEP, "256x64 4 cooperative 16 13"),
        (DEEP, "256x128 3 cooperative 128 5"),
        # Splits of one step, and of fewer steps than stages.
        (conv_line("f16", 2, 64, 64, (9, 11), 3, 1, 1), "64x64 8 pingpong 16 9"),
        (conv_line("f16", 2, 64, 72, (9, 11), 3, 1, 1), "128x64 8 cooperative 16 5"),
        # More splits than there are columns to store: some blocks store nothing.
        (conv_line("f16", 1, 24, 520, (5, 5), 3, 1, 1), "64x32 8 pingpong 32 40"),
        (conv_line("bf16", 1, 8, 520, (5, 5), 3, 1, 1), "128x32 8 cooperative 16 81"),
        (conv_line("bf16", 1, 8, 5000, (3, 3), 1, 0, 1), "64x32 8 pingpong 16 79"),
        # Plain matrices, one to three axes, forward and backward.
        (conv_line("f16", 3, 1032, 200, (5, 9), 1, 0, 1, FORWARD), "64x96 6 pingpong 32 5"),
        (conv_line("bf16", 2, 1032, 72, (130,), 5, 2, 1, FORWARD), "128x96 6 cooperative 48 17"),
        (conv_line("bf16", 2, 136, 200, (3, 4, 5), 3, 1, 1, FORWARD), "64x128 6 pingpong 64 13"),
        (conv_line("bf16", 2, 136, 200, (3, 4, 5), 3, 1, 1), "128x96 6 cooperative 32 13"),
        (conv_line("bf16", 2, 320, 320, (6, 6, 6), 3, 1, 1), "64x160 6 pingpong 16 9"),
        (conv_line("f16", 5, 128, 136, (14, 11), 3, 1, 2, FORWARD), "64x96 6 pingpong 16 8"),
        # Even filters, padding beyond the filter, dilation.
        (conv_line("f16", 2, 264, 72, (9, 10), 2, 1, 1, FORWARD), "64x96 6 pingpong 32 6"),
        (conv_line("f16", 2, 264, 72, (5, 6), 3, 5, 1, FORWARD), "128x96 6 cooperative 32 6"),
        (conv_line("f16", 2, 264, 72, (12, 11), 3, 2, 1, FORWARD, 2), "64x96 6 pingpong 32 6"),
        # Phases of 24, 12, 12 and 6 steps, and phases as columns of one product.
        (conv_line("bf16", 2, 128, 328, (9, 9), 3, 1, 2), "64x64 4 pingpong 16 5"),
        (conv_line("bf16", 2, 128, 328, (9, 9), 3, 1, 2), "128x128 4 cooperative 32 6"),
        (conv_line("bf16", 2, 128, 328, (10, 8), 4, 1, 2), "128x96 4 cooperative 32 5"),
        (conv_line("bf16", 2, 64, 584, (8, 6), 2, 0, 2), "128x256 3 cooperative 64 7"),
        (conv_line("bf16", 2, 96, 584, (8, 6), 2, 0, 2), "64x192 4 pingpong 32 3"),
        (conv_line("f16", 32, 256, 2376, (7, 7), 3, 1, 1), "128x128 6 cooperative 16 5"),
    ],
)
def test_kernel(text: str, config: str) -> None:
    check_config(text, text_of(config))


@pytest.mark.parametrize(
    "config",
    [
        "64x160 6 pingpong 16 9",
        "64x64 8 pingpong 64 3",
        "128x128 6 cooperative 16 11",
        "256x64 4 cooperative 16 13",
    ],
)
def test_the_same_bits_every_time(config: str) -> None:
    text = conv_line("bf16", 2, 320, 320, (6, 6, 6), 3, 1, 1)
    check_config(text, text_of(config), exact=False, times=21)


DEEP_FORWARD = Fused("fprop", "padding(1, 1)", (2, 9, 7, 328), (72, 3, 3, 328), (2, 9, 7, 72))
PIECES = Fused("dgrad", "strides(2, 2)", (2, 5, 6, 584), (584, 2, 2, 64), (2, 10, 12, 64))
PHASES = Fused("dgrad", "strides(2, 2) padding(1, 1)", (2, 7, 6, 328), (328, 3, 3, 96),
               (2, 13, 12, 96))  # fmt: skip


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    "steps", [(BIAS,), (RESIDUAL, RELU), (BIAS, SCALE, RESIDUAL, RELU)], ids=str
)
@pytest.mark.parametrize(
    ("case", "config"),
    [
        (DEEP_FORWARD, "64x96 6 pingpong 16 9"),
        (DEEP_FORWARD, "128x64 6 cooperative 64 7"),
        (PIECES, "128x128 6 cooperative 32 5"),
        (PHASES, "64x64 6 pingpong 32 6"),
    ],
)
def test_epilogues_follow_the_sum_of_all_splits(
    case: Fused, config: str, steps: tuple[object, ...], dtype: str
) -> None:
    cupy_or_skip()
    text = case.text(dtype, steps)  # pyright: ignore[reportArgumentType]
    reading = reading_of(read_module(text))
    assert not isinstance(reading, Refusal)
    shapes = case.shapes(steps)  # pyright: ignore[reportArgumentType]
    arguments = [small_integers(shape, dtype, i) for i, shape in enumerate(shapes)]
    (expected,) = evaluate(read_module(text), "main", arguments)
    parsed = SM90_IMPLICIT_GEMM.parse(text_of(config))
    plan = SM90_IMPLICIT_GEMM.launch(reading.problem, parsed, toolkit.gpu())
    assert not isinstance(plan, Refusal), plan.reason
    assert_computes(reading, plan, arguments, np.asarray(expected), dtype)


@pytest.mark.parametrize("config", ["64x64 6 pingpong 32 7", "128x128 4 cooperative 16 9"])
def test_tf32(config: str) -> None:
    cupy_or_skip()
    line = conv_line("f16", 2, 160, 96, (9, 7), 3, 1, 1, FORWARD).replace("convfp16", "conv")
    problem = problem_of(line)
    found = reading_of(module_of(problem))
    assert not isinstance(found, Refusal)
    contraction = replace(found.problem.contraction, tf32=True)
    reading = replace(found, problem=replace(found.problem, contraction=contraction))
    parsed = SM90_IMPLICIT_GEMM.parse(text_of(config))
    plan = SM90_IMPLICIT_GEMM.launch(reading.problem, parsed, toolkit.gpu())
    assert not isinstance(plan, Refusal), plan.reason
    lhs, rhs = (small_integers(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    assert_computes(reading, plan, [lhs, rhs], torch_answer(problem, lhs, rhs), "f32")
