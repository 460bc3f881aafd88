"""TF32 whose channels are innermost, which warps transpose: which configs, and the code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from contraction_readings import reading
from conv_lines import NCHW, NHWC
from f32_wgrad_lines import PIXELS, config_text
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import Im2colMap, Pointer, Scalar, TensorMap
from convir.lowering.kernels.cuda.sm90_wgrad import candidates, launch
from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
from convir.lowering.kernels.cuda.sm90_wgrad.problem import problem_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import kernel_usage

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.launch import CudaKernel

WINDOW = "conv -n 4 -c 72 -H 28 -W 28 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4"
LINES = [
    f"{WINDOW} {NHWC}",
    f"{WINDOW} {PIXELS}",
    f"{WINDOW} {NHWC}".replace("-y 3 -x 3 -p 1 -q 1", "-y 1 -x 1"),
]


def spec_of(line: str) -> Contraction:
    return replace(reading(line).contraction, tf32=True)


def config_of(text: str) -> Sm90WgradConfig:
    """The config of `TILE STAGES PARTITION`."""
    return Sm90WgradConfig.parse(config_text(text))


def kernel_of(line: str, config: Sm90WgradConfig) -> CudaKernel:
    found = reading(line)
    plan = launch.kernels(spec_of(line), found.epilogue, config, DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (kernel,) = plan.kernels
    return kernel


def test_copies_round_to_tf32() -> None:
    for line in LINES:
        arguments = kernel_of(line, config_of("128x256 3 data-parallel")).arguments
        maps = [each for each in arguments if isinstance(each, TensorMap | Im2colMap)]
        assert [each.is_tf32 for each in maps] == [True, True]
        assert Pointer("a") not in arguments


def test_pixels_of_a_that_are_contiguous_are_read_as_they_lie() -> None:
    line = f"{WINDOW} {NCHW}".replace("-y 3 -x 3 -p 1 -q 1", "-y 1 -x 1")
    for each, transposes in ((line, False), (LINES[0], True)):
        problem = problem_of(spec_of(each))
        assert not isinstance(problem, Refusal)
        assert problem.transposes_a == transposes


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("256x128 3 data-parallel", "tiles of f32 are"),
        ("128x128 2 data-parallel", "2 stages are too few for f32"),
        ("128x256 5 data-parallel", "bytes of shared memory"),
    ],
)
def test_illegal_configs(config: str, reason: str) -> None:
    found = reading(LINES[0])
    refused = launch.kernels(spec_of(LINES[0]), found.epilogue, config_of(config), DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_other_roles_and_clusters_are_refused() -> None:
    found = reading(LINES[0])
    config = config_of("128x64 4 split-k:2:reduce-scatter")
    for changed, reason in (
        (replace(config, roles=(0, 8)), "roles of f32 are 4:8"),
        (replace(config, cluster=2), "no clusters of f32"),
    ):
        refused = launch.kernels(spec_of(LINES[0]), found.epilogue, changed, DEFAULT_TARGET)
        assert isinstance(refused, Refusal)
        assert reason in refused.reason


def test_the_batch_is_an_argument() -> None:
    for line in LINES:
        kernels = [
            kernel_of(
                line.replace("-n 4", f"-n {n}"), config_of("128x128 4 split-k:3:reduce-scatter")
            )
            for n in (4, 9)
        ]
        assert kernels[0].source == kernels[1].source
        given = [[x.value for x in each.arguments if isinstance(x, Scalar)] for each in kernels]
        assert given[0] != given[1]


@pytest.mark.parametrize(
    ("line", "config"),
    [
        (LINES[0], "128x128 6 data-parallel"),
        (LINES[0], "128x256 4 split-k:5:reduce-scatter"),
        (LINES[0], "64x256 3 split-k:3:linear"),
        (LINES[0], "128x64 6 stream-k:linear"),
        (LINES[1], "128x128 4 split-k:3:reduce-scatter"),
        (LINES[1], "128x256 4 data-parallel"),
        (LINES[2], "128x256 4 split-k:5:reduce-scatter"),
        (LINES[2], "64x128 5 split-k:2:tree"),
    ],
)
def test_kernels_compile_without_spills_or_waits_between_products(line: str, config: str) -> None:
    nvrtc_or_skip()
    kernel = kernel_of(line, config_of(config))
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert not usage.spill_bytes
    assert not usage.is_serial


def test_every_planned_config_is_legal() -> None:
    for line in LINES:
        configs = candidates.plan(spec_of(line), reading(line).epilogue, DEFAULT_TARGET)
        assert not isinstance(configs, Refusal), configs.reason
        for config in configs:
            kernel_of(line, config)
