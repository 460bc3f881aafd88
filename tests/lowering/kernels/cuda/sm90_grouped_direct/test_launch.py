"""Groups of 32 channels, two output rows at a time: who is taken, its configs, and its cubins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cuda_contractions import contraction_of_line

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.sm90_grouped_direct import launch as sm90_grouped_direct
from convir.lowering.kernels.cuda.sm90_grouped_direct.config import Sm90GroupedDirectConfig
from convir.lowering.kernels.cuda.sm90_grouped_direct.family import SM90_GROUPED_DIRECT
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.problem import ContractionProblem

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
NDHWC = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
THREE = "-y 3 -x 3 -p 1 -q 1"
CUBES = f"--spatial_dim 3 --fil_d 3 --pad_d 1 {THREE}"
A100 = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)

TAKEN = {
    "backward": (
        f"convfp16 -n 32 -c 1024 -H 25 -W 25 -k 1024 {THREE} -g 32 -F 2",
        "sm90_grouped_direct 13 stages=3 group_blocks=4 blocks=132x1",
    ),
}


def contraction_of(line: str) -> ContractionProblem:
    """That of a line, channels last."""
    return contraction_of_line(f"{line} {NDHWC if '--spatial_dim 3' in line else NHWC}")


@pytest.mark.parametrize(
    ("line", "gpu", "reason"),
    [
        (TAKEN["backward"][0], A100, "sm_80 has no wgmma"),
        (
            f"convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -g 1 -F 1",
            DEFAULT_TARGET,
            "64 and 64 channels",
        ),
        (
            f"convfp16 -n 8 -c 48 -H 9 -W 9 -k 48 {THREE} -g 3 -F 1",
            DEFAULT_TARGET,
            "do not fill 32",
        ),
        (
            f"conv -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -g 2 -F 1",
            DEFAULT_TARGET,
            "do not multiply f32",
        ),
        (
            f"convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -u 2 -v 2 -g 2 -F 1",
            DEFAULT_TARGET,
            "one step",
        ),
        (
            f"convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 {THREE} -u 2 -v 2 -g 2 -F 2",
            DEFAULT_TARGET,
            "one step",
        ),
        ("convfp16 -n 8 -c 64 -H 9 -W 9 -k 64 -y 5 -x 5 -g 2 -F 1", DEFAULT_TARGET, "a 5x5 window"),
        (
            f"convfp16 -n 2 -c 64 -H 3 -W 300 -k 64 {THREE} -g 2 -F 1",
            DEFAULT_TARGET,
            "load 301 pixels",
        ),
        (
            f"convfp16 -n 2 -c 64 -H 9 -W 220 -k 64 {THREE} -g 2 -F 1",
            DEFAULT_TARGET,
            "221 pixels fits",
        ),
        (
            f"convfp16 -n 2 --in_d 9 -H 9 -W 9 -c 64 -k 64 -g 2 {CUBES} -u 2 -F 1",
            DEFAULT_TARGET,
            "one step",
        ),
        (
            f"convfp16 -n 2 --in_d 9 -H 9 -W 9 -c 64 -k 64 -g 32 {CUBES} -F 1",
            DEFAULT_TARGET,
            "2 and 2 chan",
        ),
    ],
)
def test_refusals(line: str, gpu: Target, reason: str) -> None:
    problem = contraction_of(line)
    found = SM90_GROUPED_DIRECT.candidates(problem, gpu)
    assert isinstance(found, Refusal)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sm90_grouped_direct 1 stages=3 group_blocks=4 blocks=132x1", "do not share a pair"),
        (
            "sm90_grouped_direct 16 stages=3 group_blocks=4 blocks=132x1",
            "accumulators of 208 output pixels",
        ),
    ],
)
def test_illegal_configs_are_refused(text: str, reason: str) -> None:
    problem = contraction_of(TAKEN["backward"][0])
    config = Sm90GroupedDirectConfig.parse(text)
    found = sm90_grouped_direct.kernels(
        problem.contraction, problem.epilogue, config, DEFAULT_TARGET
    )
    assert isinstance(found, Refusal)
    assert reason in found.reason
