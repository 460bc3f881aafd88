"""What counts as the same IR: names of values do not matter, types of results do."""

from __future__ import annotations

import pytest

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

ROUNDED = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.truncf %a : f32 to f16
    %w = arith.extf %h : f16 to f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""
WINDOW = """
func.func @main(%n: index) -> index {
  %e = tensor.empty() : tensor<3xf32>
  %d = tensor.dim %e, %n : tensor<3xf32>
  return %d : index
}"""


@pytest.mark.parametrize(
    ("text", "old", "new", "same"),
    [
        (ROUNDED, "%h", "%half", True),
        (ROUNDED, "f16", "bf16", False),
        (WINDOW, "tensor<3xf32>", "tensor<2xf32>", False),
    ],
)
def test_results_of_other_types_are_something_else(
    text: str, old: str, new: str, same: bool
) -> None:
    one, other = read_module(text), read_module(text.replace(old, new))
    assert is_equivalent(one, other) == same
    assert is_equivalent(one.body, other.body) == same


def test_equal_elements_are_one_attribute_however_they_are_written() -> None:
    one, other = (
        read_module(f"func.func @f() {{ %0 = arith.constant dense<{text}> : tensor<2xi8> return }}")
        for text in ("[3, 3]", "3")
    )
    assert is_equivalent(one, other)


def test_a_block_may_be_named_before_it_stands() -> None:
    text = "func.func @f() { cf.br ^b ^a: cf.br ^b ^b: return }"
    module = read_module(text)
    assert is_equivalent(module, module.clone())
