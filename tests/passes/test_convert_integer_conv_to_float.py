"""`convert-integer-conv-to-float` on random convolutions: the same integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from byte_convs import module_of
from conv_cases import problems
from hypothesis import given, settings

from convir.api.compile import compile as convir_compile
from convir.dialects.context import read_module
from convir.dialects.conv.geometry import Direction
from convir.dialects.diagnostics import DiagnosticError
from convir.passes import run
from convir.reference.checking.check import check

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

pytestmark = pytest.mark.fast


@settings(max_examples=25, deadline=None)
@given(problems(directions=[Direction.FPROP], dtypes=["f32"]))
def test_a_convolution_means_the_same(problem: ConvProblem) -> None:
    module = module_of(problem)
    result = run(module, "convert-integer-conv-to-float{device=cuda}")
    (remark,) = result.remarks
    assert remark.fired
    assert "xi8>" not in next(line for line in str(result.module).split("\n") if "fprop" in line)
    report = check(module, result.module)
    assert report.passed
    assert report.exact


PADDED = """
func.func @main(%x: tensor<2x5x6x8xi8>) -> tensor<2x5x7x3xf32> {
  %z = arith.constant -116 : i8
  %w = arith.constant dense<-7> : tensor<3x3x2x8xi8>
  %zero = arith.constant 0 : i32
  %padded = tensor.pad %x low[0, 1, 0, 0] high[0, 1, 2, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %z : i8
  } : tensor<2x5x6x8xi8> to tensor<2x7x8x8xi8>
  %empty = tensor.empty() : tensor<2x5x7x3xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<2x5x7x3xi32>) -> tensor<2x5x7x3xi32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%padded, %w : tensor<2x7x8x8xi8>, tensor<3x3x2x8xi8>) outs(%init : tensor<2x5x7x3xi32>)
  %r = arith.sitofp %y : tensor<2x5x7x3xi32> to tensor<2x5x7x3xf32>
  return %r : tensor<2x5x7x3xf32>
}
"""  # noqa: E501


def test_padding_with_a_zero_point_is_padding_with_zeros() -> None:
    result = run(PADDED, "convert-integer-conv-to-float{device=cuda},dce")
    text = str(result.module)
    assert "tensor.pad" not in text
    assert "padding(1, 0:2)" in text
    report = check(read_module(PADDED), result.module)
    assert report.passed
    assert report.exact
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 6, 8), np.int8)
    found = [convir_compile(each, device="host")(x) for each in (PADDED, result.module)]
    np.testing.assert_array_equal(found[0], found[1])


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="device is host or cuda, not 'tpu'"):
        run("builtin.module {}", "convert-integer-conv-to-float{device=tpu}")
