"""`bind-sizes` executed: a problem whose sizes were forgotten is bound to what it was."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conv_cases import problems, small_integers
from dynamic_sizes import forget_sizes
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_programs.graphs import functions
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.frontends.conv_module import function_of
from convir.passes.bind_sizes.pass_ import BindSizesPass, is_dynamic
from convir.passes.bind_sizes.size_rules import spelled
from convir.passes.convert_conv_to_linalg.pass_ import ConvertConvToLinalgPass
from convir.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from convir.dialects.conv.problem import ConvProblem

    Array = npt.NDArray[Any]
    Case = tuple[str, tuple[Array, ...]]


def entry(module: ModuleOp) -> FuncOp:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function


def in_turn() -> Callable[[int], int]:
    """Chooses among the spellings of a size in turn."""
    numbers = count()
    return lambda end: next(numbers) % end


def bound(text: str, arguments: Sequence[Array]) -> ModuleOp:
    """The module bound to the shapes of `arguments`, printed and read again."""
    module = read_module(text)
    assert is_dynamic(entry(module))
    sizes = tuple(spelled(argument.shape) for argument in arguments)
    BindSizesPass(sizes).apply(new_context(), module)
    reread = read_module(str(module))
    assert "?" not in str(module)
    return reread


def bits(results: Sequence[Array]) -> list[tuple[tuple[int, ...], bytes]]:
    return [(r.shape, np.where(np.isnan(r), np.float32(np.nan), r).tobytes()) for r in results]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=functions(), turn=st.integers(0, 5))
def test_random_graphs_compute_the_same_bits(case: Case, turn: int) -> None:
    text, arguments = case
    static = read_module(text)
    module = read_module(text)
    numbers = count(turn)
    forget_sizes(module, lambda end: next(numbers) % end)
    assume(is_dynamic(entry(module)))
    after = bound(str(module), arguments)
    assert entry(after).function_type == entry(static).function_type
    with np.errstate(all="ignore"):
        expected = bits(evaluate(static, "main", arguments))
        assert bits(evaluate(after, "main", arguments)) == expected
        assert bits(evaluate(read_module(str(module)), "main", arguments)) == expected


@settings(deadline=None, max_examples=60)
@given(problem=problems(), lower_first=st.booleans())
def test_random_convolutions_are_exact(problem: ConvProblem, lower_first: bool) -> None:
    static = ModuleOp([function_of("main", problem)])
    if lower_first:
        ConvertConvToLinalgPass().apply(new_context(), static)
    arguments = [
        small_integers(shape, problem.dtype, seed) for seed, shape in enumerate(problem.shapes[:2])
    ]
    (expected,) = evaluate(read_module(str(static)), "main", arguments)
    forget_sizes(static, in_turn())
    after = bound(str(static), arguments)
    (result,) = evaluate(after, "main", arguments)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


TWO_WALKS = """
func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = arith.addf %x, %y : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""


@pytest.mark.parametrize("other", ["3x4", "4x5", "0x4", "1x4"])
def test_arguments_that_share_a_loop_must_agree(other: str) -> None:
    module = read_module(TWO_WALKS, "walks.mlir")
    with pytest.raises(DiagnosticError, match=r"^walks\.mlir:3:8: error: 'arith\.addf' op cannot"):
        BindSizesPass(("4x4", other)).apply(new_context(), module)


def test_sizes_of_zero_are_sizes() -> None:
    module = read_module(TWO_WALKS)
    BindSizesPass(("0x4", "0x4")).apply(new_context(), module)
    (result,) = evaluate(module, "main", [np.zeros((0, 4), np.float32)] * 2)
    assert result.shape == (0, 4)


def test_locations_and_attributes_stay() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %e = tensor.empty(%n) {mark = 1 : i32} : tensor<?xf32>
      return %e : tensor<?xf32>
    }
    """
    module = read_module(text, "marked.mlir")
    BindSizesPass(("7",)).apply(new_context(), module)
    empty = next(op for op in module.walk() if op.name == "tensor.empty")
    assert "mark" in empty.attributes
    assert "marked.mlir" in str(empty.location)
