"""Contractions of bytes against NumPy: equal in every bit, on CPUs with and without AVX512-VNNI."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from byte_convs import module_of, operands, sums
from conv_cases import problems
from host_contractions import BYTES, TARGETS, Case, run, runs_here, window
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as convir_compile
from convir.dialects.conv.geometry import Direction

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

CPUS = (*TARGETS, "x86-64-v4", "x86-64-v4-bf16")
ONE, THREE = (window(1), window(1)), (window(3, 1, 1), window(3, 1, 1))
CASES = {
    "quads": Case(2, 32, 48, (5, 6), ONE),
    "one quad": Case(1, 4, 1, (1, 1), ONE),
    "one byte": Case(1, 1, 1, (4, 5), (window(2), window(3))),
    "no quads": Case(1, 7, 21, (5, 6), THREE),
    "quads of three by three": Case(2, 24, 70, (9, 11), THREE),
    "strided": Case(1, 16, 33, (14, 15), (window(3, 2, 1), window(3, 2, 1))),
    "even filter": Case(1, 8, 17, (8, 10), (window(4, 2, 1), window(4, 2, 1))),
    "padding as wide as the filter": Case(1, 12, 4, (3, 4), (window(3, 2, 3), window(3, 1, 4))),
    "dilated": Case(1, 8, 9, (13, 12), (window(3, 1, 2, 2), window(3, 2, 3, 3))),
    "few outputs": Case(1, 64, 3, (5, 9), ONE),
    "wide": Case(1, 4, 300, (4, 4), (window(2), window(2))),
    "deep": Case(1, 700, 130, (3, 5), THREE),
    "groups": Case(1, 24, 40, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=2),
    "groups of quads": Case(1, 128, 128, (9, 10), (window(3, 2, 1), window(3, 1, 1)), groups=32),
    "groups of five": Case(1, 45, 45, (5, 6), (window(3, 1, 1), window(2)), groups=9),
    "depthwise": Case(2, 70, 70, (9, 8), (window(3, 1, 1), window(3, 2, 1)), groups=70),
    "a multiplier": Case(1, 20, 40, (7, 6), (window(3, 1, 1), window(3)), groups=20),
    "one dimension": Case(2, 20, 36, (50,), (window(16, 8, 4),)),
    "three dimensions": Case(1, 4, 6, (5, 6, 7), (window(3, 2, 1), window(2, 1, 1), window(1, 2))),
    "accumulating": Case(1, 8, 21, (6, 5), (window(3, 2, 1), window(1, 2)), accumulate=True),
}


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 1, 1), (0, 2, 1)])
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, orders: tuple[int, int, int], cpu: str):
    if not runs_here(cpu):
        pytest.skip(f"this machine is no {cpu}")
    case = replace(CASES[name], types=BYTES, orders=orders)
    run(case, "fprop", cpu, threads=2)
    run(replace(case, fill=0 if case.accumulate else 131), "fprop", cpu)


@settings(max_examples=30, deadline=None)
@given(
    problems(directions=[Direction.FPROP], dtypes=["f32"]),
    st.sampled_from([1, 3, 4, 8, 20]),
    st.integers(0, 99),
)
def test_modules_compute_the_same(problem: ConvProblem, channels: int, seed: int) -> None:
    problem = replace(problem, c=problem.geometry.groups * channels)
    arrays = operands(problem, seed)
    found = np.asarray(convir_compile(module_of(problem), device="host")(*arrays))
    np.testing.assert_array_equal(found, sums(problem, *arrays), strict=True)
