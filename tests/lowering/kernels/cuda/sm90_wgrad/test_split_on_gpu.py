"""f32 in IEEE arithmetic as three products of TF32 by wgmma, on a GPU: every element, on poisoned
memory; its accuracy; what is infinite or NaN."""

from __future__ import annotations

import pytest
from conv_lines import NCHW, NHWC
from plan_runs import check_config
from split_f32 import assert_is_as_accurate, assert_same_where_not_finite

pytestmark = pytest.mark.gpu

PIXELS = "--in_layout NHWC --fil_layout NCHW --out_layout NCHW"
"""Of C's pixels alone are neighbours contiguous."""
FILTER_FIRST = "--in_layout NHWC --fil_layout NCHW --out_layout NHWC"
VOLUME = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"

WHOLE = f"conv -n 3 -c 64 -H 8 -W 8 -k 64 -y 1 -x 1 -F 4 {NCHW}"
TAIL = f"conv -n 5 -c 72 -H 12 -W 10 -k 136 -y 1 -x 1 -F 4 {NCHW}"
ODD_CHANNELS = f"conv -n 2 -c 67 -H 16 -W 13 -k 35 -y 1 -x 1 -F 4 {NCHW}"
MANY = f"conv -n 32 -c 256 -H 28 -W 28 -k 320 -y 1 -x 1 -F 4 {NCHW}"
COLUMN = f"conv -n 3 -c 72 -H 16 -W 24 -k 136 -y 3 -x 1 -p 1 -F 4 {NCHW}"
WINDOW = f"conv -n 5 -c 72 -H 12 -W 10 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4 {PIXELS}"
STRIDED_WINDOW = f"conv -n 3 -c 64 -H 32 -W 16 -k 200 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -F 4 {PIXELS}"
POINTS = f"conv -n 5 -c 72 -H 12 -W 10 -k 136 -y 1 -x 1 -F 4 {PIXELS}"
ROWS = f"conv -n 3 -c 72 -H 13 -W 11 -k 136 -y 3 -x 3 -p 1 -q 1 -F 4 {NHWC}"
ROWS_FILTER_FIRST = ROWS.replace(NHWC, FILTER_FIRST)
MATRIX = f"conv -n 2 -c 136 -H 9 -W 9 -k 264 -y 1 -x 1 -F 4 {NHWC}"
STRIDED = f"conv -n 3 -c 40 -H 19 -W 23 -k 72 -y 2 -x 4 -p 1 -q 2 -u 2 -v 3 -F 4 {NHWC}"
BEYOND = f"conv -n 5 -c 32 -H 5 -W 6 -k 16 -y 2 -x 3 -p 4 -q 3 -F 4 {NHWC}"
GROUPS = f"conv -n 2 -c 192 -H 14 -W 14 -k 144 -y 3 -x 3 -p 1 -q 1 -g 2 -F 4 {NHWC}"
DEEP = (
    "conv --spatial_dim 3 -n 2 -c 32 --in_d 6 -H 8 -W 7 -k 64 --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 "
    f"-q 1 --conv_stride_d 2 -u 2 -v 2 --dilation_d 1 -l 1 -j 1 -F 4 {VOLUME}"
)

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


def text_of(config: str) -> str:
    """The config of `TILE STAGES PARTITION`."""
    tile, stages, partition = config.split()
    return (
        f"sm90_wgrad {tile} stages={stages} roles=4:8 cluster=1 partition={partition} blocks=132 "
        "products=3"
    )


@pytest.mark.parametrize(("line", "config"), CASES)
def test_it_computes(line: str, config: str) -> None:
    for exact in (True, False):
        check_config(line, text_of(config), exact=exact)


@pytest.mark.parametrize("scale", [1.0, 2.0**-60, 2.0**60])
@pytest.mark.parametrize("line", [WINDOW, ROWS, MATRIX, MANY])
def test_it_is_as_accurate_as_multiply_adds(line: str, scale: float) -> None:
    assert_is_as_accurate(line, text_of("128x128 4 data-parallel"), scale)


@pytest.mark.parametrize("partition", ["data-parallel", "split-k:3:reduce-scatter"])
@pytest.mark.parametrize("line", [WHOLE, TAIL, COLUMN, WINDOW, ROWS, MATRIX, GROUPS, DEEP])
def test_what_is_not_finite_is_that_of_multiply_adds(line: str, partition: str) -> None:
    assert_same_where_not_finite(line, text_of(f"128x64 4 {partition}"))
