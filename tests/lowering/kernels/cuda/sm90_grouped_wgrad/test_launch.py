"""The gradient of the weights of groups of 32 channels: who is taken, configs, and cubins."""

from __future__ import annotations

import pytest
from cuda_contractions import contraction_of_line

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_grouped_wgrad.family import SM90_GROUPED_WGRAD
from convir.lowering.kernels.registry import plan_on
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
THREE = "-y 3 -x 3 -p 1 -q 1"
A100 = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)

TAKEN = {
    "32-channels": (
        f"convfp16 -n 32 -c 1024 -H 25 -W 25 -k 1024 {THREE} -g 32",
        "sm90_grouped_wgrad 13 stages=3 blocks=132x1",
    ),
}


@pytest.mark.parametrize(
    ("line", "gpu", "reason"),
    [
        (TAKEN["32-channels"][0], A100, "sm_80 has no wgmma"),
        (f"convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -g 1", DEFAULT_TARGET, "64 and 64 channels"),
        (f"convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -g 4", DEFAULT_TARGET, "16 and 16 channels"),
        (f"conv -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -g 2", DEFAULT_TARGET, "do not multiply f32"),
        (f"convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -u 2 -v 2 -g 2", DEFAULT_TARGET, "one step"),
        ("convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 -y 2 -x 3 -q 1 -g 2", DEFAULT_TARGET, "three taps"),
        (
            "convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 -y 5 -x 5 -g 2",
            DEFAULT_TARGET,
            "accumulators of 25 taps",
        ),
        (f"convfp16 -n 2 -c 64 -H 3 -W 300 -k 64 {THREE} -g 2", DEFAULT_TARGET, "load 301 pixels"),
        (
            "convfp16 -n 2 -c 64 -H 3 -W 254 -k 64 -y 3 -x 3 -l 9 -p 9 -g 2",
            DEFAULT_TARGET,
            "254 pixels fit",
        ),
    ],
)
def test_refusals(line: str, gpu: Target, reason: str) -> None:
    problem = contraction_of_line(f"{line} -F 4 {NHWC}")
    found = SM90_GROUPED_WGRAD.candidates(problem, gpu)
    assert isinstance(found, Refusal)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("text", "reason"), [("26 stages=3", "bytes of shared memory"), ("300 stages=1", "302 rows")]
)
def test_illegal_configs_are_refused(text: str, reason: str) -> None:
    problem = contraction_of_line(f"{TAKEN['32-channels'][0]} -F 4 {NHWC}")
    found = plan_on(DEFAULT_TARGET, problem, f"sm90_grouped_wgrad {text} blocks=132x1")
    assert isinstance(found, Refusal)
    assert reason in found.reason
