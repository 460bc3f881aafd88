"""`rt` programs on the reference: every call, memory that is reused, and lowered functions."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.passes import PassPipeline

from convir.dialects.context import new_context, read_module
from convir.lowering.pipeline import lowering_passes
from convir.reference import EvaluationError, FloatFormat, evaluate
from convir.reference.checking.check import Checker
from convir.reference.checking.inputs import Distribution

pytestmark = pytest.mark.fast

PROGRAM = """
kernel.func @square(%a: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %0 = arith.mulf %a, %a : tensor<2x3xf16>
  kernel.return %0 : tensor<2x3xf16>
}
func.func @main(%x: memref<2x3xf16>, %w: memref<3x4xf16>, %y: memref<2x4xf16>,
                %z: memref<3x2xf16>) attributes {rt.program, rt.outputs = 2 : i64} {
  %arena = rt.arena : memref<512xi8>
  %t = rt.view %arena[256] : memref<512xi8> to memref<2x3xf16>
  %one = rt.constant dense<1.0> : tensor<2x3xf16> : memref<2x3xf16>
  rt.copy %x to %t : memref<2x3xf16> to memref<2x3xf16>
  rt.launch @square ins(%t : memref<2x3xf16>) outs(%t : memref<2x3xf16>)
  rt.fill 2.0 : f16 into %y : memref<2x4xf16>
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 3 : i64, ldb = 4 : i64,
    ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64, accumulate}
    ins(%t, %w : memref<2x3xf16>, memref<3x4xf16>) outs(%y : memref<2x4xf16>)
  rt.copy %one to %z : memref<2x3xf16> to memref<3x2xf16>
  func.return
}
"""


def test_calls_of_a_program() -> None:
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    w = np.arange(12, dtype=np.float16).reshape(3, 4)
    y, z = evaluate(read_module(PROGRAM), "main", [x, w])
    np.testing.assert_array_equal(y, 2 + (x * x) @ w)
    np.testing.assert_array_equal(z, np.ones((3, 2)))


def test_strided_transposed_batches() -> None:
    module = read_module("""
    func.func @main(%a: memref<2x3x4xf32>, %b: memref<3x5xf32>, %c: memref<4x2x5xf32>)
        attributes {rt.program} {
      rt.gemm {m = 4 : i64, n = 5 : i64, k = 3 : i64, batch = 2 : i64, lda = 4 : i64, ldb = 5 : i64,
        ldc = 10 : i64, stride_a = 12 : i64, stride_b = 0 : i64, stride_c = 5 : i64, transpose_a}
        ins(%a, %b : memref<2x3x4xf32>, memref<3x5xf32>) outs(%c : memref<4x2x5xf32>)
      func.return
    }""")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float32) for s in ((2, 3, 4), (3, 5)))
    (c,) = evaluate(module, "main", [a, b])
    np.testing.assert_array_equal(c, np.einsum("gkm,kn->mgn", a, b))


def test_memory_that_nothing_wrote_is_nan() -> None:
    module = read_module("""
    func.func @main(%y: memref<3xbf16>) attributes {rt.program} {
      %arena = rt.arena : memref<256xi8>
      %t = rt.view %arena[0] : memref<256xi8> to memref<3xbf16>
      rt.copy %t to %y : memref<3xbf16> to memref<3xbf16>
      func.return
    }""")
    assert np.isnan(evaluate(module, "main", [])[0].astype(np.float32)).all()
    with pytest.raises(EvaluationError, match="lays out memory, which cannot be done in f64"):
        evaluate(module, "main", [], float_format=FloatFormat.WIDE)


FUNCTION = """
func.func @main(%a: tensor<8x16xf16>, %b: tensor<16x4xf16>) -> tensor<8x4xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<8x16xf16>, tensor<16x4xf16>) outs(%i : tensor<8x4xf32>) {
  ^bb0(%x: f16, %y: f16, %out: f32):
    %0 = arith.extf %x : f16 to f32
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<8x4xf32>
  %h = tensor.empty() : tensor<8x4xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<8x4xf32>) outs(%h : tensor<8x4xf16>) {
  ^bb0(%x: f32, %out: f16):
    %0 = arith.truncf %x : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<8x4xf16>
  func.return %r : tensor<8x4xf16>
}
"""


@pytest.mark.parametrize("distribution", Distribution)
def test_every_stage_of_the_lowering_agrees(distribution: Distribution) -> None:
    module = read_module(FUNCTION)
    checker = Checker(module, distribution=distribution)
    for lowering in lowering_passes("host"):
        PassPipeline((lowering,)).apply(new_context(), module)
        report = checker.check(module)
        assert report.passed, f"{lowering.name}: {report}"
        assert report.exact == (distribution is Distribution.INTEGERS)


def test_a_view_of_a_constant_of_equal_elements() -> None:
    text = """
    func.func @main(%out: memref<2xf32>) attributes {rt.program, rt.outputs = 1 : i64} {
      %c = rt.constant dense<5.0> : tensor<1x2xf32> : memref<1x2xf32>
      %v = rt.view %c[0] : memref<1x2xf32> to memref<2xf32>
      rt.copy %v to %out : memref<2xf32> to memref<2xf32>
      func.return
    }
    """
    (result,) = evaluate(read_module(text), "main", [])
    np.testing.assert_array_equal(result, np.full(2, 5, np.float32))


def test_a_constant_of_rank_0_keeps_its_rank() -> None:
    module = read_module("""
        func.func @main(%y: memref<i32>) attributes {rt.program, rt.outputs = 1 : i64} {
          %x = rt.constant dense<7> : tensor<i32> : memref<i32>
          rt.copy %x to %y : memref<i32> to memref<i32>
          func.return
        }
    """)
    (result,) = evaluate(module, "main", [])
    assert (result.shape, int(result)) == ((), 7)
