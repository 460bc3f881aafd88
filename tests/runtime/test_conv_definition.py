"""The definition of a convolution against PyTorch, and the three directions against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from conv_cases import problems, small_integers, torch_answer
from hypothesis import given, settings

from convir.dialects.conv_geometry import Direction
from convir.frontends.miopen import parse_line
from convir.runtime.conv_definition import define

if TYPE_CHECKING:
    from convir.dialects.problem import ConvProblem


@settings(deadline=None)
@given(problems())
def test_it_is_what_pytorch_computes(problem: ConvProblem) -> None:
    lhs, rhs = (
        small_integers(shape, problem.dtype, i) for i, shape in enumerate(problem.shapes[:2])
    )
    np.testing.assert_array_equal(define(problem, lhs, rhs), torch_answer(problem, lhs, rhs))


@settings(deadline=None)
@given(problems(directions=[Direction.FPROP]))
def test_the_gradients_are_adjoint_to_the_forward_convolution(problem: ConvProblem) -> None:
    x = small_integers(problem.input_shape, "f64", 0)
    w = small_integers(problem.filter_shape, "f64", 1)
    dy = small_integers(problem.output_shape, "f64", 2)
    y = define(problem, x, w)
    dx = define(replace(problem, direction=Direction.DGRAD), dy, w)
    dw = define(replace(problem, direction=Direction.WGRAD), x, dy)
    assert np.vdot(dy, y) == np.vdot(dx, x) == np.vdot(dw, w)


def test_empty_operands_sum_to_zero() -> None:
    (problem,) = parse_line("conv -n 1 -c 2 -k 2 -H 4 -W 4 -F 1").problems.values()
    nothing = replace(problem, c=0)
    result = define(nothing, np.zeros(nothing.input_shape), np.zeros(nothing.filter_shape))
    np.testing.assert_array_equal(result, np.zeros(nothing.output_shape))
    no_samples = replace(problem, n=0)
    result = define(no_samples, np.zeros(no_samples.input_shape), np.zeros(problem.filter_shape))
    assert result.shape == no_samples.output_shape


def test_operands_of_other_shapes_are_refused() -> None:
    (problem,) = parse_line("conv -n 1 -c 2 -k 2 -H 4 -W 4 -F 1").problems.values()
    with pytest.raises(ValueError, match="expected an operand of shape"):
        define(problem, np.zeros((1, 2, 4, 5)), np.zeros(problem.filter_shape))
