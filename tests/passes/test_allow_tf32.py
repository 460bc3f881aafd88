"""`allow-tf32` on random convolutions: the meaning stays, kernels inherit the attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from conv_cases import problems
from hypothesis import given, settings
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from convir.api.compile import compile as convir_compile
from convir.dialects.context import new_context, read_module
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.lowering.pipeline import lowering_passes
from convir.lowering.stages import STAGES
from convir.passes import run
from convir.reference.checking.check import check

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

pytestmark = pytest.mark.fast

ALLOWED = f"-> tensor<4x4xf32> attributes {{{kernel.ALLOW_TF32}}} {{"
PRODUCT = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %init = arith.constant dense<0.0> : tensor<4x4xf32>
  %c = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%init : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}
"""  # noqa: E501


@settings(max_examples=25, deadline=None)
@given(problems())
def test_a_convolution_means_the_same(problem: ConvProblem) -> None:
    module = ModuleOp([function_of("main", problem)])
    result = run(module, "allow-tf32")
    (function,) = (op for op in result.module.ops if isinstance(op, func.FuncOp))
    (remark,) = result.remarks
    assert remark.fired == (problem.dtype == "f32") == (kernel.ALLOW_TF32 in function.attributes)
    report = check(module, result.module)
    assert report.passed
    assert report.exact


@pytest.mark.parametrize("device", ["host", "cuda"])
def test_kernels_inherit_it(device: str) -> None:
    module = run(PRODUCT, "allow-tf32,default").module
    outlined = STAGES.index("outlined") + 1
    PassPipeline(lowering_passes(device)[:outlined]).apply(new_context(), module)
    kernels = [op for op in module.ops if isinstance(op, kernel.FuncOp)]
    assert kernels
    assert all(kernel.ALLOW_TF32 in op.attributes for op in kernels)


def test_the_text_may_say_it_and_saying_it_twice_changes_nothing() -> None:
    text = PRODUCT.replace("-> tensor<4x4xf32> {", ALLOWED)
    result = run(text, "allow-tf32")
    assert not result.remarks
    assert str(result.module) == str(read_module(text))


def test_the_host_multiplies_f32() -> None:
    executable = convir_compile(PRODUCT, device="host", allow_tf32=True)
    a = np.full((4, 8), 1 + 2.0**-12, np.float32)
    b = np.ones((8, 4), np.float32)
    np.testing.assert_array_equal(executable(a, b), np.full((4, 4), 8 + 2.0**-9, np.float32))
