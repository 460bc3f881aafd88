"""`convert-conv-to-linalg`, executed: what it makes of a problem is what PyTorch computes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from conv_cases import DTYPES, normals, problems, small_integers, torch_answer, work
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp

from convir.dialects.context import new_context, parse_module, read_module
from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.ops import CONV_OPS, ELEMENT_TYPES
from convir.dialects.conv.problem import ConvProblem
from convir.frontends.conv_module import function_of
from convir.passes.convert_conv_to_linalg.pass_ import ConvertConvToLinalgPass
from convir.passes.manager.remarks import collect
from convir.reference import evaluate
from convir.reference.dtypes import convert

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]


def converted(module: ModuleOp) -> ModuleOp:
    """The module after the pass: verified, printed and read again, without conv ops."""
    ConvertConvToLinalgPass().apply(new_context(), module)
    module.verify()
    reread = read_module(str(module))
    assert not any(op.name.startswith("conv.") for op in reread.walk())
    return reread


def accumulating_module(problem: ConvProblem) -> ModuleOp:
    """`@main(lhs, rhs, init)` returning init + the problem's result."""
    types = [TensorType(ELEMENT_TYPES[problem.dtype], shape) for shape in problem.shapes]
    function = FuncOp("main", (types, types[2:]))
    block = function.body.block
    accumulator = ELEMENT_TYPES[problem.accumulator]
    lhs, rhs, init = block.args
    op = CONV_OPS[problem.direction](lhs, rhs, init, problem.geometry, accumulator)
    block.add_ops([op, ReturnOp(op.result)])
    return ModuleOp([function])


def operands(
    problem: ConvProblem, make: Callable[[tuple[int, ...], str, int], Array] = small_integers
) -> list[Array]:
    return [make(shape, problem.dtype, seed) for seed, shape in enumerate(problem.shapes)]


@settings(deadline=None)
@given(problems())
def test_random_problems_are_exact(problem: ConvProblem) -> None:
    lhs, rhs, _ = operands(problem)
    expected = convert(torch_answer(problem, lhs, rhs), DTYPES[problem.dtype])
    module = ModuleOp([function_of("main", problem)])
    for candidate in (parse_module(str(module)), converted(module)):
        (result,) = evaluate(candidate, "main", [lhs, rhs])
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


@settings(deadline=None, max_examples=40)
@given(problems())
def test_the_init_is_added(problem: ConvProblem) -> None:
    lhs, rhs, init = operands(problem)
    expected = convert(
        torch_answer(problem, lhs, rhs) + init.astype(np.float64), DTYPES[problem.dtype]
    )
    module = accumulating_module(problem)
    for candidate in (parse_module(str(module)), converted(module)):
        (result,) = evaluate(candidate, "main", [lhs, rhs, init])
        np.testing.assert_array_equal(result, expected)


@settings(deadline=None, max_examples=40)
@given(problems())
def test_random_reals_stay_within_the_rounding_of_their_sums(problem: ConvProblem) -> None:
    lhs, rhs, _ = operands(problem, normals)
    (result,) = evaluate(converted(ModuleOp([function_of("main", problem)])), "main", [lhs, rhs])
    exact = torch_answer(problem, lhs, rhs)
    magnitude = torch_answer(problem, np.abs(lhs), np.abs(rhs))
    accumulator_eps = {"f32": 2.0**-24, "f64": 2.0**-53}[problem.accumulator]
    result_eps = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}[problem.dtype]
    smallest = {"f16": 2.0**-24, "bf16": 2.0**-133}.get(problem.dtype, 0.0)
    bound = magnitude * accumulator_eps * (work(problem) + 1)
    bound += np.abs(exact) * result_eps * (1 + accumulator_eps) + bound * result_eps + smallest
    assert np.all(np.abs(result.astype(np.float64) - exact) <= bound)


@settings(deadline=None, max_examples=20)
@given(problems(directions=[Direction.FPROP], dtypes=["f64"]))
def test_the_gradients_are_adjoint_to_the_forward_convolution(problem: ConvProblem) -> None:
    x, w, dy = operands(problem)

    def result(direction: Direction, lhs: Array, rhs: Array) -> Array:
        function = function_of("main", replace(problem, direction=direction))
        return evaluate(converted(ModuleOp([function])), "main", [lhs, rhs])[0]

    product = np.vdot(dy, result(Direction.FPROP, x, w))
    assert product == np.vdot(x, result(Direction.DGRAD, dy, w))
    assert product == np.vdot(w, result(Direction.WGRAD, x, dy))


