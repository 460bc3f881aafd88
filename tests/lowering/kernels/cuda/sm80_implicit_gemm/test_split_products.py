"""f32 as three products of TF32: which problems and configs, its code, its accuracy on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import normals, torch_answer
from conv_lines import NHWC
from cuda_contractions import contraction_of_line, refusal_of_line
from family_problems import module_of, problem_of, reading_of
from gpu import cupy_or_skip, launch_kernels, nvrtc_or_skip
from plan_runs import check_config

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.sm80_implicit_gemm import candidates
from convir.lowering.kernels.cuda.sm80_implicit_gemm.config import Sm80ImplicitGemmConfig
from convir.lowering.kernels.cuda.sm80_implicit_gemm.launch import kernels
from convir.lowering.kernels.cuda.sm80_implicit_gemm.predict import predict
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.toolchain.compile import kernel_usage

if TYPE_CHECKING:
    from convir.lowering.kernels.cuda.problem import ContractionProblem
    from convir.runtime.program import Array

NCHW = NHWC.replace("NHWC", "NCHW")
SPLIT = Sm80ImplicitGemmConfig(64, 64, 16, 4, (2, 2), products=3)
FMA = Sm80ImplicitGemmConfig(64, 64, 16, 3, (16, 16), is_mma=False)
DENSE = "conv -n 16 -c 128 -H 64 -W 64 -k 128 -y 3 -x 3 -p 1 -q 1"
LINES = {
    "dense": "conv -n 2 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1",
    "tails": "conv -n 3 -c 20 -H 13 -W 11 -k 36 -y 3 -x 3 -p 1 -q 1 -u 2 -v 1",
    "even-filter": "conv -n 2 -c 32 -H 12 -W 10 -k 48 -y 2 -x 4 -p 1 -q 2",
    "padding-beyond-the-filter": "conv -n 1 -c 32 -H 5 -W 6 -k 16 -y 2 -x 3 -p 4 -q 3",
    "groups": "conv -n 2 -c 128 -H 14 -W 14 -k 128 -y 3 -x 3 -p 1 -q 1 -g 2",
    "one-by-one": "conv -n 2 -c 136 -H 9 -W 9 -k 264 -y 1 -x 1",
}
MOST = 2.0
"""Errors of three products over those of multiply-adds."""


def line_of(name: str, direction: int, layout: str) -> str:
    return f"{LINES[name]} -F {direction} {layout}"


@pytest.mark.fast
def test_a_config_says_it_where_it_is_not_one() -> None:
    text = "sm80_implicit_gemm 64x64x16 stages=4 warps=2x2 products=3"
    assert str(SPLIT) == text
    assert Sm80ImplicitGemmConfig.parse(text) == SPLIT
    assert "products" not in str(replace(SPLIT, products=1))
    with pytest.raises(ValueError, match="products=2: one of 1, 3"):
        Sm80ImplicitGemmConfig.parse(text.replace("=3", "=2"))


@pytest.mark.parametrize(
    ("line", "config", "reason"),
    [
        (f"{DENSE} -F 1", replace(FMA, products=3), "threads multiply once"),
        (f"{DENSE} -F 1".replace("conv", "convfp16"), SPLIT, "three products are those of f32"),
        (f"{DENSE} -F 1".replace("conv", "convfp64"), SPLIT, "three products are those of f32"),
        (
            "conv -n 2 -c 3 -H 33 -W 35 -k 32 -y 3 -x 3 -F 1",
            SPLIT,
            "a reduction of 27 is shorter than 40: three products may be less accurate than f32",
        ),
        (f"{DENSE} -F 1", replace(SPLIT, products=1), "tensor cores do not multiply f32 and f32"),
    ],
)
def test_refusals(line: str, config: Sm80ImplicitGemmConfig, reason: str) -> None:
    assert refusal_of_line(kernels, f"{line} {NHWC}", config) == reason


@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("layout", [NHWC, NCHW], ids=["channels-last", "channels-first"])
def test_what_would_be_planned_compiles_without_spills(
    layout: str, direction: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvrtc_or_skip()
    found = contraction_of_line(f"{DENSE} -F {direction} {layout}")
    tiles = planned(found)
    shapes = {(tile.m, tile.n, tile.k, tile.over) for tile in tiles}
    assert len(shapes) == len(candidates.SPLIT_TILES)
    for tile in tiles:
        plan = kernels(found.contraction, found.epilogue, tile, DEFAULT_TARGET)
        assert isinstance(plan, KernelPlan), tile
        assert 0 < predict(found.contraction, found.epilogue, tile, DEFAULT_TARGET) < float("inf")
        for kernel in plan.kernels:
            usage = kernel_usage(kernel.source, DEFAULT_TARGET.arch)[kernel.symbol]
            assert usage.spill_bytes <= kernel.spill_bytes, tile


def test_they_are_planned_for_long_reductions() -> None:
    assert planned(contraction_of_line(f"{DENSE} -F 1 {NHWC}"))
    few = contraction_of_line(f"conv -n 2 -c 3 -H 33 -W 35 -k 32 -y 3 -x 3 -F 1 {NHWC}")
    assert not planned(few)


def planned(found: ContractionProblem) -> list[Sm80ImplicitGemmConfig]:
    """Configs of three products that are considered where they may be."""
    configs = candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    assert not isinstance(configs, Refusal)
    return [config for config in configs if config.products == 3]


@pytest.mark.gpu
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("layout", [NHWC, NCHW], ids=["channels-last", "channels-first"])
@pytest.mark.parametrize("name", LINES)
def test_it_computes(name: str, layout: str, direction: int, splits: int) -> None:
    line = line_of(name, direction, layout)
    for exact in (True, False):
        check_config(line, str(replace(SPLIT, splits=splits)), exact=exact)


@pytest.mark.gpu
@pytest.mark.parametrize("scale", [1.0, 2.0**-60, 2.0**60])
@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("name", LINES)
def test_it_is_as_accurate_as_multiply_adds(name: str, direction: int, scale: float) -> None:
    line = line_of(name, direction, NHWC)
    problem = problem_of(line)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    lhs = (lhs * np.float32(scale)).astype(np.float32)
    expected = torch_answer(problem, lhs, rhs)
    errors = [np.abs(result(line, c, lhs, rhs) - expected) for c in (SPLIT, FMA)]
    (largest, mean), (most, most_mean) = ((e.max(), float(np.mean(e**2)) ** 0.5) for e in errors)
    assert largest <= MOST * most
    assert mean <= MOST * most_mean


@pytest.mark.gpu
def test_small_elements_have_the_error_that_is_written_down() -> None:
    line = line_of("dense", 1, NHWC)
    problem = problem_of(line)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    lhs = (lhs * np.float32(2.0**-130)).astype(np.float32)
    expected = torch_answer(problem, lhs, rhs)
    sums = torch_answer(problem, np.ones_like(lhs), np.abs(rhs))
    error = np.abs(result(line, SPLIT, lhs, rhs) - expected)
    terms = 64 * 9
    bound = 2.0**-137 * sums + terms * 2.0**-149 + terms * 2.0**-24 * np.abs(expected)
    assert (error <= bound).all()


@pytest.mark.gpu
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("direction", [1, 2, 4])
@pytest.mark.parametrize("layout", [NHWC, NCHW], ids=["channels-last", "channels-first"])
def test_what_is_not_finite_is_that_of_multiply_adds(
    layout: str, direction: int, splits: int
) -> None:
    line = line_of("dense", direction, layout)
    problem = problem_of(line)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    largest = np.finfo("f4").max
    for number, value in enumerate((np.inf, -np.inf, np.nan, largest, -largest)):
        lhs.reshape(-1)[number * 3001] = value
    lhs.reshape(-1)[4::5003] *= np.float32(2.0**-40)
    small = (rhs * np.float32(2.0**-20)).astype(np.float32)
    for factor in (rhs, small):
        split = result(line, replace(SPLIT, splits=splits), lhs, factor)
        fma = result(line, replace(FMA, splits=splits), lhs, factor)
        np.testing.assert_array_equal(np.isnan(split), np.isnan(fma))
        np.testing.assert_array_equal(split == np.inf, fma == np.inf)
        np.testing.assert_array_equal(split == -np.inf, fma == -np.inf)
        assert not np.isfinite(fma).all()
        finite = np.isfinite(fma)
        assert finite.any()
        np.testing.assert_allclose(split[finite], fma[finite], rtol=2e-3, atol=1e-2)


def result(line: str, config: Sm80ImplicitGemmConfig, lhs: Array, rhs: Array) -> Array:
    """What a config stores into memory that was full of NaN, in f64."""
    cupy: Any = cupy_or_skip()
    problem = problem_of(line)
    reading = reading_of(module_of(problem))
    assert not isinstance(reading, Refusal)
    found = reading.problem
    plan = kernels(found.contraction, found.epilogue, config, toolkit.gpu())
    assert isinstance(plan, KernelPlan)
    out: Any = cupy.full(problem.shapes[2], cupy.nan, "f4")
    arguments = [cupy.asarray((lhs, rhs)[i]) for i in reading.arguments]
    workspace = [cupy.full(-(-size // 4), cupy.nan, "f4") for size in plan.workspace]
    places = {Pointer("output"): out.data.ptr}
    places |= {Pointer("input", i): each.data.ptr for i, each in enumerate(arguments)}
    places |= {Pointer("workspace", i): each.data.ptr for i, each in enumerate(workspace)}
    launch_kernels(plan.resolved(found.place).kernels, places)
    return cupy.asnumpy(out).astype(np.float64)
