"""Convolutions of bytes on the host: the sums of NumPy, on every kind of CPU that runs here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from byte_convs import module_of, operands, sums
from conv_cases import problems
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as convir_compile
from convir.dialects.conv.geometry import Direction

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

BYTES = problems(directions=[Direction.FPROP], dtypes=["f32"])


@settings(max_examples=30, deadline=None)
@given(BYTES, st.sampled_from([1, 3, 4, 8, 20]), st.integers(0, 99))
def test_sums_are_exact(problem: ConvProblem, channels: int, seed: int) -> None:
    groups = problem.geometry.groups
    problem = replace(problem, c=groups * channels)
    arrays = operands(problem, seed)
    found = np.asarray(convir_compile(module_of(problem), device="host")(*arrays))
    np.testing.assert_array_equal(found, sums(problem, *arrays), strict=True)
