"""Ops that meet again behind a contraction: one op computes what they did, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from convir.dialects.context import new_context, read_module
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.reference import evaluate

pytestmark = pytest.mark.fast

BEGIN = """
func.func @main(%x: tensor<6x8xf32>, %w: tensor<8x9xf32>, %y: tensor<6x9xf32>) -> tensor<6x9xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6x9xf32>
  %three = arith.constant dense<3.0> : tensor<6x9xf32>
  %six = arith.constant dense<6.0> : tensor<6x9xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<6x8xf32>, tensor<8x9xf32>)
                     outs(%zeros : tensor<6x9xf32>) -> tensor<6x9xf32>
"""
CHAINS = {
    "hardswish": """
        %1 = arith.addf %0, %three
        %2 = arith.maximumf %1, %zeros
        %3 = arith.minimumf %2, %six
        %4 = arith.mulf %0, %3
        %5 = arith.divf %4, %six""",
    "two diamonds": """
        %1 = math.absf %0
        %2 = arith.subf %0, %1
        %3 = math.absf %2
        %4 = arith.mulf %3, %2
        %5 = arith.addf %4, %y""",
    "one in another": """
        %1 = math.absf %0
        %2 = arith.negf %1
        %3 = arith.mulf %1, %2
        %4 = arith.addf %3, %y
        %5 = arith.subf %4, %0""",
    "an op that reads twice": """
        %1 = arith.mulf %0, %0
        %2 = arith.mulf %1, %1
        %3 = arith.addf %2, %0
        %4 = arith.negf %3
        %5 = arith.subf %4, %y""",
}


@pytest.mark.parametrize("chain", CHAINS)
def test_the_store_computes_all(chain: str) -> None:
    lines = [f"{line} : tensor<6x9xf32>\n" for line in CHAINS[chain].split("\n")[1:]]
    text = f"{BEGIN}{''.join(lines)}  return %5 : tensor<6x9xf32>\n}}\n"
    module, merged = read_module(text), read_module(text)
    FuseEpiloguePass().apply(new_context(), merged)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(s).astype(np.float32) for s in ((6, 8), (8, 9), (6, 9))]
    (expected,), (found,) = (evaluate(m, "main", [*arguments]) for m in (module, merged))
    np.testing.assert_array_equal(found, expected)
    main = next(op for op in merged.walk() if op.name == "func.func")
    computed = [op.name for op in main.regions[0].block.ops if "arith" in op.name]
    assert set(computed) <= {"arith.constant"}
