"""Sizes of arguments that only shape tensors, and those that are computed with."""

from __future__ import annotations

import pytest
from xdsl.dialects.func import FuncOp

from convir.analysis.open_sizes import computes_with
from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

BATCH = {(0, 0)}
SLICE = """
%s = tensor.extract_slice %x[0, 0] [16, 2] [1, 1] : tensor<?x?xf32> to tensor<16x2xf32>"""
ROW = """
%e = tensor.empty(%w) : tensor<?xf32>
%r = linalg.generic {
  indexing_maps = [affine_map<(d0) -> (5, d0)>, affine_map<(d0) -> (d0)>],
  iterator_types = ["parallel"]
} ins(%x : tensor<?x?xf32>) outs(%e : tensor<?xf32>) {
^bb0(%a: f32, %b: f32):
  linalg.yield %a : f32
} -> tensor<?xf32>"""
OF_A_VALUE = """
%e = tensor.empty(%n, %w) : tensor<?x?xf32>
%m = tensor.dim %e, %c1 : tensor<?x?xf32>
%v = arith.muli %m, %m : index"""


def function(body: str) -> FuncOp:
    text = (
        "func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {\n"
        "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
        "  %n = tensor.dim %x, %c0 : tensor<?x?xf32>\n"
        "  %w = tensor.dim %x, %c1 : tensor<?x?xf32>\n"
        f"{body}\n  return %x : tensor<?x?xf32>\n}}"
    )
    found = read_module(text).body.block.first_op
    assert isinstance(found, FuncOp)
    return found


@pytest.mark.parametrize(
    "body",
    [
        "",
        "%e = tensor.empty(%n, %w) : tensor<?x?xf32>",
        "%v = arith.addi %w, %w : index\n%e = tensor.empty(%n, %v) : tensor<?x?xf32>",
    ],
)
def test_sizes(body: str) -> None:
    assert computes_with(function(body), BATCH) is None


@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("%v = arith.addi %n, %w : index", "arith.addi"),
        ("%v = arith.index_cast %n : index to i32", "arith.index_cast"),
        ("%v = affine.apply affine_map<(d0) -> (d0 floordiv 2)> (%n)", "affine.apply"),
        (OF_A_VALUE, "arith.muli"),
    ],
)
def test_numbers(body: str, op: str) -> None:
    refused = computes_with(function(body), BATCH)
    assert refused is not None
    assert refused.reason == f"'{op}' computes with the size of a tensor"


@pytest.mark.parametrize(
    ("body", "op"),
    [
        (SLICE, "tensor.extract_slice"),
        ("%s = tensor.extract %x[%c1, %c0] : tensor<?x?xf32>", "tensor.extract"),
        (ROW, "linalg.generic"),
    ],
)
def test_sizes_that_have_a_bound(body: str, op: str) -> None:
    refused = computes_with(function(body), BATCH)
    assert refused is not None
    assert refused.reason == f"'{op}' may be limited by the size of a tensor"


def test_maps_that_walk_a_size_have_no_bound() -> None:
    walked = ROW.replace("(5, d0)", "(d0, d1)").replace("-> (d0)>", "-> (d0, d1)>")
    walked = walked.replace("(d0) ->", "(d0, d1) ->").replace('["parallel"]', '["parallel"] * 2')
    walked = walked.replace('["parallel"] * 2', '["parallel", "parallel"]')
    walked = walked.replace("tensor<?xf32>", "tensor<?x?xf32>").replace("(%w)", "(%n, %w)")
    assert computes_with(function(walked), BATCH) is None
