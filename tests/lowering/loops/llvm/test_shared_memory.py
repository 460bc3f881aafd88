"""What LLVM is told of the pointers of loops whose results lie over arguments."""

from __future__ import annotations

import pytest

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.loops.launch import launch
from convir.lowering.kernels.host.problem import KernelBody
from convir.lowering.kernels.host.target import target

pytestmark = pytest.mark.fast

DIFFERENCE = """
kernel.func @k(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
  %difference = arith.subf %x, %y : tensor<64xf32>
  kernel.return %difference : tensor<64xf32>
}
"""


def signature_and_loads(reused: tuple[tuple[int, int], ...], partly: bool) -> tuple[str, list[str]]:
    module = read_module(DIFFERENCE)
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    text = launch(KernelBody(function, reused, partly), target()).ir
    lines = text[text.index('@"k.loops"') :].split("\n}", 1)[0].splitlines()
    return lines[0], [
        line.split(", ptr ")[1].split(",")[0] for line in lines if "getelementptr" in line
    ]


def test_arguments_of_their_own():
    signature, pointers = signature_and_loads((), False)
    assert signature.count("noalias") == 3
    assert pointers == ['%".1"', '%".2"', '%".3"']


def test_a_result_over_an_argument_is_one_pointer():
    signature, pointers = signature_and_loads(((1, 0),), False)
    assert signature.count("noalias") == 3
    assert pointers == ['%".1"', '%".3"', '%".3"']


def test_a_result_over_a_part_of_an_argument():
    signature, pointers = signature_and_loads((), True)
    assert "noalias" not in signature
    assert pointers == ['%".1"', '%".2"', '%".3"']
