"""TF32 whose channels are innermost, which warps transpose, on a GPU: every element, on poisoned
memory; what is infinite or NaN."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import normals, small_integers, torch_answer
from conv_lines import NHWC
from f32_wgrad_lines import (
    BEYOND,
    DEEP,
    GROUPS,
    MATRIX,
    POINTS,
    ROWS,
    ROWS_FILTER_FIRST,
    STRIDED,
    STRIDED_WINDOW,
    WINDOW,
    config_text,
)
from family_problems import problem_of
from split_f32 import result_of

pytestmark = pytest.mark.gpu

MANY = f"conv -n 8 -c 256 -H 28 -W 28 -k 320 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
UNIT = 2.0**-24
CASES = [
    (WINDOW, "128x128 5 split-k:3:reduce-scatter"),
    (WINDOW, "128x256 4 data-parallel"),
    (WINDOW, "64x256 3 split-k:3:linear"),
    (STRIDED_WINDOW, "128x64 6 data-parallel"),
    (STRIDED_WINDOW, "64x128 3 split-k:2:tree"),
    (POINTS, "128x64 4 split-k:4:reduce-scatter"),
    (ROWS, "128x128 6 data-parallel"),
    (ROWS, "128x128 4 split-k:3:reduce-scatter"),
    (ROWS, "64x256 5 split-k:4:linear"),
    (ROWS, "128x64 6 stream-k:linear"),
    (ROWS, "128x256 3 stream-k:tree"),
    (ROWS_FILTER_FIRST, "128x128 4 split-k:3:reduce-scatter"),
    (ROWS_FILTER_FIRST, "64x128 5 data-parallel"),
    (MATRIX, "128x256 4 split-k:2:reduce-scatter"),
    (MATRIX, "64x128 5 split-k:3:tree"),
    (MANY, "128x256 4 stream-k:linear"),
    (STRIDED, "128x64 6 split-k:2:linear"),
    (BEYOND, "64x128 5 data-parallel"),
    (GROUPS, "128x128 4 split-k:2:reduce-scatter"),
    (GROUPS, "64x256 3 data-parallel"),
    (DEEP, "64x256 3 split-k:2:reduce-scatter"),
]


def rounded(x: np.ndarray) -> np.ndarray:
    """To TF32: 10 bits behind the point."""
    bits = x.view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize(("line", "config"), CASES)
def test_it_computes(line: str, config: str) -> None:
    problem = problem_of(line)
    for make in (small_integers, normals):
        lhs, rhs = (rounded(make(shape, "f32", i)) for i, shape in enumerate(problem.shapes[:2], 1))
        expected = torch_answer(problem, lhs, rhs)
        found = result_of(line, config_text(config), lhs, rhs, tf32=True)
        # Sums of tensor cores keep at least 24 bits, and cut the rest off.
        terms = lhs.size // lhs.shape[1]
        most = 0.0 if make is small_integers else 2 * UNIT * terms**0.5 * 4
        np.testing.assert_allclose(found, expected, rtol=most, atol=most * terms**0.5)


def test_operands_are_rounded_to_the_nearest() -> None:
    problem = problem_of(ROWS)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    for each in (lhs, rhs):  # Ties may go either way.
        bits = each.view(np.uint32)
        bits[bits & np.uint32(0x1FFF) == np.uint32(0x1000)] += np.uint32(1)
    config = config_text("128x128 4 data-parallel")
    found = result_of(ROWS, config, lhs, rhs, tf32=True)
    nearest = result_of(ROWS, config, rounded(lhs), rounded(rhs), tf32=True)
    np.testing.assert_array_equal(found, nearest)


@pytest.mark.parametrize("line", [WINDOW, ROWS, MATRIX, GROUPS, DEEP])
def test_what_is_not_finite_stays_so(line: str) -> None:
    problem = problem_of(line)
    lhs, rhs = (normals(shape, "f32", i) for i, shape in enumerate(problem.shapes[:2], 1))
    for number, value in enumerate((np.inf, -np.inf, np.nan)):
        lhs.reshape(-1)[number * 1501] = value
    # A NaN whose bits are those of a zero when a half of the last place is added.
    lhs.view(np.uint32).reshape(-1)[3 * 1501] = 0x7FFFFFFF
    expected = torch_answer(problem, lhs, rhs)
    found = result_of(line, config_text("128x64 4 split-k:3:reduce-scatter"), lhs, rhs, tf32=True)
    assert not np.isfinite(expected).all()
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
