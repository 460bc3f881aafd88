"""Direct convolution templates: who takes which problem, configs as text, and their cubins."""

from __future__ import annotations

import pytest
from conv_lines import CUBES, NCHW, NHWC, NWC, PLANES, SLICES, THREE, TIME
from cuda_contractions import contraction_of_line, refusal_of_text
from gpu import nvrtc_or_skip

from convir.dialects.refusal import Refusal
from convir.lowering.kernels.cuda.few_input_channels import launch as shallow
from convir.lowering.kernels.cuda.few_input_channels.config import ShallowConfig
from convir.lowering.kernels.cuda.few_output_channels import launch as narrow
from convir.lowering.kernels.cuda.grouped_direct import candidates as grouped_rule
from convir.lowering.kernels.cuda.grouped_direct import launch as grouped
from convir.lowering.kernels.cuda.grouped_direct.config import GroupedConfig
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.simt_direct import launch as scalar
from convir.lowering.kernels.registry import family_of
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of
from convir.runtime.cuda.compile import kernel_usage

VOLUME = (
    "--spatial_dim 3 -n 2 --in_d 5 -H 12 -W 10"
    " --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
)

A100 = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)

TAKEN = {
    "strided": ("grouped", f"convfp16 -n 2 -c 256 -H 20 -W 26 -k 256 {THREE} -u 2 -v 2 -g 32 -F 2"),
    "dense": ("grouped", f"convfp16 -n 2 -c 256 -H 20 -W 7 -k 256 {THREE} -g 32 -F 2"),
    "16-channels": ("grouped", f"convbfp16 -n 2 -c 512 -H 9 -W 9 -k 512 {THREE} -g 32 -F 2"),
    "32-channels": ("grouped", f"convfp16 -n 2 -c 128 -H 9 -W 9 -k 128 {THREE} -g 4 -F 2"),
    "64-channels": ("grouped", f"convfp16 -n 2 -c 128 -H 9 -W 9 -k 128 {THREE} -g 2 -F 2"),
    "forward": ("grouped", f"convbfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 8 -F 1"),
    "merged": ("grouped", f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 {THREE} -g 16 -F 2"),
    "uneven": ("grouped", f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 128 {THREE} -g 4 -F 2"),
    "part-of-a-block": ("grouped", f"convfp16 -n 2 -c 96 -H 9 -W 9 -k 96 {THREE} -g 12 -F 2"),
    "filter-below-stride": ("grouped", "convfp16 -n 2 -c 64 -H 9 -W 9 -k 64 -u 2 -v 2 -g 8 -F 2"),
    "three-channels": ("narrow", f"convbfp16 -n 2 -c 3 -H 20 -W 26 -k 32 {THREE} -u 2 -v 2 -F 2"),
    "odd-width": ("narrow", f"convbfp16 -n 2 -c 3 -H 19 -W 25 -k 32 {THREE} -u 2 -v 2 -F 2"),
    "one-channel": ("narrow", f"convfp16 -n 2 -c 1 -H 20 -W 26 -k 64 {THREE} -u 2 -v 2 -F 2"),
    "deep": ("narrow", "convbfp16 -n 2 -c 3 -H 16 -W 16 -k 128 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -F 2"),
    "first-layer": (
        "shallow",
        "convfp16 -n 2 -c 3 -H 20 -W 24 -k 64 -y 5 -x 7 -p 2 -q 3 -v 2 -F 1",
    ),
    "four-channels": ("shallow", f"convbfp16 -n 2 -c 4 -H 9 -W 9 -k 40 {THREE} -F 1"),
    "one-plane": ("shallow", f"convfp16 -n 2 -c 1 -H 9 -W 10 -k 96 {THREE} -u 2 -v 2 -F 1"),
    "shallow-backward": ("shallow", f"convfp16 -n 2 -c 64 -H 9 -W 9 -k 16 {THREE} -F 2"),
    "first-layer-of-planes": (
        "shallow",
        f"convfp16 -n 2 -c 3 -H 30 -W 32 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1 {PLANES}",
    ),
    "depthwise": ("scalar", f"convfp16 -n 2 -c 40 -H 20 -W 26 -k 40 {THREE} -g 40 -F 2"),
    "depthwise-planes": (
        "scalar",
        f"convfp16 -n 2 -c 40 -H 20 -W 26 -k 40 {THREE} -g 40 -F 2 {NCHW}",
    ),
    "strided-planes": (
        "scalar",
        f"convbfp16 -n 2 -c 40 -H 20 -W 26 -k 40 {THREE} -u 2 -v 2 -g 40 -F 2 {NCHW}",
    ),
    "f32-planes": (
        "scalar",
        "conv --spatial_dim 1 -n 1 -c 16 -W 300 -k 16 -x 3 -q 2 -j 2 -g 4 -F 1",
    ),
    "slices": ("grouped", f"convfp16 -g 8 -F 2 -c 64 -k 64 {VOLUME} {SLICES}"),
    "depthwise-slices": ("scalar", f"convfp16 -g 64 -F 1 -c 64 -k 64 {VOLUME} {SLICES}"),
    "time": ("grouped", f"convfp16 -g 8 -F 1 -c 64 -k 64 {VOLUME} {TIME}"),
    "depthwise-time": ("scalar", f"convbfp16 -g 64 -F 2 -c 64 -k 64 {VOLUME} {TIME}"),
    "depthwise-volume": ("scalar", f"convfp16 -g 64 -F 1 -c 64 -k 64 {VOLUME} {CUBES}"),
    "first-slices": ("shallow", f"convfp16 -F 1 -c 3 -k 64 {VOLUME} {SLICES}"),
    "f32": ("scalar", f"conv {NWC} -n 1 -c 16 -W 300 -k 16 -x 3 -q 2 -j 2 -g 4 -F 1"),
}


@pytest.mark.parametrize("gpu", [A100, DEFAULT_TARGET], ids=lambda gpu: gpu.arch)
@pytest.mark.parametrize("name", TAKEN)
def test_problems_are_taken_and_compile(name: str, gpu: Target) -> None:
    family, line = TAKEN[name]
    problem = contraction_of_line(
        line if "layout" in line or "spatial_dim" in line else f"{line} {NHWC}"
    )
    template = family_of(family)
    assert template is not None
    configs = template.candidates(problem, gpu)
    assert not isinstance(configs, Refusal)
    assert [template.parse(str(config)) for config in configs] == list(configs)
    plan = template.launch(problem, configs[0], DEFAULT_TARGET)
    assert isinstance(plan, KernelPlan)
    nvrtc_or_skip()
    for kernel in plan.kernels:
        usage = kernel_usage(kernel.source, gpu.arch)[kernel.symbol]
        assert usage.spill_bytes == 0
        assert not usage.is_serial
        assert kernel.shared_bytes <= gpu.shared_bytes


@pytest.mark.parametrize(
    ("line", "of_grouped", "of_narrow", "of_scalar"),
    [
        (
            f"convfp16 -n 2 -c 512 -H 9 -W 9 -k 512 {THREE} -F 2 {NHWC}",
            "one group of 512 channels was never measured",
            "it is no dense convolution to a few channels",
            "512 and 512 channels a group are no small groups",
        ),
        (
            f"convfp16 -n 2 -c 36 -H 9 -W 9 -k 36 {THREE} -g 3 -F 2 {NHWC}",
            "3 groups of 12 channels do not fill vectors",
            "it is no dense convolution to a few channels",
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
            "257 positions of a window are unrolled",
        ),
        (
            f"convbfp16 -n 2 -c 3 -H 20 -W 26 -k 40 {THREE} -F 2 {NHWC}",
            "1 groups of 40 channels do not fill vectors",
            "it reduces 40 channels and 9 taps",
            "40 and 3 channels a group are no small groups",
        ),
    ],
)
def test_refusals(line: str, of_grouped: str, of_narrow: str, of_scalar: str | None) -> None:
    problem = contraction_of_line(line)
    for plan, reason in (
        (grouped_rule.plan, of_grouped),
        (narrow.plan, of_narrow),
        (scalar.plan, of_scalar),
    ):
        found = plan(problem.contraction, problem.epilogue, DEFAULT_TARGET)
        assert (found.reason if isinstance(found, Refusal) else None) == reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"conv -n 2 -c 3 -H 9 -W 8 -k 64 {THREE}", "tensor cores do not multiply f32"),
        (f"convfp16 -n 2 -c 6 -H 9 -W 8 -k 64 {THREE} -g 2", "no dense convolution of one phase"),
        (f"convfp16 -n 2 -c 24 -H 9 -W 8 -k 64 {THREE}", "24 channels are not few"),
        (f"convfp16 -n 2 -c 3 -H 9 -W 8 -k 64 {THREE} -l 2 -j 2", "are no neighbours"),
        (f"convfp16 -n 2 -c 3 -H 9 -W 8 -k 64 {THREE}", "windows begin at odd elements"),
        (f"convfp16 -n 2 -c 3 -H 9 -W 9 -k 64 {THREE} -v 2", "not aligned to 4 bytes"),
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
        "2x48 tiles=2 warps=7 blocks=132x2": "columns=48: one of 64, 32",
        "2x64 tiles=3 warps=7 blocks=132x2": "tiles=3: one of 2, 1",
        "2x64 tiles=2 warps=8 blocks=132x3": "registers",
    }.items():
        refused = refusal_of_text(shallow.kernels, problem, ShallowConfig.parse, f"shallow {text}")
        assert reason in refused


WHOLE = "grouped 64x26 slice=32 rows=1 outputs=1 tiles=1 stages=2 warps=8"


def test_illegal_configs_are_refused() -> None:
    problem = contraction_of_line(f"{TAKEN['dense'][1]} {NHWC}")
    for text, reason in {
        "grouped 48x26 slice=32 rows=1 outputs=1 tiles=1 stages=2 warps=8 loaders=0": "no slices",
        "grouped 64x26 slice=32 rows=3 outputs=2 tiles=1 stages=2 warps=8 loaders=0": "2 at once",
        "grouped 64x26 slice=32 rows=1 outputs=1 tiles=1 stages=2 warps=7 loaders=0": "share 64",
        f"{WHOLE} loaders=0 copies=tma math=mma": "a warp of its own",
        f"{WHOLE} loaders=1 copies=tma math=wgmma": "does not multiply 8 by 8",
    }.items():
        rest = "" if "copies" in text else " copies=async math=mma"
        config = GroupedConfig.parse(f"{text}{rest} blocks=132x1")
        plan = grouped.kernels(problem.contraction, problem.epilogue, config)
        assert isinstance(plan, Refusal)
        assert reason in plan.reason
