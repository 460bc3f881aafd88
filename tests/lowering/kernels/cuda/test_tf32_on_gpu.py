"""TF32 on a GPU: factors are rounded to nearest where that is allowed, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import small_integers, torch_answer
from fused_epilogues import BIAS, RELU, RESIDUAL, SCALE, Fused
from gpu import cupy_or_skip
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.implementations import CUDA
from convir.reference import evaluate

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem
    from convir.runtime.program import Array

pytestmark = pytest.mark.gpu

HALF_ULP = 2.0**-11
"""Of a mantissa of 10 bits, relative to a power of two."""

LINES = {
    "dense": "-n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1",
    "tails": "-n 3 -c 20 -H 13 -W 11 -k 36 -y 3 -x 3 -p 1 -q 1 -u 2 -v 1",
    "tails-of-columns-and-depths": "-n 3 -c 40 -H 13 -W 11 -k 72 -y 3 -x 3 -p 1 -q 1",
    "strided": "-n 2 -c 32 -H 15 -W 14 -k 160 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "many-columns": "-n 2 -c 96 -H 20 -W 20 -k 320 -y 3 -x 3 -p 1 -q 1",
    "first-layer": "-n 2 -c 3 -H 33 -W 35 -k 32 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2",
    "even-filter": "-n 2 -c 32 -H 12 -W 10 -k 48 -y 2 -x 4 -p 1 -q 2",
    "padding-beyond-the-filter": "-n 1 -c 32 -H 5 -W 6 -k 16 -y 2 -x 3 -p 4 -q 3",
    "groups": "-n 2 -c 128 -H 14 -W 14 -k 128 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 4",
    "one-by-one": "-n 2 -c 136 -H 9 -W 9 -k 264 -y 1 -x 1 -u 2 -v 2",
    "product": "-n 4 -c 128 -H 16 -W 16 -k 96 -y 1 -x 1",
    "line": "--spatial_dim 1 -n 2 -c 24 -W 300 -k 32 -x 5 -q 2 -v 2 -j 1",
    "volume": "--spatial_dim 3 -n 1 -c 32 --in_d 7 -H 8 -W 9 -k 32 --fil_d 3 -y 3 -x 3"
    " --pad_d 1 -p 1 -q 1 --conv_stride_d 2 -u 2 -v 2 --dilation_d 1 -l 1 -j 1",
}
FORWARD = Fused("fprop", "padding(1, 1)", (2, 9, 7, 64), (96, 3, 3, 64), (2, 9, 7, 96))
COLUMNS_TAIL = Fused("fprop", "", (3, 9, 7, 64), (72, 3, 3, 64), (3, 7, 5, 72))
EPILOGUES = {
    "bias": (FORWARD, (BIAS,)),
    "residual": (COLUMNS_TAIL, (RESIDUAL,)),
    "all": (COLUMNS_TAIL, (BIAS, SCALE, RESIDUAL, RELU)),
}
LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("last", [True, False], ids=["channels-last", "channels-first"])
@pytest.mark.parametrize("name", LINES)
def test_factors_are_rounded_to_nearest(name: str, last: bool, direction: int) -> None:
    problem = problem_of(f"{LINES[name]} -F {direction}", last=last)
    lhs, rhs = (small_integers(s, "f32", i) for i, s in enumerate(problem.shapes[:2]))
    result, configs = run(problem, [nudged(lhs, 2), nudged(rhs, 3)], allow_tf32=True)
    expected = torch_answer(problem, lhs, rhs).astype(np.float32)
    assert not any("threads=" in config for config in configs)
    np.testing.assert_array_equal(result, expected)


def test_f32_is_ieee_where_nothing_is_said() -> None:
    problem = problem_of(f"{LINES['dense']} -F 1", last=True)
    lhs, rhs = (small_integers(s, "f32", i) for i, s in enumerate(problem.shapes[:2]))
    result, _ = run(problem, [nudged(lhs, 2), rhs], allow_tf32=False)
    assert not np.array_equal(result, torch_answer(problem, lhs, rhs).astype(np.float32))


def test_infinities_and_nans_stay() -> None:
    problem = problem_of("-n 1 -c 32 -H 8 -W 8 -k 32 -y 3 -x 3 -p 1 -q 1 -F 1", last=True)
    lhs = np.ones(problem.shapes[0], np.float32)
    rhs = np.ones(problem.shapes[1], np.float32)
    lhs[0, 0, 0, 5], lhs[0, 7, 7, 5], lhs[0, 0, 7, 5] = np.inf, np.nan, np.finfo("f4").max
    result, _ = run(problem, [lhs, rhs], allow_tf32=True)
    assert np.isinf(result[0, :2, :2]).all()
    assert np.isnan(result[0, 6:, 6:]).all()
    assert np.isfinite(result[0, 3:5]).all()


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name: str) -> None:
    cupy = cupy_or_skip()
    case, steps = EPILOGUES[name]
    text = case.text("f32", steps)
    arrays = [small_integers(shape, "f32", i) for i, shape in enumerate(case.shapes(steps))]
    (expected,) = evaluate(read_module(text), "main", arrays)
    lhs, rhs, *others = arrays
    executable = convir_compile(text, device="cuda", allow_tf32=True)
    (config,) = executable.program.summary(CUDA)
    assert config.startswith("sm80_implicit_gemm")
    assert "warps=" in config
    out: Any = cupy.full(case.out, cupy.nan, "f4")
    executable(*map(cupy.asarray, (nudged(lhs, 2), nudged(rhs, 3), *others)), out=out)
    np.testing.assert_array_equal(cupy.asnumpy(out), expected)


def problem_of(line: str, *, last: bool) -> ConvProblem:
    rank = 1 if "spatial_dim 1" in line else 3 if "spatial_dim 3" in line else 2
    layout = LAYOUTS[rank][0 if last else 1]
    layouts = " ".join(f"--{which}_layout {layout}" for which in ("in", "fil", "out"))
    (problem,) = parse_line(f"conv {line} {layouts}").problems.values()
    return problem


def nudged(integers: Array, seed: int) -> Array:
    """Numbers that are those integers when they are rounded to TF32, and not when cut off."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], integers.shape)
    return (integers * (1 + 0.45 * HALF_ULP * signs)).astype(np.float32)


def run(
    problem: ConvProblem, arguments: list[Array], *, allow_tf32: bool
) -> tuple[Array, list[str]]:
    """The result, in memory that was full of NaN, and what computed it."""
    cupy = cupy_or_skip()
    module = ModuleOp([function_of("main", problem)])
    executable = convir_compile(module, device="cuda", allow_tf32=allow_tf32)
    (spec,) = executable.outputs
    out: Any = cupy.full(spec.shape, cupy.nan, spec.dtype)
    executable(*map(cupy.asarray, arguments), out=out)
    return cupy.asnumpy(out), executable.program.summary(CUDA)
