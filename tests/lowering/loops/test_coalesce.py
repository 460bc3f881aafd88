"""Loops that only stand side by side in addresses are one; others stay."""

from __future__ import annotations

import numpy as np
import pytest
from host_kernels import program_text, run_program
from xdsl.dialects import scf

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.target import target
from convir.lowering.loops.coalesce import coalesce
from convir.lowering.loops.nests import lower_kernel
from convir.reference import evaluate

pytestmark = pytest.mark.fast

SHAPE = (2, 3, 20, 24)
KERNEL = """
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#read = affine_map<(n, c, h, w) -> ({read})>
kernel.func @k(%x: tensor<2x3x20x24xf32>, %s: tensor<{sizes}xf32>) -> tensor<2x3x20x24xf32> {{
  %0 = tensor.empty() : tensor<2x3x20x24xf32>
  %1 = linalg.generic {{indexing_maps = [#id, #read, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%x, %s : tensor<2x3x20x24xf32>, tensor<{sizes}xf32>) outs(%0 : tensor<2x3x20x24xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %2 = arith.mulf %a, %b : f32
    linalg.yield %2 : f32
  }} -> tensor<2x3x20x24xf32>
  kernel.return %1 : tensor<2x3x20x24xf32>
}}
"""


@pytest.mark.parametrize(
    ("read", "loops"),
    [
        ("n, c, h, w", 2),
        ("c", 2),
        ("h, w", 2),
        ("w", 3),
        ("n, c, h", 3),
        ("n, h, c, w", 3),
        ("n, c, w, h", 3),
        ("h, w, h", 3),
    ],
)
def test_loops_over_planes(read: str, loops: int) -> None:
    """The outermost loop goes over n and c, those inside over h and w."""
    letters = dict(zip("nchw", SHAPE, strict=True))
    shape = [letters[each] for each in read.split(", ")]
    sizes = "x".join(map(str, shape))
    kinds = ["2x3x20x24xf32", f"{sizes}xf32"]
    text = program_text(KERNEL.format(read=read, sizes=sizes), kinds, kinds[:1])
    module = read_module(text)
    (function,) = lower_kernel(
        next(op for op in module.walk() if isinstance(op, kernel.FuncOp)), 256
    )
    coalesce(function)
    function.verify()
    assert sum(isinstance(op, scf.ForOp) for op in function.walk()) == loops
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-9, 9, each).astype(np.float32) for each in (SHAPE, shape)]
    expected = evaluate(module, "main", [*arguments])
    for result, wanted in zip(run_program(text, arguments, target()), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
