"""Splits of tiles over blocks: which are legal, proposed and chosen, and what they launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_readings import dgrad_line, reading
from conv_lines import FORWARD, conv_line
from cuda_contractions import refusal_of_text
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.sm90_implicit_gemm import candidates as sm90_candidates
from convir.lowering.kernels.cuda.sm90_implicit_gemm import launch as wgmma
from convir.lowering.kernels.cuda.sm90_implicit_gemm.config import Sm90ImplicitGemmConfig
from convir.lowering.kernels.cuda.sm90_implicit_gemm.predict import predict
from convir.lowering.kernels.cuda.sm90_implicit_gemm.problem import problem_of
from convir.lowering.kernels.cuda.tile_schedule.schedule import MIN_STEPS
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import kernel_usage

DEEP = conv_line("f16", 3, 328, 520, (7, 6), 3, 1, 1)
"""126 output pixels of 328 channels: 81 steps of a tile."""
PHASES = conv_line("bf16", 2, 128, 328, (9, 9), 3, 1, 2)
"""Four phases, of 24, 12, 12 and 6 steps."""
PIECES = conv_line("bf16", 2, 64, 584, (8, 6), 2, 0, 2)


def text_of(config: str) -> str:
    """The text of the config `TILE STAGES SCHEDULE STORE SPLITS`."""
    tile, stages, schedule, store, splits = config.split()
    return (
        f"sm90_implicit_gemm {tile} stages={stages} schedule={schedule} store={store} blocks=132 "
        f"splits={splits}"
    )


def plan_of(line: str, config: str) -> KernelPlan:
    found = reading(line)
    parsed = Sm90ImplicitGemmConfig.parse(text_of(config))
    plan = wgmma.kernels(found.contraction, found.epilogue, parsed, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    return plan


@pytest.mark.fast
def test_splits_are_written_where_there_are_some() -> None:
    text = text_of("128x64 6 cooperative 16 5")
    config = Sm90ImplicitGemmConfig.parse(text)
    assert config.splits == 5
    assert str(config) == text
    assert str(replace(config, splits=1)) == text.removesuffix(" splits=5")
    with pytest.raises(ValueError, match="splits=0: at least 1"):
        Sm90ImplicitGemmConfig.parse(text.replace("splits=5", "splits=0"))


@pytest.mark.parametrize(
    ("line", "config", "blocks", "counters"),
    [
        # One row of tiles, three columns of them; two warpgroups have counters of their own.
        (DEEP, "128x128 4 cooperative 32 7", 3 * 7, 3 * 2),
        (DEEP, "64x160 4 pingpong 32 11", 2 * 3 * 11, 2 * 3),
        (PHASES, "64x64 4 pingpong 16 5", 4 * 2 * 5, 4 * 2),
    ],
)
def test_launches(line: str, config: str, blocks: int, counters: int) -> None:
    plan = plan_of(line, config)
    (kernel,) = plan.kernels
    rows, columns = map(int, config.split(maxsplit=1)[0].split("x"))
    assert kernel.grid == (blocks, 1, 1)
    assert kernel.is_cooperative
    assert plan.workspace == (blocks * rows * columns * 4,)
    assert plan.state == (counters * 256,)
    pointers = [each.place for each in kernel.arguments if isinstance(each, Pointer)]
    assert pointers == ["c", "workspace", "state"]


def test_whole_tiles_need_no_memory_beside() -> None:
    plan = plan_of(DEEP, "128x128 4 cooperative 32 1")
    assert (plan.workspace, plan.state) == ((), ())
    assert not plan.kernels[0].is_cooperative


@pytest.mark.parametrize(
    ("line", "config", "reason"),
    [
        (DEEP, "128x128 4 cooperative 128 45", "135 units do not run at the same time"),
        (conv_line("f16", 2, 64, 64, (9, 9), 3, 1, 1), "64x64 4 pingpong 64 10",
         "9 steps are not divided into 10"),
        # The last phase has one tap, of six steps.
        (PHASES, "64x128 4 pingpong 32 7", "6 steps are not divided into 7"),
        (dgrad_line(2, 128, 640, (10, 11), 1, 0, 2), "128x128 4 cooperative 128 2",
         "zero-filled outputs are stored beside whole tiles, not their splits"),
    ],
)  # fmt: skip
def test_refusals(line: str, config: str, reason: str) -> None:
    found = reading(line)
    refused = refusal_of_text(wgmma.kernels, found, Sm90ImplicitGemmConfig.parse, text_of(config))
    assert reason in refused


@pytest.mark.parametrize(
    "line", [DEEP, PHASES, PIECES, conv_line("f16", 1, 64, 64, (8, 8), 3, 1, 1)]
)
def test_candidates_fill_the_gpu_once(line: str) -> None:
    found = reading(line)
    configs = sm90_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    problem = problem_of(found.contraction)
    assert not isinstance(configs, Refusal)
    assert not isinstance(problem, Refusal)
    whole = {replace(each, splits=1, store_channels=16) for each in configs if each.splits == 1}
    for config in (each for each in configs if each.splits > 1):
        assert replace(config, splits=1, store_channels=16) in whole
        plan = wgmma.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
        assert isinstance(plan, KernelPlan)
        assert plan.kernels[0].grid[0] <= DEFAULT_TARGET.multiprocessors
        assert problem.least_steps // config.splits >= MIN_STEPS
        assert plan.workspace[0] <= 64 << 20


def test_only_few_tiles_are_split() -> None:
    found = reading(conv_line("f16", 32, 256, 256, (28, 28), 3, 1, 1))
    configs = sm90_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    assert all(config.splits == 1 for config in configs)


@pytest.mark.parametrize(
    ("line", "splits"),
    [
        (conv_line("bf16", 2, 320, 320, (6, 6, 6), 3, 1, 1, FORWARD), True),
        (conv_line("bf16", 2, 320, 320, (6, 6, 6), 3, 1, 1), True),
        (conv_line("f16", 32, 256, 2376, (7, 7), 3, 1, 1), True),
        # A tap of 64 channels is not worth meeting for.
        (conv_line("f16", 2, 64, 64, (12, 12), 1, 0, 1, FORWARD), False),
    ],
)
def test_deep_reductions_over_few_rows_are_split(line: str, *, splits: bool) -> None:
    found = reading(line)
    configs = sm90_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    spec, epilogue = found.contraction, found.epilogue
    best = min(configs, key=lambda each: predict(spec, epilogue, each, DEFAULT_TARGET))
    assert (best.splits > 1) == splits


def test_one_cubin_computes_every_batch() -> None:
    lines = [DEEP.replace("-n 3 ", f"-n {batch} ") for batch in (1, 3, 12)]
    sources = {plan_of(line, "64x160 4 pingpong 32 4").kernels[0].source for line in lines}
    assert len(sources) == 1


@pytest.mark.parametrize(
    ("line", "config"),
    [
        (DEEP, "128x256 4 cooperative 16 16"),
        (DEEP, "256x128 4 cooperative 32 10"),
        (PHASES, "64x128 8 pingpong 16 6"),
        (PIECES, "128x128 6 cooperative 64 3"),
        (conv_line("bf16", 2, 320, 320, (6, 6, 6), 3, 1, 1, FORWARD), "64x160 6 pingpong 80 9"),
    ],
)
def test_kernels_compile_without_spills(line: str, config: str) -> None:
    nvrtc_or_skip()
    (launch,) = plan_of(line, config).kernels
    usage = kernel_usage(launch.source, DEFAULT_TARGET.arch)[launch.symbol]
    assert not usage.spill_bytes
    assert not usage.is_serial
