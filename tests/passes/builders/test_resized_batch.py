"""Resizing the batch: what is tied to it, what fixes it, and that the result means the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convir.analysis.refusal import Refusal
from convir.dialects.context import read_module
from convir.passes.builders.resized_batch import with_batch
from convir.reference import evaluate, find_function
from convir.reference.checking.inputs import random_arguments

pytestmark = pytest.mark.fast

EXAMPLES = sorted(Path(__file__).resolve().parents[3].glob("examples/*.mlir"))

SMALL = """
func.func @main(%x: tensor<4x3x2xf32>, %w: tensor<4x2xf32>) -> tensor<4x6x2xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4x6x2xf32>
  %y = tensor.insert_slice %x into %zeros[0, 0, 0] [4, 3, 2] [1, 2, 1]
      : tensor<4x3x2xf32> into tensor<4x6x2xf32>
  %e = tensor.empty() : tensor<4x6x2xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(n, h, c) -> (n, h, c)>,
      affine_map<(n, h, c) -> (n, h, c)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y : tensor<4x6x2xf32>) outs(%e : tensor<4x6x2xf32>) {
  ^bb0(%a: f32, %out: f32):
    %b = arith.addf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<4x6x2xf32>
  func.return %z : tensor<4x6x2xf32>
}
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_at_another_batch(path: Path) -> None:
    resized = with_batch(read_module(path.read_text()), "main", 3)
    assert not isinstance(resized, Refusal)
    inputs = find_function(resized, "main").function_type.inputs.data
    assert str(inputs[0]).startswith("tensor<3x25x25x")
    assert "32x50x50" not in str(resized)
    read_module(str(resized))


def test_only_what_is_tied_to_the_batch_is_resized() -> None:
    before = read_module(SMALL)
    after = with_batch(before, "main", 2)
    assert not isinstance(after, Refusal)
    types = find_function(after, "main").function_type
    assert [str(t) for t in types.inputs] == ["tensor<2x3x2xf32>", "tensor<4x2xf32>"]
    arguments = random_arguments(tuple(find_function(before, "main").function_type.inputs), 0)
    (whole,) = evaluate(before, "main", arguments)
    (part,) = evaluate(after, "main", [arguments[0][:2], arguments[1]])
    np.testing.assert_array_equal(part, whole[:2])


INDEX_USED = """
  %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
      outs(%x : tensor<4xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    linalg.yield %j : i64
  } -> tensor<4xi64>
"""
EXPAND = """
  %s = tensor.expand_shape %x [[0, 1]] output_shape [2, 2] : tensor<4xi64> into tensor<2x2xi64>
"""
ADD = """
  %c = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %s = arith.addi %x, %c : tensor<4xi64>
"""
CONCAT = """
  %s = tensor.concat dim(0) %x, %x : (tensor<4xi64>, tensor<4xi64>) -> tensor<8xi64>
"""
EXTRACT = """
  %s = tensor.extract_slice %x[0] [2] [1] : tensor<4xi64> to tensor<2xi64>
"""


@pytest.mark.parametrize(
    ("body", "culprit"),
    [
        (EXTRACT, "tensor.extract_slice"),
        (EXPAND, "tensor.expand_shape"),
        (ADD, "arith.constant"),
        (CONCAT, "tensor.concat"),
        (INDEX_USED, "linalg.generic"),
    ],
)
def test_what_fixes_the_batch(body: str, culprit: str) -> None:
    module = read_module(f"func.func @main(%x: tensor<4xi64>) {{ {body} \n return }}")
    refusal = with_batch(module, "main", 2)
    assert refusal == Refusal(f"{culprit} does not let the batch be resized")


@pytest.mark.parametrize("independent", [False, True])
def test_gradients_of_weights_are_sums_over_the_batch(independent: bool) -> None:
    module = read_module("""
    func.func @main(%x: tensor<4x5x5x2xf32>, %y: tensor<4x3x3x3xf32>, %i: tensor<3x3x3x2xf32>)
        -> tensor<3x3x3x2xf32> {
      %w = conv.wgrad layouts(NHWC, KRSC, NHWC) accumulate(f32)
          ins(%x, %y : tensor<4x5x5x2xf32>, tensor<4x3x3x3xf32>) outs(%i : tensor<3x3x3x2xf32>)
      func.return %w : tensor<3x3x3x2xf32>
    }""")
    resized = with_batch(module, "main", 1, independent=independent)
    if independent:
        assert resized == Refusal("a result is summed over the batch, by conv.wgrad")
    else:
        assert "ins(%x, %y : tensor<1x5x5x2xf32>" in str(resized)


def test_conv_ops_tie_input_and_output() -> None:
    module = read_module("""
    func.func @main(%x: tensor<4x5x5x2xf32>, %w: tensor<3x3x3x2xf32>, %i: tensor<4x3x3x3xf32>)
        -> tensor<4x3x3x3xf32> {
      %y = conv.fprop layouts(NHWC, KRSC, NHWC) accumulate(f32)
          ins(%x, %w : tensor<4x5x5x2xf32>, tensor<3x3x3x2xf32>) outs(%i : tensor<4x3x3x3xf32>)
      func.return %y : tensor<4x3x3x3xf32>
    }""")
    resized = with_batch(module, "main", 1)
    assert not isinstance(resized, Refusal)
    assert "-> tensor<1x3x3x3xf32>" in str(resized)
