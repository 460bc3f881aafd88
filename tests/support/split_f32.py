"""f32 as three products of TF32 beside multiply-adds, on a GPU: accuracy, infinities and NaN."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import normals, torch_answer
from family_problems import module_of, problem_of, reading_of
from gpu import cupy_or_skip, launch_kernels

from convir.analysis.refusal import Refusal
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.registry import family_of
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from convir.runtime.program import Array

MOST = 2.0
"""Errors of three products over those of multiply-adds."""
FMA = "sm80_implicit_gemm 64x64x16 stages=3 threads=16x16"


def assert_is_as_accurate(line: str, config: str, scale: float) -> None:
    """The errors of a config are at most `MOST` times those of multiply-adds, the largest one and
    the mean; the first operand is normal numbers times `scale`."""
    problem = problem_of(line)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    lhs = (lhs * np.float32(scale)).astype(np.float32)
    expected = torch_answer(problem, lhs, rhs)
    errors = [np.abs(result_of(line, c, lhs, rhs) - expected) for c in (config, FMA)]
    (largest, mean), (most, most_mean) = ((e.max(), float(np.mean(e**2)) ** 0.5) for e in errors)
    assert largest <= MOST * most
    assert mean <= MOST * most_mean


def assert_same_where_not_finite(line: str, config: str) -> None:
    """Results that are infinite or NaN are those of multiply-adds: of infinities, NaN, the largest
    numbers, and small ones beside them."""
    problem = problem_of(line)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    largest = np.finfo("f4").max
    for number, value in enumerate((np.inf, -np.inf, np.nan, largest, -largest)):
        lhs.reshape(-1)[number * 1501] = value
    lhs.reshape(-1)[4::5003] *= np.float32(2.0**-40)
    small = (rhs * np.float32(2.0**-20)).astype(np.float32)
    for factor in (rhs, small):
        split, fma = (result_of(line, each, lhs, factor) for each in (config, FMA))
        np.testing.assert_array_equal(np.isnan(split), np.isnan(fma))
        np.testing.assert_array_equal(split == np.inf, fma == np.inf)
        np.testing.assert_array_equal(split == -np.inf, fma == -np.inf)
        assert not np.isfinite(fma).all()
        finite = np.isfinite(fma)
        np.testing.assert_allclose(split[finite], fma[finite], rtol=2e-3, atol=1e-2)


def result_of(line: str, config: str, lhs: Array, rhs: Array, *, tf32: bool = False) -> Array:
    """What a config stores into memory that was full of NaN, in f64; with `tf32` operands may be
    rounded to that."""
    cupy: Any = cupy_or_skip()
    problem, gpu = problem_of(line), toolkit.gpu()
    reading, family = reading_of(module_of(problem)), family_of(config)
    assert not isinstance(reading, Refusal)
    assert family is not None
    spec = replace(reading.problem.contraction, tf32=tf32)
    asked = replace(reading.problem, contraction=spec)
    plan = family.launch(asked, family.parse(config), gpu)
    if isinstance(plan, Refusal) and not gpu.is_hopper:
        pytest.skip(plan.reason)
    assert isinstance(plan, KernelPlan), plan
    out: Any = cupy.full(problem.shapes[2], cupy.nan, "f4")
    arguments = [cupy.asarray((lhs, rhs)[i]) for i in reading.arguments]
    workspace = [cupy.full(-(-size // 4), cupy.nan, "f4") for size in plan.workspace]
    state = [cupy.zeros(-(-size // 4), "u4") for size in plan.state]
    places = {Pointer("output"): out.data.ptr}
    for place, buffers in (("input", arguments), ("workspace", workspace), ("state", state)):
        places |= {Pointer(place, i): each.data.ptr for i, each in enumerate(buffers)}  # pyright: ignore[reportArgumentType]
    launch_kernels(plan.resolved(reading.problem.place).kernels, places)
    return cupy.asnumpy(out).astype(np.float64)
