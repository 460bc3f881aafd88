"""Scatters of a tensor of rank 0, and of what has one element, in front of a contraction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate

pytestmark = pytest.mark.fast

TEXT = """
func.func @main(%x: {given}, %w: tensor<2x{taps}x{taps}x1xf32>) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x3x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
  %o = tensor.empty() : {out}
  %init = linalg.fill ins(%zero : f32) outs(%o : {out}) -> {out}
  {before}
  %s = tensor.insert_slice %source into %zeros[0, 1, 0, 0] [1, 1, 1, 1] [1, 3, 2, 1]
      : {source} into tensor<1x3x3x1xf32>
  %y = linalg.generic {{
      indexing_maps = [affine_map<(n, p, q, k, r, t, c) -> (n, p + r, q + t, c)>,
                       affine_map<(n, p, q, k, r, t, c) -> (k, r, t, c)>,
                       affine_map<(n, p, q, k, r, t, c) -> (n, p, q, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction",
                        "reduction"]}}
      ins(%s, %w : tensor<1x3x3x1xf32>, tensor<2x{taps}x{taps}x1xf32>) outs(%init : {out}) {{
    ^bb0(%a: f32, %b: f32, %sum: f32):
      %m = arith.mulf %a, %b : f32
      %t = arith.addf %sum, %m : f32
      linalg.yield %t : f32
  }} -> {out}
  {after}
  return %last : {result}
}}
"""

SOURCES = {
    "rank 0": ("tensor<f32>", "tensor<f32>", "arith.addf %x, %x : tensor<f32>"),
    "collapsed": (
        *("tensor<1x1xf32>", "tensor<f32>"),
        "tensor.collapse_shape %x [] : tensor<1x1xf32> into tensor<f32>",
    ),
    "expanded": (
        *("tensor<f32>", "tensor<1x1xf32>"),
        "tensor.expand_shape %x [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>",
    ),
}
"""What is given, what is scattered, and the op between them."""

PASSES = (
    "swap-strided-insert-slice-with-contraction",
    "decompose-strided-dgrad",
    "convert-strided-insert-slice-to-generic",
    "backward-data",
    "default",
)


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("taps", [1, 2])
@pytest.mark.parametrize("source", SOURCES)
def test_one_element_is_scattered(source: str, taps: int, passes: str) -> None:
    given, scattered, op = SOURCES[source]
    out = f"tensor<1x{4 - taps}x{4 - taps}x2xf32>"
    text = TEXT.format(
        given=given,
        taps=taps,
        out=out,
        result=out,
        source=scattered,
        before=f"%source = {op}",
        after=f"%last = arith.addf %y, %init : {out}",
    )
    shape = (1,) * given.count("1")
    rng = np.random.default_rng(taps)
    arguments: list[Any] = [
        np.full(shape, 3, np.float32),
        rng.integers(-4, 5, (2, taps, taps, 1)).astype(np.float32),
    ]
    (expected,) = evaluate(read_module(text), "main", arguments)
    result = run(text, passes)
    (rewritten,) = evaluate(result.module, "main", arguments)
    np.testing.assert_array_equal(rewritten, expected)
    if passes == "backward-data" and taps == 1:
        assert any(remark.fired for remark in result.remarks)
