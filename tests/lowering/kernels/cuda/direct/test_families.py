"""Direct convolution templates: who takes which problem, configs as text, and their cubins."""

from __future__ import annotations

import pytest
from conv_lines import NCHW, NHWC, NWC, THREE
from cuda_contractions import contraction_of_line, refusal_of_text

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.few_input_channels import launch as shallow
from convir.lowering.kernels.cuda.few_input_channels.config import FewInputChannelsConfig
from convir.lowering.kernels.cuda.few_output_channels import launch as narrow
from convir.lowering.kernels.cuda.grouped_direct import candidates as grouped_candidates
from convir.lowering.kernels.cuda.grouped_direct import launch as grouped
from convir.lowering.kernels.cuda.grouped_direct.config import GroupedDirectConfig
from convir.lowering.kernels.cuda.simt_direct import launch as scalar
from convir.lowering.kernels.target import DEFAULT_TARGET

VOLUME = (
    "--spatial_dim 3 -n 2 --in_d 5 -H 12 -W 10"
    " --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
)

TAKEN = {
    "dense": ("grouped_direct", f"convfp16 -n 2 -c 256 -H 20 -W 7 -k 256 {THREE} -g 32 -F 2"),
    "first-layer": (
        "few_input_channels",
        "convfp16 -n 2 -c 3 -H 20 -W 24 -k 64 -y 5 -x 7 -p 2 -q 3 -v 2 -F 1",
    ),
}


@pytest.mark.parametrize(
    ("line", "of_grouped", "of_few_output_channels", "of_scalar"),
    [
        (
            f"convfp16 -n 2 -c 512 -H 9 -W 9 -k 512 {THREE} -F 2 {NHWC}",
            "one group of 512 channels was never measured",
            "it is not a dense convolution to a few channels",
            "512 and 512 channels a group are no small groups",
        ),
        (
            f"convfp16 -n 2 -c 36 -H 9 -W 9 -k 36 {THREE} -g 3 -F 2 {NHWC}",
            "3 groups of 12 channels do not fill vectors",
            "it is not a dense convolution to a few channels",
            None,
        ),
        (
            f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 8 -F 4 {NHWC}",
            "it computes another operand than C, or adds to it",
            "it computes another operand than C, or adds to it",
            "it computes another operand than C, or adds to it",
        ),
        (
            f"conv -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 2 -F 1 {NHWC}",
            "tensor cores do not multiply f32",
            "tensor cores do not multiply f32",
            "its weights take 73728 bytes of shared memory",
        ),
        (
            f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 8 -F 1 {NCHW}",
            "channels are not innermost",
            "channels are not innermost",
            None,
        ),
        (
            f"conv -n 2 -c 8 -H 9 -W 9 -k 16 {THREE} -g 2 -F 1 {NCHW}",
            "channels are not innermost",
            "channels are not innermost",
            None,
        ),
        (
            f"conv {NWC} -n 1 -c 16 -W 300 -k 16 -x 3 -j 128 -g 4 -F 1",
            "tensor cores do not multiply f32",
            "tensor cores do not multiply f32",
            "257 taps of a window are unrolled",
        ),
        (
            f"convbfp16 -n 2 -c 3 -H 20 -W 26 -k 40 {THREE} -F 2 {NHWC}",
            "1 groups of 40 channels do not fill vectors",
            "it reduces 40 channels and 9 taps",
            "40 and 3 channels a group are no small groups",
        ),
    ],
)
def test_refusals(
    line: str, of_grouped: str, of_few_output_channels: str, of_scalar: str | None
) -> None:
    problem = contraction_of_line(line)
    for plan, reason in (
        (grouped_candidates.plan, of_grouped),
        (narrow.plan, of_few_output_channels),
        (scalar.plan, of_scalar),
    ):
        found = plan(problem.contraction, problem.epilogue, DEFAULT_TARGET)
        assert (found.reason if isinstance(found, Refusal) else None) == reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"conv -n 2 -c 3 -H 9 -W 8 -k 64 {THREE}", "tensor cores do not multiply f32"),
        (
            f"convfp16 -n 2 -c 6 -H 9 -W 8 -k 64 {THREE} -g 2",
            "not a dense convolution of one phase",
        ),
        (f"convfp16 -n 2 -c 24 -H 9 -W 8 -k 64 {THREE}", "24 channels are not few"),
        (f"convfp16 -n 2 -c 3 -H 9 -W 8 -k 64 {THREE} -l 2 -j 2", "are not contiguous"),
        (f"convfp16 -n 2 -c 4 -H 9 -W 9 -k 20 {THREE}", "not aligned to 16 bytes"),
        ("convfp16 -n 2 -c 16 -H 29 -W 29 -k 64 -y 9 -x 9 -p 4 -q 4", "too large to unroll"),
    ],
)
def test_what_is_not_shallow(line: str, reason: str) -> None:
    problem = contraction_of_line(f"{line} -F 1 {NHWC}")
    found = shallow.plan(problem.contraction, problem.epilogue, DEFAULT_TARGET)
    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_illegal_shallow_configs_are_refused() -> None:
    problem = contraction_of_line(f"{TAKEN['first-layer'][1]} {NHWC}")
    for text, reason in {
        "2x48 tiles=2 warps=7 blocks=132x2": "out_channels=48: one of 64, 32",
        "2x64 tiles=3 warps=7 blocks=132x2": "tiles=3: one of 2, 1",
        "2x64 tiles=2 warps=8 blocks=132x3": "registers",
    }.items():
        refused = refusal_of_text(
            shallow.kernels, problem, FewInputChannelsConfig.parse, f"few_input_channels {text}"
        )
        assert reason in refused


WHOLE = "grouped_direct 64x26 warp_channels=32 rows=1 outputs=1 tiles=1 stages=2 warps=8"


def test_illegal_configs_are_refused() -> None:
    problem = contraction_of_line(f"{TAKEN['dense'][1]} {NHWC}")
    for text, reason in {
        (
            "grouped_direct 48x26 warp_channels=32 rows=1 outputs=1 tiles=1 "
            "stages=2 warps=8 producer_warps=0"
        ): "no multiple",
        (
            "grouped_direct 64x26 warp_channels=32 rows=3 outputs=2 tiles=1 "
            "stages=2 warps=8 producer_warps=0"
        ): "2 at once",
        (
            "grouped_direct 64x26 warp_channels=32 rows=1 outputs=1 tiles=1 "
            "stages=2 warps=7 producer_warps=0"
        ): "share 64",
        f"{WHOLE} producer_warps=0 copies=tma instruction=mma": "a warp of its own",
        f"{WHOLE} producer_warps=1 copies=tma instruction=wgmma": "does not multiply 8 by 8",
    }.items():
        rest = "" if "copies" in text else " copies=async instruction=mma"
        config = GroupedDirectConfig.parse(f"{text}{rest} blocks=132x1")
        plan = grouped.kernels(problem.contraction, problem.epilogue, config, DEFAULT_TARGET)
        assert isinstance(plan, Refusal)
        assert reason in plan.reason