LAYOUTS = {
    1: [("NWC", "KSC", "NWC"), ("NCW", "KCS", "NCW"), ("NCW", "SCK", "NWC")],
    2: [("NHWC", "KRSC", "NHWC"), ("NCHW", "KCRS", "NCHW"), ("CNHW", "RSCK", "NHWC")],
    3: [("NDHWC", "KTRSC", "NDHWC"), ("NCDHW", "KCTRS", "NCDHW"), ("NDHWC", "TRSCK", "NCDHW")],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", LAYOUTS)
@pytest.mark.parametrize("direction", Direction)
def test_every_direction_rank_layout_and_dtype(direction: Direction, rank: int, dtype: str) -> None:
    for layouts in LAYOUTS[rank]:
        for groups in (1, 2):
            geometry = Geometry(
                *layouts,
                strides=(2, 1, 3)[:rank],
                pad_low=(1, 0, 2)[:rank],
                pad_high=(0, 1, 2)[:rank],
                dilations=(1, 2, 1)[:rank],
                groups=groups,
            )
            spatial, taps = (6, 5, 4)[:rank], (3, 2, 1)[:rank]
            problem = ConvProblem(direction, dtype, 2, 4, 6, spatial, taps, geometry)
            lhs, rhs, _ = operands(problem)
            expected = convert(torch_answer(problem, lhs, rhs), DTYPES[dtype])
            (result,) = evaluate(
                converted(ModuleOp([function_of("main", problem)])), "main", [lhs, rhs]
            )
            np.testing.assert_array_equal(result, expected)


def one_dimensional(direction: Direction, **sizes: int) -> ConvProblem:
    values = {"size": 5, "taps": 3, "stride": 1, "low": 0, "high": 0, "dilation": 1, **sizes}
    geometry = Geometry(
        "NWC",
        "KSC",
        "NWC",
        strides=(values["stride"],),
        pad_low=(values["low"],),
        pad_high=(values["high"],),
        dilations=(values["dilation"],),
    )
    return ConvProblem(direction, "f32", 2, 2, 2, (values["size"],), (values["taps"],), geometry)


EDGES = {
    "the input's last position is in no window": {"size": 50, "taps": 1, "stride": 2},
    "an input one shorter has the same output": {"size": 49, "taps": 1, "stride": 2},
    "strides leave gaps between filters": {"size": 11, "taps": 2, "stride": 5},
    "padding reaches beyond the filter": {"size": 4, "taps": 2, "low": 3, "high": 3},
    "the same, strided": {"size": 4, "taps": 2, "low": 5, "high": 4, "stride": 3},
    "the same, dilated": {"size": 4, "taps": 2, "low": 5, "high": 5, "stride": 2, "dilation": 3},
    "one position, one tap": {"size": 1, "taps": 1},
    "every window is in the padding": {"size": 1, "taps": 1, "low": 1, "stride": 2},
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge: str, direction: Direction) -> None:
    problem = one_dimensional(direction, **EDGES[edge])
    lhs, rhs, init = operands(problem)
    expected = torch_answer(problem, lhs, rhs)
    (result,) = evaluate(converted(ModuleOp([function_of("main", problem)])), "main", [lhs, rhs])
    np.testing.assert_array_equal(result, expected)
    (result,) = evaluate(converted(accumulating_module(problem)), "main", [lhs, rhs, init])
    np.testing.assert_array_equal(result, expected + init)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("empty", ["n", "c", "k"])
def test_empty_dimensions(empty: str, direction: Direction) -> None:
    problem = replace(one_dimensional(direction, stride=2, low=1), **{empty: 0})
    lhs, rhs, init = operands(problem)
    (result,) = evaluate(converted(accumulating_module(problem)), "main", [lhs, rhs, init])
    np.testing.assert_array_equal(result, init)


DYNAMIC_BATCH = {
    Direction.FPROP: """
      func.func @main(%x: tensor<?x9x9x4xf16>, %w: tensor<6x3x3x2xf16>, %i: tensor<?x5x5x6xf16>)
          -> tensor<?x5x5x6xf16> {
        %y = conv.fprop layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) groups(2)
          accumulate(f32) ins(%x, %w : tensor<?x9x9x4xf16>, tensor<6x3x3x2xf16>)
          outs(%i : tensor<?x5x5x6xf16>)
        return %y : tensor<?x5x5x6xf16>
      }""",
    Direction.DGRAD: """
      func.func @main(%dy: tensor<?x5x5x6xf16>, %w: tensor<6x3x3x2xf16>, %i: tensor<?x9x9x4xf16>)
          -> tensor<?x9x9x4xf16> {
        %dx = conv.dgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) groups(2)
          accumulate(f32) ins(%dy, %w : tensor<?x5x5x6xf16>, tensor<6x3x3x2xf16>)
          outs(%i : tensor<?x9x9x4xf16>)
        return %dx : tensor<?x9x9x4xf16>
      }""",
    Direction.WGRAD: """
      func.func @main(%x: tensor<?x9x9x4xf16>, %dy: tensor<?x5x5x6xf16>, %i: tensor<6x3x3x2xf16>)
          -> tensor<6x3x3x2xf16> {
        %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) strides(2, 2) padding(1, 1) groups(2)
          accumulate(f32) ins(%x, %dy : tensor<?x9x9x4xf16>, tensor<?x5x5x6xf16>)
          outs(%i : tensor<6x3x3x2xf16>)
        return %dw : tensor<6x3x3x2xf16>
      }""",
}


@pytest.mark.parametrize("direction", Direction)
def test_a_dynamic_batch(direction: Direction) -> None:
    geometry = Geometry("NHWC", "KRSC", "NHWC", (2, 2), (1, 1), (1, 1), (1, 1), groups=2)
    module = converted(parse_module(DYNAMIC_BATCH[direction]))
    for n in (1, 3):
        problem = ConvProblem(direction, "f16", n, 4, 6, (9, 9), (3, 3), geometry)
        lhs, rhs, init = operands(problem)
        expected = torch_answer(problem, lhs, rhs) + init
        (result,) = evaluate(module, "main", [lhs, rhs, init])
        np.testing.assert_array_equal(result, expected.astype(np.float16))


def test_other_dynamic_sizes_are_refused_with_the_reason() -> None:
    module = parse_module("""
      func.func @main(%x: tensor<2x?x4xf32>, %w: tensor<6x3x4xf32>, %i: tensor<2x?x6xf32>)
          -> tensor<2x?x6xf32> {
        %y = conv.fprop layouts(NWC, KSC, NWC)
          ins(%x, %w : tensor<2x?x4xf32>, tensor<6x3x4xf32>) outs(%i : tensor<2x?x6xf32>)
        return %y : tensor<2x?x6xf32>
      }""")
    with collect() as remarks:
        ConvertConvToLinalgPass().apply(new_context(), module)
    assert [(remark.fired, remark.reason) for remark in remarks] == [
        (False, "dimension W of the input is dynamic")
    ]
