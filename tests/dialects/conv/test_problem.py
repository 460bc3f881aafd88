"""Convolution problems as data: sizes, work, traffic and lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conv_cases import problems, torch_answer
from hypothesis import given, settings

from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.problem import ELEMENT_BYTES, ConvProblem
from convir.frontends.miopen import parse_line

pytestmark = pytest.mark.fast

POINTWISE = ConvProblem(
    Direction.DGRAD,
    "f16",
    n=32,
    c=1024,
    k=2048,
    spatial=(50, 50),
    taps=(1, 1),
    geometry=Geometry("NHWC", "KRSC", "NHWC", (2, 2), (0, 0), (0, 0), (1, 1)),
)


def test_shapes_follow_the_direction() -> None:
    dy, w, dx = (32, 25, 25, 2048), (2048, 1, 1, 1024), (32, 50, 50, 1024)
    assert POINTWISE.shapes == (dy, w, dx)
    assert replace(POINTWISE, direction=Direction.FPROP).shapes == (dx, w, dy)
    assert replace(POINTWISE, direction=Direction.WGRAD).shapes == (dx, dy, w)


def test_work_is_that_of_the_formula_in_every_direction() -> None:
    for direction in Direction:
        assert replace(POINTWISE, direction=direction).flops == 2 * 32 * 25 * 25 * 2048 * 1024


def test_bytes_leave_out_what_a_stride_skips() -> None:
    fprop = replace(POINTWISE, direction=Direction.FPROP)
    read = 32 * 25 * 25 * 1024 + 2048 * 1024
    assert fprop.bytes == 2 * (read + 32 * 25 * 25 * 2048)
    # dX is written whole, holes included.
    assert POINTWISE.bytes == 2 * (32 * 25 * 25 * 2048 + 2048 * 1024 + 32 * 50 * 50 * 1024)


@settings(deadline=None)
@given(problems())
def test_bytes_count_what_the_result_depends_on(problem: ConvProblem) -> None:
    """Over ones, an operand's gradient is above 0 if and only if the result reads the element."""
    ones = {
        role: np.ones(shape)
        for role, shape in zip(problem.direction.roles, problem.shapes, strict=True)
    }
    lhs, rhs, result = problem.direction.roles
    elements = ones[result].size
    for direction in Direction:
        left, right, computed = direction.roles
        if computed in (lhs, rhs):
            gradient = torch_answer(replace(problem, direction=direction), ones[left], ones[right])
            elements += np.count_nonzero(gradient)
    assert problem.bytes == elements * ELEMENT_BYTES[problem.dtype]


@given(problems())
def test_lines_say_the_whole_problem(problem: ConvProblem) -> None:
    geometry = replace(problem.geometry, pad_high=problem.geometry.pad_low)
    try:
        symmetric = replace(problem, geometry=geometry)
    except ValueError:
        return
    assert dict(parse_line(symmetric.line()).problems) == {"main": symmetric}


def test_channels_last_is_a_transposition_of_every_operand() -> None:
    problem = parse_line(
        "conv --spatial_dim 3 -n 2 -c 3 --in_d 4 -H 5 -W 6 -k 7 --fil_d 1 -y 2 -x 3 -F 2"
        " --in_layout NCDHW --fil_layout NCDHW --out_layout NCDHW"
    ).problems["main"]
    last = problem.channels_last
    assert (last.geometry.input_layout, last.geometry.filter_layout) == ("NDHWC", "KTRSC")
    for role, shape, arranged in zip(
        problem.direction.roles, problem.shapes, last.shapes, strict=True
    ):
        axes = problem.transposition(role, last)
        assert tuple(shape[axis] for axis in axes) == arranged
    assert last.channels_last == last


def test_asymmetric_padding_has_no_line() -> None:
    geometry = replace(POINTWISE.geometry, pad_high=(1, 0))
    problem = replace(POINTWISE, geometry=geometry)
    with pytest.raises(ValueError, match="cannot say asymmetric padding"):
        problem.line()
    assert "pad_high=(1, 0)" in str(problem)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "i8"}, "element type i8 is not one of f16, bf16, f32, f64"),
        ({"n": -1}, "the batch size must be at least 0, found -1"),
        ({"taps": (0, 1)}, "a filter size must be at least 1, found 0"),
        ({"spatial": (50,)}, "differ in their number of spatial dimensions"),
        ({"taps": (51, 1)}, "along H, a filter that spans 51 does not fit"),
        (
            {"geometry": replace(POINTWISE.geometry, groups=3)},
            "1024 input channels do not divide into 3 groups",
        ),
        (
            {"geometry": replace(POINTWISE.geometry, input_layout="NHWW")},
            "'NHWW' is not the layout of an activation",
        ),
    ],
)
def test_what_is_no_problem(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(POINTWISE, **change)
