"""Generated CUDA kernels of random tensor ops against the reference, run on the CPU."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from emulated_cuda import aligned, emulate, missing
from host_kernels import assert_same, poisoned, program_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs.kernels import random_kernels

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.loops.cuda.plan_loops import plan_loops
from convir.reference import evaluate

if TYPE_CHECKING:
    from random_programs.function import RandomFunction

MISALIGNED_BYTES = 8


@given(random_kernels(vectors=True), st.integers(0, 1 << 16), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kernels_are_their_bodies(drawn: RandomFunction, seed: int, is_aligned: bool) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    text = program_text(
        drawn.text("kernel.func", "k"),
        [v.buffer for v in drawn.inputs],
        [v.buffer for v in drawn.results],
    )
    module = read_module(text)
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    arguments = drawn.arguments(seed)
    with np.errstate(all="ignore"):
        expected = evaluate(module, "main", arguments)
    offset = 0 if is_aligned else MISALIGNED_BYTES
    inputs = [aligned(array, offset) for array in arguments]
    outputs = [aligned(poisoned(a.shape, a.dtype), offset) for a in expected]
    plan = plan_loops(function, restrict=True, aligned=is_aligned)
    with TemporaryDirectory() as folder:
        emulate(plan, inputs, outputs, Path(folder))
    for i, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        assert_same(got, wanted, f"result {i} of\n{drawn.text('kernel.func', 'k')}")


RANKS = """
kernel.func @k(%x: tensor<2x8xf32>) -> tensor<2x8xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<2x8xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<2x8xi32>) -> tensor<2x8xi32>
  %ranks = linalg.generic {
      indexing_maps = [affine_map<(r, i, j) -> (r, i)>, affine_map<(r, i, j) -> (r, j)>,
                       affine_map<(r, i, j) -> (r, i)>],
      iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%x, %x : tensor<2x8xf32>, tensor<2x8xf32>) outs(%init : tensor<2x8xi32>) {
  ^bb0(%here: f32, %there: f32, %total: i32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %is_earlier = arith.cmpi slt, %j, %i : index
    %draws = arith.cmpf oeq, %there, %here : f32
    %is_first = arith.andi %is_earlier, %draws : i1
    %wins = arith.cmpf ogt, %there, %here : f32
    %is_before = arith.ori %wins, %is_first : i1
    %one = arith.extui %is_before : i1 to i32
    %next = arith.addi %total, %one : i32
    linalg.yield %next : i32
  } -> tensor<2x8xi32>
  kernel.return %ranks : tensor<2x8xi32>
}
"""


def test_conditions_of_lanes_and_vectors_of_conditions(tmp_path: Path) -> None:
    """An index that differs between lanes is compared, and elements are, and both must hold."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    function = next(op for op in read_module(RANKS).walk() if isinstance(op, kernel.FuncOp))
    x = aligned(np.array([[3, 1, 3, 0, 5, 5, 1, 2], [0, 0, 0, 0, 1, 1, 2, 2]], np.float32))
    out = aligned(poisoned((2, 8), np.dtype(np.int32)))
    emulate(plan_loops(function, restrict=True, aligned=True), [x], [out], tmp_path)
    order = np.argsort(-x, axis=1, kind="stable")
    np.testing.assert_array_equal(out, np.argsort(order, axis=1))
