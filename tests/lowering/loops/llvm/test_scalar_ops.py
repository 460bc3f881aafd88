"""Every scalar op on the values where it can go wrong, against the reference, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_kernels import TARGETS, assert_same, program_text, run_program, runnable
from scalar_cases import (
    ARITHMETIC,
    CASTS,
    DIVISIONS,
    EXACT_MATH,
    INEXACT_MATH,
    SHIFTS,
    TO_INTEGERS,
    Case,
    divisible,
    in_range,
    products,
    shifts,
    values,
)

from convir.dialects.context import read_module
from convir.lowering.kernels.host.target import HOST
from convir.reference import evaluate

ULPS = 32
"""Between two libraries' elementary functions: the reference's erf is an interpolation."""


def expected_and_found(case: Case, arguments: list[Any], target: str) -> tuple[Any, Any]:
    cpu = runnable(target)
    if cpu is None:
        pytest.skip(f"this machine does not run {target} code")
    size = len(arguments[0])
    kernel = case.kernel.replace("?", str(size))
    text = program_text(kernel, [f"{size}x{t}" for t in case.operands], [f"{size}x{case.result}"])
    (expected,) = evaluate(read_module(text), "main", arguments)
    (found,) = run_program(text, arguments, cpu)
    return expected, found


def check(case: Case, arguments: list[Any], target: str) -> None:
    expected, found = expected_and_found(case, arguments, target)
    assert_same(found, expected, case.id)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [*ARITHMETIC, *CASTS, *EXACT_MATH], ids=lambda case: case.id)
def test_all_values(case: Case, target: str) -> None:
    check(case, products([values(t) for t in case.operands]), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", DIVISIONS, ids=lambda case: case.id)
def test_divisions(case: Case, target: str) -> None:
    check(case, divisible(case), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", SHIFTS, ids=lambda case: case.id)
def test_shifts(case: Case, target: str) -> None:
    check(case, shifts(case), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", TO_INTEGERS, ids=lambda case: case.id)
def test_floats_to_integers_in_range(case: Case, target: str) -> None:
    check(case, in_range(case), target)


@pytest.mark.parametrize("case", INEXACT_MATH, ids=lambda case: case.id)
def test_elementary_functions(case: Case) -> None:
    arguments = products([values(t) for t in case.operands])
    expected, found = expected_and_found(case, arguments, HOST)
    dtype = expected.dtype
    epsilon = 2.0 ** -{"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[case.result]
    wide_found, wide_expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wide_expected)
    assert_same(found[~finite], expected[~finite], case.id)
    tiny = float(np.array(1, np.dtype(f"i{dtype.itemsize}")).view(dtype))
    np.testing.assert_allclose(
        wide_found[finite],
        wide_expected[finite],
        rtol=ULPS * epsilon,
        atol=ULPS * tiny,
        err_msg=case.id,
    )
