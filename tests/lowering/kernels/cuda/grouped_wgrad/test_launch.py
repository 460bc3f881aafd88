"""The gradient of the weights of small groups: who takes it, its configs, and its cubins."""

from __future__ import annotations

import pytest
from cuda_contractions import contraction_of_line

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.grouped_wgrad import candidates as grouped_wgrad_candidates
from convir.lowering.kernels.cuda.grouped_wgrad import launch as grouped_wgrad
from convir.lowering.kernels.cuda.grouped_wgrad.config import GroupedWgradConfig
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.target import DEFAULT_TARGET

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NCHW = "--in_layout NCHW --fil_layout NCHW --out_layout NCHW"
NWC = "--spatial_dim 1 --in_layout NWC --fil_layout NWC --out_layout NWC"
THREE = "-y 3 -x 3 -p 1 -q 1"

TAKEN = {
    "32-channels": f"convfp16 -n 2 -c 128 -H 9 -W 9 -k 128 -y 3 -x 2 -p 1 -g 4 {NHWC}",
}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -F 4 {NHWC}", "one group is an implicit"),
        (f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 2 -F 4 {NCHW}", "channels are not inner"),
        (f"conv -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 2 -F 4 {NHWC}", "do not multiply f32"),
        (f"convfp16 -n 2 -c 36 -H 9 -W 9 -k 36 {THREE} -g 3 -F 4 {NHWC}", "do not fill tiles"),
        (
            f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 -y 7 -x 7 -g 2 -F 4 {NHWC}",
            "accumulators of 49 taps",
        ),
        (f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 2 -F 1 {NHWC}", "another operand than B"),
    ],
)
def test_refusals(line: str, reason: str) -> None:
    problem = contraction_of_line(line)
    found = grouped_wgrad_candidates.plan(problem.contraction, problem.epilogue, DEFAULT_TARGET)
    assert isinstance(found, Refusal)
    assert reason in found.reason


@pytest.mark.parametrize(("images", "read_once"), [(64, 1), (65, 0)])
def test_operands_of_more_than_256_mb_stay_in_the_cache(images: int, read_once: int) -> None:
    problem = contraction_of_line(
        f"convfp16 -n {images} -c 512 -H 64 -W 32 -k 512 {THREE} -g 32 -F 4 {NHWC}"
    )
    configs = grouped_wgrad_candidates.plan(problem.contraction, problem.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    plan = grouped_wgrad.kernels(problem.contraction, problem.epilogue, configs[0], DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan)
    assert f"read_once = {read_once};" in plan.kernels[0].source


def test_illegal_configs_are_refused() -> None:
    problem = contraction_of_line(f"{TAKEN['32-channels']} -F 4")
    for text, reason in {
        "48x9 warp_channels=32 rows=1 tiles=1 stages=2 warps=4": "no groups of 32",
        "64x9 warp_channels=24 rows=1 tiles=1 stages=2 warps=4": "no multiple of 24",
        "64x9 warp_channels=32 rows=1 tiles=1 stages=2 warps=5": "do not share 4",
        "32x9 warp_channels=16 rows=1 tiles=1 stages=2 warps=6": "do not share 4",
        (
            "32x9 warp_channels=16 rows=1 tiles=1 stages=2 warps=4 producer_warps=0 copies=tma"
        ): "a warp of its own",
    }.items():
        rest = "" if "copies" in text else " producer_warps=0 copies=async"
        config = GroupedWgradConfig.parse(f"grouped_wgrad {text}{rest} blocks=132x1")
        plan = grouped_wgrad.kernels(problem.contraction, problem.epilogue, config, DEFAULT_TARGET)
        assert isinstance(plan, Refusal)
        assert reason in plan.reason
