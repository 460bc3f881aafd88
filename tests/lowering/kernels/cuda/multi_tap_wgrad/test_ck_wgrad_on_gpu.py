"""The shapes of Composable Kernel's tests of backward weight and of its stream-K, on a GPU.

Source: its `test_grouped_convnd_bwd_weight` and `test_ck_tile_grouped_conv_bwd_weight_streamk`.
Its tolerance: e(T) is half an ulp; rtol is the largest of e(input), e(result) and e(f32) times the
length of the accumulation, and as much of the largest result is allowed beside it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import DTYPES, normals, torch_answer, work
from gpu import cupy_or_skip
from wgrad_launch import gradients
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.multi_tap_wgrad import launch as multi_tap_wgrad
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import MultiTapWgradConfig
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.reference.checking.compare import largest_error

if TYPE_CHECKING:
    from convir.analysis.refusal import Refusal
    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.cuda.problem import ContractionProblem
    from convir.runtime.program import Array

pytestmark = pytest.mark.gpu

SUITE = Path(__file__).parents[5] / "benchmarks" / "suites" / "ck-wgrad.txt"
LINES = [line for line in SUITE.read_text().splitlines() if not line.startswith("#")]
HALF_ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}

# Groups, images, columns, depths, taps and positions along an axis, multiprocessors, blocks on
# each, step, padding.
STREAM_K = {
    "small": (1, 4, 128, 128, 3, 16, 2, 1, 1, 1),
    "medium": (1, 8, 256, 128, 3, 16, 4, 1, 1, 1),
    "more-streamed": (1, 4, 128, 128, 3, 16, 4, 1, 1, 1),
    "groups": (2, 4, 128, 128, 3, 16, 4, 1, 1, 1),
    "step": (1, 4, 128, 128, 3, 16, 4, 1, 2, 1),
    "whole-waves": (1, 4, 256, 128, 3, 16, 3, 1, 1, 1),
    "one-tile": (1, 4, 128, 128, 1, 16, 4, 1, 1, 0),
    "many-images": (1, 32, 128, 128, 3, 16, 4, 1, 1, 1),
    "occupancy": (1, 4, 128, 128, 3, 16, 4, 2, 1, 1),
}
"""Each by linear and tree reduction with whole tiles as blocks of their own."""
PERSISTENT = ("small", "groups")
"""Those whose blocks also take whole tiles in turn."""


def tolerance(problem: ConvProblem) -> float:
    own = HALF_ULP[problem.dtype]
    return max(own, HALF_ULP["f32"] * work(problem))


def assert_close(expected: Array, found: Array, relative: float) -> None:
    worst = largest_error(expected.astype(np.float64), found.astype(np.float64), relative)
    assert worst.error <= worst.allowed, worst


@pytest.mark.parametrize("text", LINES)
def test_backward_weight_as_selected(text: str) -> None:
    cupy = cupy_or_skip()
    (problem,) = parse_line(text).problems.values()
    operands = [normals(shape, problem.dtype, i) for i, shape in enumerate(problem.shapes[:2])]
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    inputs = [cupy.asarray(operand) for operand in operands]
    results: list[Any] = [cupy.asnumpy(executable(*inputs)) for _ in range(2)]
    first, second = (np.asarray(result).view(DTYPES[problem.dtype]) for result in results)
    assert first.tobytes() == second.tobytes()
    assert_close(torch_answer(problem, *operands), first, tolerance(problem))


def streamed() -> list[tuple[str, str, str]]:
    """Name, dtype and partition of every case."""
    found: list[tuple[str, str, str]] = []
    for dtype in ("fp16", "bfp16"):
        for name in STREAM_K:
            found += [(name, dtype, f"stream-k:{how}:blocks") for how in ("linear", "tree")]
            if name in PERSISTENT:
                found += [(name, dtype, f"stream-k:{how}") for how in ("linear", "tree")]
    return found


def plan_of(config: MultiTapWgradConfig, found: ContractionProblem) -> KernelPlan | Refusal:
    return multi_tap_wgrad.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)


@pytest.mark.parametrize(("name", "dtype", "partition"), streamed())
def test_stream_k_agrees_with_whole_tiles_and_split_k(
    name: str, dtype: str, partition: str
) -> None:
    groups, n, k, c, taps, size, units, occupancy, step, pad = STREAM_K[name]
    text = (
        f"conv{dtype} -n {n} -c {c * groups} -H {size} -W {size} -k {k * groups} -y {taps} "
        f"-x {taps} -p {pad} -q {pad} -u {step} -v {step} -g {groups} -F 4 "
        "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    )
    (problem,) = parse_line(text).problems.values()
    operands = [normals(shape, problem.dtype, i) for i, shape in enumerate(problem.shapes[:2])]
    expected = torch_answer(problem, *operands)
    found: list[Array] = []
    for chosen in (partition, "data-parallel", "split-k:3:linear", "split-k:3:tree"):
        config = MultiTapWgradConfig.parse(
            f"multi_tap_wgrad {taps}x48 stages=3 instruction=mma roles=4:4 partition={chosen} "
            f"blocks={units * occupancy}"
        )
        first, second = gradients(text, partial(plan_of, config), *operands, times=2)
        assert first.tobytes() == second.tobytes()
        assert_close(expected, first, tolerance(problem))
        found.append(first)
    for other in found[1:]:
        assert_close(found[0].astype(np.float64), other, tolerance(problem))
