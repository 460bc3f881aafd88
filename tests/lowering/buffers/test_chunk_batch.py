"""Chunks of a batch: results, workspace, and what cannot be chunked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from conv_lines import NHWC
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from convir.api.compile import compile as convir_compile
from convir.dialects.context import new_context
from convir.dialects.diagnostics import DiagnosticError
from convir.frontends.conv_module import module_of_line
from convir.frontends.miopen import parse_line
from convir.lowering.buffers.chunk_batch import ChunkedLowering
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.passes.manager.remarks import collect

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp, TensorType

pytestmark = pytest.mark.fast

# f16: the contraction and the padding take temporaries.
FPROP = f"convfp16 -n 7 -c 8 -H 9 -W 9 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"


def test_chunks_give_the_same_bits_in_less_memory() -> None:
    # Without the graph rewrites the scattered gradient is a temporary.
    pipeline = "convert-conv-to-linalg"
    line = FPROP.replace("-p 1 -q 1", "-p 1 -q 1 -u 2 -v 2").replace("-F 1", "-F 2")
    module = module_of_line(parse_line(line))
    whole = convir_compile(module, pipeline, "host")
    budget = whole.program.arena_bytes * 2 // 3
    chunked = convir_compile(module, pipeline, "host", workspace_bytes=budget)
    assert 0 < chunked.program.arena_bytes <= budget
    assert len(chunked.program.calls) > len(whole.program.calls)
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(s.shape).astype(s.dtype) for s in whole.inputs]
    assert np.array_equal(whole(*arguments), chunked(*arguments))


@dataclass(frozen=True)
class _Lowerings(ModulePass):
    """Counts the modules that it sees."""

    name = "count"
    sizes: list[int] = field(default_factory=list[int])

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        (function,) = (f for f in op.ops if isinstance(f, FuncOp))
        first = cast("TensorType[Any]", function.body.block.args[0].type)
        self.sizes.append(first.get_shape()[0])


@pytest.mark.parametrize("budget", [20_000, 50_000, 100_000])
def test_few_lowerings_find_the_largest_chunk(budget: int) -> None:
    line = FPROP.replace("-n 7", "-n 64").replace("-p 1 -q 1", "-p 1 -q 1 -u 2 -v 2")
    module = module_of_line(parse_line(line.replace("-F 1", "-F 2")))
    module = run(module, "convert-conv-to-linalg").module
    count = _Lowerings()
    with collect() as remarks:
        driver = ChunkedLowering((count, *lowering_passes()[1:]), budget)
        driver.apply(new_context(), module)
    size = int(remarks[-1].reason.split()[-2])
    assert {size, size + 1} <= set(count.sizes)
    assert len(count.sizes) <= 7  # what halving alone takes


def test_a_budget_that_is_enough_changes_nothing() -> None:
    module = module_of_line(parse_line(FPROP))
    whole = convir_compile(module, device="host")
    roomy = convir_compile(module, device="host", workspace_bytes=1 << 30)
    assert len(roomy.program.calls) == len(whole.program.calls)


SUM_OVER_THE_BATCH = """
func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x3xf32>) -> tensor<128x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<64x128xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0] [64, 64] [1, 2]
    : tensor<64x64xf32> into tensor<64x128xf32>
  %init = arith.constant dense<0.0> : tensor<128x3xf32>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(c, k, n) -> (n, c)>, affine_map<(c, k, n) -> (n, k)>,
                       affine_map<(c, k, n) -> (c, k)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%s, %y : tensor<64x128xf32>, tensor<64x3xf32>) outs(%init : tensor<128x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.addf %o, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<128x3xf32>
  return %0 : tensor<128x3xf32>
}
"""


MEAN_OF_THE_BATCH = """
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %row = arith.constant dense<0.0> : tensor<64xf32>
  %square = arith.constant dense<0.0> : tensor<64x64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, c) -> (n, c)>, affine_map<(n, c) -> (c)>],
      iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<64x64xf32>) outs(%row : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %1 = arith.addf %a, %o : f32
    linalg.yield %1 : f32
  } -> tensor<64xf32>
  %centred = linalg.generic {indexing_maps = [affine_map<(n, c) -> (n, c)>,
      affine_map<(n, c) -> (c)>, affine_map<(n, c) -> (n, c)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<64x64xf32>, tensor<64xf32>) outs(%square : tensor<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %1 = arith.subf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<64x64xf32>
  %0 = linalg.matmul ins(%centred, %w : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%square : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
"""
"""What all samples together say of each, as a normalization in training has it."""


def test_samples_that_depend_on_each_other_are_not_chunked() -> None:
    convir_compile(MEAN_OF_THE_BATCH, "", "host", workspace_bytes=1 << 20)
    message = "cannot be chunked: a result is summed over the batch, by linalg.generic"
    with pytest.raises(DiagnosticError, match=message):
        convir_compile(MEAN_OF_THE_BATCH, "", "host", workspace_bytes=12000)


def test_sums_over_the_batch_are_not_chunked() -> None:
    with pytest.raises(DiagnosticError, match="cannot be chunked: a result is summed"):
        convir_compile(SUM_OVER_THE_BATCH, "", "host", workspace_bytes=10000)
