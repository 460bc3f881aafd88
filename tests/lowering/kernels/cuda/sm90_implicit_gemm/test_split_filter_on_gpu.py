"""f32 in IEEE arithmetic as three products of TF32 by wgmma, on a GPU: every element, on poisoned
memory; its accuracy; what is infinite or NaN."""

from __future__ import annotations

import pytest
from conv_lines import NCHW, NHWC
from plan_runs import check_config
from split_f32 import assert_is_as_accurate, assert_same_where_not_finite

pytestmark = pytest.mark.gpu

VOLUME = "--in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC"
TIME = "--spatial_dim 1 --in_layout NWC --fil_layout NWC --out_layout NWC"

ROWS = f"conv -n 3 -c 64 -H 13 -W 11 -k 96 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"
MATRIX = f"conv -n 2 -c 128 -H 9 -W 9 -k 288 -y 1 -x 1 -F 1 {NHWC}"
STRIDED = f"conv -n 3 -c 32 -H 19 -W 23 -k 64 -y 2 -x 4 -p 1 -q 2 -u 2 -v 3 -F 1 {NHWC}"
BEYOND = f"conv -n 5 -c 32 -H 5 -W 6 -k 32 -y 2 -x 3 -p 4 -q 3 -F 1 {NHWC}"
DILATED = f"conv -n 2 -c 96 -H 20 -W 11 -k 160 -y 3 -x 3 -p 2 -q 3 -l 2 -j 3 -F 1 {NHWC}"
DEEP = (
    "conv --spatial_dim 3 -n 2 -c 32 --in_d 6 -H 8 -W 7 -k 64 --fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 "
    f"-q 1 --conv_stride_d 2 -u 2 -v 2 --dilation_d 1 -l 1 -j 1 -F 1 {VOLUME}"
)
STEPS = f"conv -n 3 -c 64 -W 128 -k 96 -x 5 -q 4 -v 2 -j 1 -F 1 {TIME}"
MANY = f"conv -n 32 -c 128 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"

GRADIENT = ROWS.replace("-F 1", "-F 2")
PHASES = f"conv -n 3 -c 64 -H 14 -W 12 -k 128 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -F 2 {NHWC}"
PLANES = f"conv -n 3 -c 64 -H 14 -W 12 -k 96 -y 3 -x 3 -p 1 -q 1 -F 1 {NCHW}"

CASES = [
    (ROWS, "128x96 4 32"),
    (ROWS, "128x64 6 32"),
    (ROWS, "128x32 8 32"),
    (MATRIX, "128x128 4 32"),
    (MATRIX, "128x96 4 48"),
    (STRIDED, "128x64 5 64"),
    (BEYOND, "128x32 8 32"),
    (DILATED, "128x128 4 32"),
    (DILATED, "128x32 3 16"),
    (DEEP, "128x64 6 32"),
    (STEPS, "128x96 5 32"),
    (MANY, "128x128 4 32"),
    (GRADIENT, "128x64 6 32 b"),
    (PHASES, "128x64 6 32 b"),
    (PLANES, "128x96 5 32 abc"),
    (PLANES.replace("-F 1", "-F 2"), "128x64 6 32 abc"),
]


def text_of(config: str) -> str:
    """The config of `TILE STAGES STORE [COPIED]`."""
    tile, stages, store, *copied = config.split()
    inner = (
        f"sm90_implicit_gemm {tile} stages={stages} schedule=cooperative store={store} blocks=132 "
        "products=3"
    )
    return f"layout_conversion {copied[0]} {inner}" if copied else inner


@pytest.mark.parametrize(("line", "config"), CASES)
def test_it_computes(line: str, config: str) -> None:
    for exact in (True, False):
        check_config(line, text_of(config), exact=exact)


@pytest.mark.parametrize("scale", [1.0, 2.0**-60, 2.0**60])
@pytest.mark.parametrize(
    ("line", "config"),
    [(ROWS, "128x64 6 32"), (MATRIX, "128x128 4 32"), (MANY, "128x128 4 32")],
)
def test_it_is_as_accurate_as_multiply_adds(line: str, config: str, scale: float) -> None:
    assert_is_as_accurate(line, text_of(config), scale)


@pytest.mark.parametrize(
    ("line", "config"),
    [
        (ROWS, "128x64 6 32"),
        (MATRIX, "128x128 4 32"),
        (DILATED, "128x32 3 16"),
        (DEEP, "128x64 6 32"),
        (GRADIENT, "128x64 6 32 b"),
        (PHASES, "128x64 6 32 b"),
    ],
)
def test_what_is_not_finite_is_that_of_multiply_adds(line: str, config: str) -> None:
    assert_same_where_not_finite(line, text_of(config))
