"""f32 in IEEE arithmetic as three products of TF32 by wgmma, on a GPU: every element, on poisoned
memory; its accuracy; what is infinite or NaN."""

from __future__ import annotations

import pytest
from f32_wgrad_lines import (
    BEYOND,
    COLUMN,
    DEEP,
    GROUPS,
    MANY,
    MATRIX,
    ODD_CHANNELS,
    POINTS,
    ROWS,
    ROWS_FILTER_FIRST,
    STRIDED,
    STRIDED_WINDOW,
    TAIL,
    WHOLE,
    WINDOW,
    config_text,
)
from plan_runs import check_config
from split_f32 import assert_is_as_accurate, assert_same_where_not_finite

pytestmark = pytest.mark.gpu

CASES = [
    (WHOLE, "64x128 4 data-parallel"),
    (WHOLE, "128x64 4 split-k:3:reduce-scatter"),
    (TAIL, "128x64 6 data-parallel"),
    (TAIL, "128x128 4 split-k:3:reduce-scatter"),
    (TAIL, "64x128 5 split-k:4:linear"),
    (ODD_CHANNELS, "64x128 5 data-parallel"),
    (ODD_CHANNELS, "64x256 3 split-k:3:tree"),
    (MANY, "128x128 4 split-k:14:reduce-scatter"),
    (MANY, "64x256 3 stream-k:linear"),
    (COLUMN, "128x128 4 split-k:5:reduce-scatter"),
    (COLUMN, "128x64 3 stream-k:tree"),
    (WINDOW, "128x128 4 split-k:3:reduce-scatter"),
    (WINDOW, "128x128 3 data-parallel"),
    (WINDOW, "64x256 3 split-k:3:linear"),
    (STRIDED_WINDOW, "128x64 6 data-parallel"),
    (STRIDED_WINDOW, "64x128 3 split-k:2:tree"),
    (POINTS, "128x64 4 split-k:4:reduce-scatter"),
    (ROWS, "128x128 4 data-parallel"),
    (ROWS, "128x128 4 split-k:3:reduce-scatter"),
    (ROWS, "64x256 3 split-k:4:linear"),
    (ROWS, "128x64 6 stream-k:linear"),
    (ROWS_FILTER_FIRST, "128x128 4 split-k:3:reduce-scatter"),
    (ROWS_FILTER_FIRST, "64x128 5 data-parallel"),
    (MATRIX, "128x128 4 split-k:2:reduce-scatter"),
    (MATRIX, "64x128 5 split-k:3:tree"),
    (STRIDED, "128x64 6 split-k:2:linear"),
    (BEYOND, "64x128 5 data-parallel"),
    (GROUPS, "128x128 4 split-k:2:reduce-scatter"),
    (GROUPS, "64x256 3 data-parallel"),
    (DEEP, "64x256 3 split-k:2:reduce-scatter"),
]


@pytest.mark.parametrize(("line", "config"), CASES)
def test_it_computes(line: str, config: str) -> None:
    for exact in (True, False):
        check_config(line, config_text(config, products=3), exact=exact)


@pytest.mark.parametrize("scale", [1.0, 2.0**-60, 2.0**60])
@pytest.mark.parametrize("line", [WINDOW, ROWS, MATRIX, MANY])
def test_it_is_as_accurate_as_multiply_adds(line: str, scale: float) -> None:
    assert_is_as_accurate(line, config_text("128x128 4 data-parallel", products=3), scale)


@pytest.mark.parametrize("partition", ["data-parallel", "split-k:3:reduce-scatter"])
@pytest.mark.parametrize("line", [WHOLE, TAIL, COLUMN, WINDOW, ROWS, MATRIX, GROUPS, DEEP])
def test_what_is_not_finite_is_that_of_multiply_adds(line: str, partition: str) -> None:
    assert_same_where_not_finite(line, config_text(f"128x64 4 {partition}", products=3))
