"""Small programs for a GPU, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from convir.api.compile import compile as convir_compile

SIZE = 48

PRODUCT = """
func.func @main(%a: tensor<3x48x48xf16>, %b: tensor<48x48xf16>) -> tensor<3x48x48xf32> {
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x48x48xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<3x48x48xf32>) -> tensor<3x48x48xf32>
  %0 = linalg.generic {indexing_maps = [
      affine_map<(s,m,n,k) -> (s,m,k)>, affine_map<(s,m,n,k) -> (k,n)>,
      affine_map<(s,m,n,k) -> (s,m,n)>],
      iterator_types = ["parallel","parallel","parallel","reduction"]}
      ins(%a, %b : tensor<3x48x48xf16>, tensor<48x48xf16>) outs(%f : tensor<3x48x48xf32>) {
  ^bb0(%x: f16, %y: f16, %o: f32):
    %1 = arith.extf %x : f16 to f32
    %2 = arith.extf %y : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %3, %o : f32
    linalg.yield %4 : f32
  } -> tensor<3x48x48xf32>
  func.return %0 : tensor<3x48x48xf32>
}"""

RUNNING_SUM = """
kernel.func @add(%x: tensor<64xf32>, %s: tensor<64xf32>) -> tensor<64xf32> {
  %0 = arith.addf %x, %s : tensor<64xf32>
  kernel.return %0 : tensor<64xf32>
}
func.func @main(%x: memref<64xf32>, %y: memref<64xf32>) attributes {rt.program} {
  %s = rt.state : memref<64xf32>
  rt.launch @add ins(%x, %s : memref<64xf32>, memref<64xf32>) outs(%y : memref<64xf32>)
  rt.copy %y to %s : memref<64xf32> to memref<64xf32>
  func.return
}"""
"""y = x + the last y of the same stream."""


def on_gpu(text: str, device: str = "cuda") -> Any:
    return convir_compile(text, pipeline="", device=device)


def matrices(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, (3, SIZE, SIZE)).astype(np.float16)
    return a, rng.integers(-3, 4, (SIZE, SIZE)).astype(np.float16)


def product(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32)
