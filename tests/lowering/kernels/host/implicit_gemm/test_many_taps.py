"""Contractions on the host with more taps than the table of a tile of full height has room for."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import small_integers

from convir.api.compile import compile as compile_module
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.host.implicit_gemm.blocking import MAX_TAPS, MAX_TAPS_OF_FULL_TILES
from convir.reference import evaluate

LOW, HIGH = 53, 82
"""Sides of filters with more taps than full tiles, and than any tile, have a table for."""

LINES = {
    **{
        f"{dtype} filters of {side}, -F {direction}": f"{dtype} -n 1 -c 2 -H {side + 3} "
        f"-W {side + 4} -k 3 -y {side} -x {side} -F {direction}"
        for dtype in ("conv", "convfp16")
        for side in (LOW, HIGH)
        for direction in (1, 2, 4)
    },
    "images of half precision": "convfp16 -n 2 -c 4 -H 90 -W 91 -k 3 -y 3 -x 3 -p 1 -q 1 -F 4",
    "groups": f"conv -n 1 -c 4 -H 60 -W 60 -k 4 -y {LOW} -x {LOW} -g 4 -F 1",
    "channels last": "convfp16 -n 1 -c 8 -H 90 -W 90 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 4"
    " --in_layout NHWC --fil_layout NHWC --out_layout NHWC",
}


def test_sides_are_where_the_limits_are() -> None:
    assert MAX_TAPS_OF_FULL_TILES < LOW * LOW < MAX_TAPS < HIGH * HIGH


@pytest.mark.parametrize("name", LINES)
def test_many_taps_are_summed(name: str) -> None:
    line = parse_line(LINES[name])
    module = module_of_line(line)
    problem = line.problems["main"]
    lhs, rhs = (
        small_integers(shape, problem.dtype, seed) for seed, shape in enumerate(problem.shapes[:2])
    )
    (expected,) = evaluate(module, "main", (lhs, rhs))
    result = compile_module(module, device="host")(lhs, rhs)
    np.testing.assert_array_equal(result, expected)
