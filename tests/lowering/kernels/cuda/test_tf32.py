"""TF32: which kernels multiply it, under which names, and that their code compiles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conv_lines import NHWC
from cuda_contractions import contraction_of_line
from gpu import nvrtc_or_skip

from convir.analysis.refusal import Refusal
from convir.lowering.bodies.contraction.signature import signature_of
from convir.lowering.kernels.cuda.launch import Im2colMap, KernelPlan, TensorMap
from convir.lowering.kernels.cuda.sm80_implicit_gemm import candidates as implicit_gemm_candidates
from convir.lowering.kernels.cuda.sm80_implicit_gemm import launch as implicit_gemm
from convir.lowering.kernels.cuda.sm90_implicit_gemm import candidates as sm90_candidates
from convir.lowering.kernels.cuda.sm90_implicit_gemm import launch as wgmma
from convir.lowering.kernels.protocol import Problem
from convir.lowering.kernels.registry import FAMILIES
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of
from convir.runtime.cuda.toolchain.compile import kernel_usage

A100 = target_of("sm_80", multiprocessors=108, shared_bytes=163 << 10)
LINES = {
    "dense": "conv -n 32 -c 128 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1",
    "few-channels": "conv -n 2 -c 3 -H 33 -W 35 -k 32 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2",
    "groups": "conv -n 2 -c 128 -H 14 -W 14 -k 128 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 4",
}


@pytest.mark.parametrize("gpu", [A100, DEFAULT_TARGET], ids=lambda gpu: gpu.arch)
@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("name", LINES)
def test_tensor_cores_multiply_it(name: str, layout: str, direction: int, gpu: Target) -> None:
    line = f"{LINES[name]} -F {direction} {NHWC.replace('NHWC', layout)}"
    problem = contraction_of_line(line)
    contraction = replace(problem.contraction, tf32=True)
    configs = implicit_gemm_candidates.plan(contraction, problem.epilogue, gpu)
    assert not isinstance(configs, Refusal)
    assert all(config.is_mma for config in configs)
    plan = implicit_gemm.kernels(contraction, problem.epilogue, configs[0], gpu)
    assert isinstance(plan, KernelPlan)
    nvrtc_or_skip()
    for kernel in plan.kernels:
        usage = kernel_usage(kernel.source, gpu.arch)[kernel.symbol]
        assert usage.spill_bytes <= kernel.spill_bytes


@pytest.mark.parametrize(
    "line",
    [
        "conv -n 32 -c 128 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1",
        "conv -n 32 -c 512 -H 7 -W 7 -k 512 -y 3 -x 3 -p 1 -q 1",
    ],
)
def test_warpgroups_multiply_it_where_depths_are_contiguous(line: str) -> None:
    problem = contraction_of_line(f"{line} -F 1 {NHWC}")
    contraction = replace(problem.contraction, tf32=True)
    choices = [
        (t.name, t.candidates(Problem(contraction, problem.epilogue), DEFAULT_TARGET))
        for t in FAMILIES
    ]
    taken = [(family, found) for family, found in choices if not isinstance(found, Refusal)]
    assert [family for family, _ in taken] == ["sm90_implicit_gemm", "sm80_implicit_gemm"]
    plan = wgmma.kernels(contraction, problem.epilogue, taken[0][1][0], DEFAULT_TARGET)  # pyright: ignore[reportArgumentType]
    assert isinstance(plan, KernelPlan)
    (kernel,) = plan.kernels
    maps = [each for each in kernel.arguments if isinstance(each, TensorMap | Im2colMap)]
    assert [each.is_tf32 for each in maps] == [True, True]
    nvrtc_or_skip()
    usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
    assert usage.spill_bytes <= kernel.spill_bytes
    assert not usage.is_serial


def test_warpgroups_refuse_other_weights_and_holes() -> None:
    for line, reason in (
        (
            f"{LINES['dense']} -F 2",
            "input channels of B are not contiguous, as TF32 has to have them",
        ),
        (
            "conv -n 2 -c 64 -H 9 -W 9 -k 72 -y 3 -x 3 -F 1",
            "input or output channels of TF32 are no multiples of 32",
        ),
        (f"{LINES['dense']} -F 4", "it computes the gradient of the weights, or adds to C"),
    ):
        problem = contraction_of_line(f"{line} {NHWC}")
        contraction = replace(problem.contraction, tf32=True)
        assert sm90_candidates.plan(contraction, problem.epilogue, DEFAULT_TARGET) == Refusal(
            reason
        )


def test_it_is_part_of_the_signature() -> None:
    problem = contraction_of_line(f"{LINES['dense']} -F 1 {NHWC}")
    ieee, tf32 = problem.contraction, replace(problem.contraction, tf32=True)
    epilogue = problem.epilogue.signature
    assert signature_of(ieee, epilogue) != signature_of(tf32, epilogue)
    assert "tf32" not in signature_of(ieee, epilogue)


def test_only_f32_is_rounded_to_it() -> None:
    half = contraction_of_line(f"{LINES['dense'].replace('conv', 'convfp16')} -F 1 {NHWC}")
    with pytest.raises(ValueError, match="rounded to TF32 from f32"):
        replace(half.contraction, tf32=True)


def test_a_config_of_tensor_cores_is_not_legal_without_it() -> None:
    problem = contraction_of_line(f"{LINES['dense']} -F 1 {NHWC}")
    tf32 = replace(problem.contraction, tf32=True)
    sm80_implicit_gemm = next(
        template for template in FAMILIES if template.name == "sm80_implicit_gemm"
    )
    configs = sm80_implicit_gemm.candidates(Problem(tf32, problem.epilogue), DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    refused = sm80_implicit_gemm.launch(problem, configs[0], DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    assert refused.reason == "tensor cores do not multiply f32 and f32"
