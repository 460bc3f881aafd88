"""Rows behind contractions, through the whole lowering.

Operands are small integers, so that sums are exact whatever their order: results are equal bit for
bit.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpu import cupy_or_skip
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as compile_module

DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
LARGEST = 3
SIZES = (st.integers(1, 40), st.integers(1, 96), st.integers(1, 40))


def text_of(rows: int, columns: int, depth: int, kind: str) -> str:
    """A product that is rounded, widened, and less the sum of its row."""
    both = 'iterator_types = ["parallel", "parallel"]'
    sums = 'iterator_types = ["parallel", "reduction"]'
    products = 'iterator_types = ["parallel", "parallel", "reduction"]'
    return f"""
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
#all = affine_map<(m, n) -> (m, n)>
#one = affine_map<(m, n) -> (m)>
!x = tensor<{rows}x{depth}x{kind}>
!w = tensor<{depth}x{columns}x{kind}>
!half = tensor<{rows}x{columns}x{kind}>
!full = tensor<{rows}x{columns}xf32>
!rows = tensor<{rows}xf32>
func.func @main(%x: !x, %w: !w) -> !full {{
  %zeros = arith.constant dense<0.0> : !full
  %none = arith.constant dense<0.0> : !rows
  %c = linalg.generic {{indexing_maps = [#x, #w, #y], {products}}}
    ins(%x, %w : !x, !w) outs(%zeros : !full) {{
  ^bb0(%a: {kind}, %b: {kind}, %t: f32):
    %p = arith.extf %a : {kind} to f32
    %q = arith.extf %b : {kind} to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %t, %m : f32
    linalg.yield %n : f32
  }} -> !full
  %h = tensor.empty() : !half
  %f = tensor.empty() : !full
  %r = linalg.generic {{indexing_maps = [#all, #all], {both}}}
    ins(%c : !full) outs(%h : !half) {{
  ^bb0(%a: f32, %o: {kind}):
    %n = arith.truncf %a : f32 to {kind}
    linalg.yield %n : {kind}
  }} -> !half
  %wide = linalg.generic {{indexing_maps = [#all, #all], {both}}}
    ins(%r : !half) outs(%f : !full) {{
  ^bb0(%a: {kind}, %o: f32):
    %n = arith.extf %a : {kind} to f32
    linalg.yield %n : f32
  }} -> !full
  %s = linalg.generic {{indexing_maps = [#all, #one], {sums}}}
    ins(%wide : !full) outs(%none : !rows) {{
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  }} -> !rows
  %d = linalg.generic {{indexing_maps = [#all, #one, #all], {both}}}
    ins(%wide, %s : !full, !rows) outs(%f : !full) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.subf %a, %b : f32
    linalg.yield %n : f32
  }} -> !full
  func.return %d : !full
}}
"""


def operands(rows: int, columns: int, depth: int, kind: str) -> tuple[Any, Any, Any]:
    """What the program reads, and what it returns."""
    random = np.random.default_rng(rows * 31 + columns)
    shapes = (rows, depth), (depth, columns)
    x, w = (random.integers(-LARGEST, LARGEST + 1, each).astype(DTYPES[kind]) for each in shapes)
    product = (x.astype(np.float64) @ w.astype(np.float64)).astype(DTYPES[kind])
    wide = product.astype(np.float32)
    return x, w, wide - wide.sum(1, keepdims=True)


@given(*SIZES, st.sampled_from(tuple(DTYPES)))
@settings(max_examples=15)
def test_what_is_widened_behind_a_product_is_rounded_first(
    rows: int, columns: int, depth: int, kind: str
) -> None:
    x, w, wanted = operands(rows, columns, depth, kind)
    found = compile_module(text_of(rows, columns, depth, kind))(x, w)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(8, 32, 16), (37, 96, 40), (1, 197, 64)])
def test_the_same_on_a_gpu(shape: tuple[int, int, int]) -> None:
    cupy: Any = cupy_or_skip()
    x, w, wanted = operands(*shape, "f16")
    found: Any = compile_module(text_of(*shape, "f16"), device="cuda")(*map(cupy.asarray, (x, w)))
    np.testing.assert_array_equal(cupy.asnumpy(found), wanted)
