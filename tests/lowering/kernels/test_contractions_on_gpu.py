"""Contractions by templates on a GPU: every direction, layout, type and tail, against PyTorch."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import DTYPES, normals, problems, small_integers, torch_answer, work
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.reference import evaluate
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

pytestmark = pytest.mark.gpu

LIT = Path(__file__).parents[3] / "lit" / "lowering" / "kernels" / "print-cuda-contraction.mlir"

LINES = {
    "tails": "convfp16 -n 3 -c 40 -H 13 -W 11 -k 72 -y 3 -x 3 -p 1 -q 1",
    "one-by-one": "convfp16 -n 2 -c 136 -H 9 -W 9 -k 264 -y 1 -x 1 -u 2 -v 2",
    "even-filter": "convbfp16 -n 2 -c 32 -H 12 -W 10 -k 48 -y 2 -x 4 -p 1 -q 2",
    "padding-beyond-the-filter": "convfp16 -n 1 -c 8 -H 5 -W 6 -k 16 -y 2 -x 3 -p 4 -q 3",
    "depthwise": "convfp16 -n 2 -c 24 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -g 24",
    "few-channels": "convbfp16 -n 2 -c 3 -H 33 -W 35 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2",
    "groups": "convfp16 -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 8",
    "filter-below-the-stride": "convfp16 -n 2 -c 16 -H 17 -W 19 -k 8 -y 2 -x 1 -u 4 -v 3",
    "dilated": "convfp16 -n 2 -c 16 -H 17 -W 19 -k 24 -y 3 -x 3 -p 2 -q 2 -l 2 -j 3",
    "f32": "conv -n 2 -c 20 -H 15 -W 14 -k 36 -y 3 -x 3 -p 1 -q 1 -u 2 -v 1",
    "f64": "convfp64 -n 2 -c 10 -H 9 -W 8 -k 12 -y 3 -x 3 -p 1 -q 1",
    "line": "convfp16 --spatial_dim 1 -n 2 -c 24 -W 300 -k 16 -x 5 -q 2 -v 2 -j 1",
    "volume": "convfp16 --spatial_dim 3 -n 1 -c 16 --in_d 7 -H 8 -W 9 -k 16 --fil_d 3 -y 3 -x 3"
    " --pad_d 1 -p 1 -q 1 --conv_stride_d 2 -u 2 -v 2 --dilation_d 1 -l 1 -j 1",
    "volume-of-one-slice": "convfp16 --spatial_dim 3 -n 5 -c 64 --in_d 1 -H 14 -W 14 -k 64 -g 2"
    " --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 -q 1",
    "long-sum": "convfp16 -n 16 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1",
}
LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@pytest.fixture(autouse=True)
def cupy() -> Any:
    try:
        toolkit.require_gpu(0)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    return toolkit.cupy()


def run(module: ModuleOp, *arguments: Any) -> Any:
    """The result on the GPU, in memory that was full of NaN."""
    cupy = toolkit.cupy()
    executable = convir_compile(module, device="cuda")
    (spec,) = executable.outputs
    out = cupy.full(spec.shape, cupy.nan, spec.dtype)
    executable(*map(cupy.asarray, arguments), out=out)
    return cupy.asnumpy(out)


def check(problem: ConvProblem) -> None:
    lhs, rhs = (small_integers(s, problem.dtype, i) for i, s in enumerate(problem.shapes[:2]))
    expected = torch_answer(problem, lhs, rhs).astype(DTYPES[problem.dtype])
    found = run(ModuleOp([function_of("main", problem)]), lhs, rhs)
    assert np.array_equal(found.astype("f8"), expected.astype("f8"))


@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("last", [True, False], ids=["channels-last", "channels-first"])
@pytest.mark.parametrize("name", LINES)
def test_small_integers(name: str, last: bool, direction: int) -> None:
    rank = 1 if "spatial_dim 1" in LINES[name] else 3 if "spatial_dim 3" in LINES[name] else 2
    layout = LAYOUTS[rank][0 if last else 1]
    line = f"{LINES[name]} -F {direction} --in_layout {layout} --fil_layout {layout}"
    (problem,) = parse_line(f"{line} --out_layout {layout}").problems.values()
    check(problem)


# Each example compiles a kernel: parts, so that several processes share them.
@pytest.mark.parametrize("part", range(10))
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems())
def test_any_problem(part: int, problem: ConvProblem) -> None:
    if prod(problem.output_spatial) and prod(problem.spatial):
        check(problem)


@pytest.mark.parametrize("name", ["tails", "long-sum", "f32"])
def test_normal_values(name: str) -> None:
    line = f"{LINES[name]} -F 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    (problem,) = parse_line(line).problems.values()
    lhs, rhs = (normals(s, problem.dtype, i) for i, s in enumerate(problem.shapes[:2]))
    expected = torch_answer(problem, lhs, rhs)
    found = run(ModuleOp([function_of("main", problem)]), lhs, rhs).astype("f8")
    stored = {"f16": 2.0**-11, "f32": 2.0**-24}[problem.dtype]
    tolerance = max(stored, 2.0**-24 * work(problem))
    assert np.all(
        np.abs(found - expected) <= tolerance * (np.abs(expected) + np.abs(expected).max())
    )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_epilogues(number: int) -> None:
    """Bias, relu and residual, each rounding kept; holes take what follows of a zero."""
    module = read_module(LIT.read_text().split("// -----")[number])
    (spec,) = convir_compile(module, pipeline="", device="cuda").outputs
    inputs = convir_compile(module, pipeline="", device="cuda").inputs
    rng = np.random.default_rng(number)
    arguments = [rng.integers(-2, 3, s.shape).astype(s.dtype) for s in inputs]
    (expected,) = evaluate(module, "main", arguments)
    found = run(module, *arguments)
    assert found.dtype == spec.dtype
    assert np.array_equal(found, np.asarray(expected))


def test_more_than_two_to_the_31_elements(cupy: Any) -> None:
    length, channels = (1 << 28) + 3, 8
    line = (
        f"convfp16 --spatial_dim 1 -n 1 -c {channels} -W {length} -k {channels} -x 3 -q 1 -v 1 "
        "-j 1 -F 1 --in_layout NWC --fil_layout NWC --out_layout NWC"
    )
    (problem,) = parse_line(line).problems.values()
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    x = cupy.random.randint(-3, 4, (1, length, channels), dtype=cupy.int8).astype(cupy.float16)
    w = cupy.zeros((channels, 3, channels), cupy.float16)
    for k in range(channels):
        w[k, 1, (k + 3) % channels] = 1
    out = cupy.full(x.shape, cupy.nan, cupy.float16)
    executable(x, w, out=out)
    for k in range(channels):
        assert bool((out[0, :, k] == x[0, :, (k + 3) % channels]).all())
