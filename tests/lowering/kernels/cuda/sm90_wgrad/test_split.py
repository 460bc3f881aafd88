"""f32 in IEEE arithmetic as three products of TF32 by wgmma: which problems and configs, and its
code."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_readings import reading
from conv_lines import NCHW, NHWC
from f32_wgrad_lines import PIXELS, config_text
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import Im2colMap, Pointer, Scalar, TensorMap
from convir.lowering.kernels.cuda.sm90_wgrad import candidates, launch
from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig
from convir.lowering.kernels.cuda.sm90_wgrad.problem import WgradProblem, problem_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import kernel_usage

WINDOW = "conv -n 4 -c 72 -H 28 -W 28 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4"
POINTS = "conv -n 4 -c 72 -H 28 -W 28 -k 136 -y 1 -x 1 -F 4"


def config_of(text: str) -> Sm90WgradConfig:
    """The config of `TILE STAGES PARTITION`."""
    return Sm90WgradConfig.parse(config_text(text, products=3))


def planned(line: str) -> WgradProblem:
    found = problem_of(reading(line).contraction)
    assert not isinstance(found, Refusal), found.reason
    return found


@pytest.mark.parametrize(
    "line", [f"{WINDOW} {NHWC}", f"{WINDOW} {PIXELS}", f"{POINTS} {NCHW}", f"{POINTS} {NHWC}"]
)
def test_a_step_has_128_bytes_of_pixels(line: str) -> None:
    found = planned(line)
    assert found.is_split
    # Images begin new steps where pixels are contiguous.
    assert (found.block_k, found.steps) == (32, 98 if found.planes is None else 100)


def test_copies_of_inner_channels_are_128_bytes_and_not_rounded() -> None:
    found = reading(f"{WINDOW} {NHWC}")
    plan = launch.kernels(
        found.contraction, found.epilogue, config_of("128x128 4 data-parallel"), DEFAULT_TARGET
    )
    assert not isinstance(plan, Refusal), plan.reason
    arguments = plan.kernels[0].arguments
    c, a = (each for each in arguments if isinstance(each, TensorMap | Im2colMap))
    assert isinstance(c, TensorMap)
    assert isinstance(a, Im2colMap)
    assert (c.box, a.channels, a.pixels) == ((32, 32), 32, 32)
    assert not c.is_tf32
    assert not a.is_tf32
    # Results that are not finite are computed again from the operands.
    assert {Pointer("a"), Pointer("c")} <= {x for x in arguments if isinstance(x, Pointer)}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("256x128 3 data-parallel", "tiles of f32 are 128x128, 64x256, 64x128, 128x64"),
        ("128x128 2 data-parallel", "2 stages are too few"),
        ("128x128 5 data-parallel", "bytes of shared memory"),
        ("64x256 4 data-parallel", "bytes of shared memory"),
    ],
)
def test_illegal_configs(config: str, reason: str) -> None:
    found = reading(f"{WINDOW} {NHWC}")
    refused = launch.kernels(found.contraction, found.epilogue, config_of(config), DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_other_roles_and_clusters_are_refused() -> None:
    config = config_of("128x64 4 split-k:2:reduce-scatter")
    for changed, reason in (
        (replace(config, roles=(0, 8)), "roles of f32 are 4:8"),
        (replace(config, cluster=2), "no clusters of f32"),
    ):
        refused = changed.refusal()
        assert refused is not None
        assert reason in refused.reason


def test_the_batch_is_an_argument() -> None:
    config = config_of("128x128 4 split-k:3:reduce-scatter")
    for line in (f"{WINDOW} {NHWC}", f"{WINDOW} {PIXELS}", f"{POINTS} {NCHW}"):
        sources, scalars = set[str](), set[tuple[int, ...]]()
        for batch in (4, 9):
            found = reading(line.replace("-n 4", f"-n {batch}"))
            plan = launch.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
            assert not isinstance(plan, Refusal), plan.reason
            (kernel,) = plan.kernels
            sources.add(kernel.source)
            scalars.add(tuple(x.value for x in kernel.arguments if isinstance(x, Scalar)))
        assert len(sources) == 1
        assert len(scalars) == 2


@pytest.mark.parametrize("line", [f"{WINDOW} {NHWC}", f"{WINDOW} {PIXELS}", f"{POINTS} {NCHW}"])
@pytest.mark.parametrize(
    "config",
    [
        "128x128 4 data-parallel",
        "128x128 4 split-k:3:reduce-scatter",
        "64x256 3 split-k:3:linear",
        "64x128 5 split-k:2:tree",
        "128x64 6 stream-k:linear",
    ],
)
def test_kernels_compile_without_spills_or_waits_between_products(line: str, config: str) -> None:
    nvrtc_or_skip()
    found = reading(line)
    plan = launch.kernels(found.contraction, found.epilogue, config_of(config), DEFAULT_TARGET)
    assert not isinstance(plan, Refusal), plan.reason
    (kernel,) = plan.kernels
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert not usage.spill_bytes
    assert not usage.is_serial


def test_every_planned_config_is_legal() -> None:
    for line in (f"{WINDOW} {NHWC}", f"{WINDOW} {PIXELS}", f"{POINTS} {NCHW}"):
        found = reading(line)
        configs = candidates.ranked(
            found.contraction, found.epilogue, planned(line), DEFAULT_TARGET
        )
        assert configs
        for config in configs:
            assert config.products == 3
            assert Sm90WgradConfig.parse(str(config)) == config
            plan = launch.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
            assert not isinstance(plan, Refusal), plan.reason
