"""The order in which loops on a CPU go over the elements that a kernel copies."""

from __future__ import annotations

import numpy as np
import pytest
from host_kernels import program_text, run_program

from convir.dialects.context import read_module
from convir.dialects.kernel import ops as kernel
from convir.lowering.kernels.host.target import target
from convir.lowering.loops.crossing_reads import crossing_dim
from convir.lowering.loops.nests import block_of
from convir.reference import evaluate

pytestmark = pytest.mark.fast

TRANSPOSED = """
kernel.func @k(%x: tensor<{source}>) -> tensor<{result}> {{
  %0 = tensor.empty() : tensor<{result}>
  %1 = linalg.transpose ins(%x : tensor<{source}>) outs(%0 : tensor<{result}>) permutation = {order}
  {then}
  kernel.return %2 : tensor<{result}>
}}
"""


def transposed(shape: tuple[int, ...], order: tuple[int, ...], kind: str = "f32") -> str:
    source, result = (
        "x".join([*map(str, sizes), kind]) for sizes in (shape, [shape[dim] for dim in order])
    )
    op = "arith.negf %1" if kind.startswith("f") else "arith.addi %1, %1"
    text = TRANSPOSED.format(
        source=source, result=result, order=list(order), then=f"%2 = {op} : tensor<{result}>"
    )
    return program_text(text, [source], [result])


def check(text: str) -> None:
    """The loops give what the reference does."""
    module = read_module(text)
    main = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    rng = np.random.default_rng(0)
    arguments: list[np.ndarray] = []
    for declared in main.function_type.inputs:
        kind = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i64": np.int64}
        element = kind[str(declared).rpartition("x")[2].rstrip(">")]
        shape = tuple(map(int, str(declared)[7:].split("x")[:-1]))
        arguments.append(rng.integers(-99, 99, shape).astype(element))
    expected = evaluate(module, "main", [*arguments])
    for result, wanted in zip(run_program(text, arguments, target()), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("shape", "order", "kind"),
    [
        ((48, 64), (1, 0), "f32"),
        ((197, 33), (1, 0), "f32"),  # no block divides the neighbours
        ((197, 33), (1, 0), "i8"),
        ((2, 16, 9, 24), (0, 2, 3, 1), "f16"),
        ((2, 9, 24, 16), (0, 3, 1, 2), "i64"),
        ((3, 1024, 40), (0, 2, 1), "f32"),  # lines that share a place of the cache
        ((12, 11, 10, 9), (3, 2, 1, 0), "f32"),
    ],
)
def test_transposed(shape: tuple[int, ...], order: tuple[int, ...], kind: str) -> None:
    check(transposed(shape, order, kind))


def crossing_of(text: str) -> int | None:
    module = read_module(text)
    function = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    returned = function.body.block.last_op
    assert returned is not None
    return crossing_dim(returned.operands[0])


def test_loops_cross_where_neighbours_are_those_of_another_dimension():
    assert crossing_of(transposed((2, 16, 9, 24), (0, 2, 3, 1))) == 2
    assert crossing_of(transposed((2, 9, 24, 16), (0, 3, 1, 2))) == 1


def test_loops_do_not_cross():
    assert crossing_of(transposed((64, 9, 24), (1, 0, 2))) is None  # rows stay rows
    assert crossing_of(transposed((640, 4), (1, 0))) is None  # few neighbours
    assert crossing_of(transposed((16, 16), (1, 0))) is None  # all of it is in the cache


def test_a_small_argument_does_not_decide():
    text = """
kernel.func @k(%x: tensor<64x96xf32>, %row: tensor<96x1xf32>) -> tensor<64x96xf32> {
  %0 = tensor.empty() : tensor<64x96xf32>
  %1 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, 0)>,
                       affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %row : tensor<64x96xf32>, tensor<96x1xf32>) outs(%0 : tensor<64x96xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<64x96xf32>
  kernel.return %1 : tensor<64x96xf32>
}
"""
    assert crossing_of(text) is None


def test_parts_that_are_joined():
    """Along the innermost dimension, of slices; one is joined itself, and one is transposed."""
    check(
        program_text(
            """
kernel.func @k(%x: tensor<20x24xf32>, %y: tensor<8x20xf32>) -> tensor<20x40xf32> {
  %0 = tensor.extract_slice %x[0, 3] [20, 16] [1, 1] : tensor<20x24xf32> to tensor<20x16xf32>
  %1 = tensor.extract_slice %x[0, 0] [20, 16] [1, 1] : tensor<20x24xf32> to tensor<20x16xf32>
  %2 = arith.addf %1, %0 : tensor<20x16xf32>
  %e = tensor.empty() : tensor<20x8xf32>
  %3 = linalg.transpose ins(%y : tensor<8x20xf32>) outs(%e : tensor<20x8xf32>) permutation = [1, 0]
  %4 = tensor.concat dim(1) %2, %3 : (tensor<20x16xf32>, tensor<20x8xf32>) -> tensor<20x24xf32>
  %5 = tensor.concat dim(1) %0, %4 : (tensor<20x16xf32>, tensor<20x24xf32>) -> tensor<20x40xf32>
  kernel.return %5 : tensor<20x40xf32>
}
""",
            ["20x24xf32", "8x20xf32"],
            ["20x40xf32"],
        )
    )


def test_parts_that_are_joined_along_the_outermost_dimension():
    check(
        program_text(
            """
kernel.func @k(%x: tensor<3x300xf32>, %y: tensor<2x300xf32>) -> tensor<5x300xf32> {
  %0 = arith.negf %x : tensor<3x300xf32>
  %1 = tensor.concat dim(0) %0, %y : (tensor<3x300xf32>, tensor<2x300xf32>) -> tensor<5x300xf32>
  kernel.return %1 : tensor<5x300xf32>
}
""",
            ["3x300xf32", "2x300xf32"],
            ["5x300xf32"],
        )
    )


@pytest.mark.parametrize(
    ("apart", "l1_bytes", "block"),
    [(256, 32 << 10, 16), (512, 32 << 10, 8), (512, 48 << 10, 16), (1024, 48 << 10, 8)],
)
def test_lines_that_are_written_do_not_fill_their_sets(apart: int, l1_bytes: int, block: int):
    assert block_of((1, 3200, apart), 1, l1_bytes) == block
