"""Convolutions without elements: on the host as on the reference, whatever size is zero."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.dialects.conv.geometry import Direction, Geometry
from convir.dialects.conv.problem import ConvProblem
from convir.dialects.diagnostics import DiagnosticError
from convir.frontends.conv_module import function_of
from convir.reference import evaluate
from convir.reference.checking.check import Checker

LAYOUTS = {"channels last": ("NHWC", "KRSC", "NHWC"), "channels first": ("NCHW", "KCRS", "NCHW")}
# n, c, k, height, width, stride, padding, groups
SIZES = {
    "no images": (0, 4, 4, 5, 5, 1, 1, 1),
    "no images, strided": (0, 4, 4, 5, 5, 2, 1, 2),
    "no input channels": (2, 0, 4, 5, 5, 1, 1, 1),
    "no input channels, strided and grouped": (2, 0, 4, 5, 5, 2, 1, 2),
    "no output channels": (2, 4, 0, 5, 5, 1, 1, 1),
    "no output channels, strided and grouped": (2, 4, 0, 5, 5, 2, 0, 2),
    "no channels at all": (0, 0, 0, 5, 5, 2, 1, 1),
    "no rows but padding": (2, 4, 4, 0, 5, 1, 2, 1),
    "nothing but padding, strided": (2, 4, 4, 0, 0, 2, 2, 1),
}


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("direction", Direction)
def test_convolutions(direction: Direction, sizes: str, layouts: str) -> None:
    n, c, k, height, width, stride, padding, groups = SIZES[sizes]
    pairs = ((stride, stride), (padding, padding), (padding, padding), (1, 1))
    problem = ConvProblem(
        direction,
        "f32",
        n=n,
        c=c,
        k=k,
        spatial=(height, width),
        taps=(3, 3),
        geometry=Geometry(*LAYOUTS[layouts], *pairs, groups),
    )
    module = ModuleOp([function_of("main", problem)])
    executable = convir_compile(module, device="host")
    arguments = [np.ones(spec.shape, spec.dtype) for spec in executable.inputs]
    (expected,) = evaluate(module, "main", arguments)
    (spec,) = executable.outputs
    out = np.full(spec.shape, np.nan, spec.dtype)
    np.testing.assert_array_equal(executable(*arguments, out=out), expected)
    np.testing.assert_array_equal(expected, np.zeros(spec.shape))
    assert Checker(module).check(module).passed


DYNAMIC = """
func.func @main(%x: tensor<?x?x?x4xf32>, %w: tensor<6x3x3x4xf32>) -> tensor<?x?x?x6xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?x?x?x4xf32>
  %h = tensor.dim %x, %c1 : tensor<?x?x?x4xf32>
  %v = tensor.dim %x, %c2 : tensor<?x?x?x4xf32>
  %p = arith.subi %h, %c2 : index
  %q = arith.subi %v, %c2 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n, %p, %q) : tensor<?x?x?x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?x?x6xf32>) -> tensor<?x?x?x6xf32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%x, %w : tensor<?x?x?x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<?x?x?x6xf32>)
  return %y : tensor<?x?x?x6xf32>
}
"""


def test_dynamic_sizes_may_be_zero() -> None:
    executable = convir_compile(DYNAMIC, device="host")
    w = np.ones((6, 3, 3, 4), np.float32)
    assert executable(np.ones((0, 5, 4, 4), np.float32), w).shape == (0, 3, 2, 6)


def test_windows_larger_than_their_input_are_one_error() -> None:
    executable = convir_compile(DYNAMIC, device="host")
    w = np.ones((6, 3, 3, 4), np.float32)
    for height, message in (
        (1, "<string>:12:8: error: 'tensor.empty' op has a size of -1"),
        (2, "<string>:14:8: error: 'conv.fprop' op cannot .* a filter that spans 3 does not fit"),
    ):
        with pytest.raises(DiagnosticError, match=message):
            executable(np.ones((2, height, 5, 4), np.float32), w)
