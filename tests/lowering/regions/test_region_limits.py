"""What one kernel may hold, and which pieces of a tensor kernels may write in place."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from convir.dialects.context import read_module
from convir.lowering.regions.form_kernel_regions import MAX_SCALARS
from convir.lowering.regions.op_groups import Groups, is_reduction
from convir.lowering.regions.placements import ALIGNMENT, placed_results, placing_ops
from convir.lowering.regions.recomputation import (
    MAX_CODE,
    MAX_REDUCTIONS,
    MAX_TIMES,
    KernelSize,
    Positions,
)
from convir.passes import run
from convir.reference import evaluate

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("code", "reductions", "reason"),
    [
        (MAX_CODE, 0, None),
        (MAX_CODE + 1, 0, "its kernel would be 129 ops, more than 128"),
        (MAX_CODE + MAX_REDUCTIONS, 1, None),
        (MAX_CODE + MAX_REDUCTIONS + 1, 1, "its kernel would be 385 ops, more than 384"),
        (3 * MAX_CODE + MAX_REDUCTIONS, 3, None),
        (3 * MAX_CODE + MAX_REDUCTIONS + 1, 3, "its kernel would be 641 ops, more than 640"),
        (0, MAX_REDUCTIONS, None),
        (0, MAX_REDUCTIONS + 1, "its kernel would hold more than 256 reductions"),
    ],
)
def test_how_large_a_kernel_may_be(code: int, reductions: int, reason: str | None) -> None:
    refusal = KernelSize(code, reductions).refusal()
    assert (None if refusal is None else refusal.reason) == reason
    assert KernelSize(code - 3, 0).plus(KernelSize(3, reductions)) == KernelSize(code, reductions)


CHAIN = """
func.func @f(%x: tensor<4xf32>, %o: tensor<f32>) -> tensor<4xf32> {
  %0 = arith.negf %x : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %2 = linalg.reduce { arith.addf } ins(%x : tensor<4xf32>) outs(%o : tensor<f32>) dimensions = [0]
  %3 = arith.addf %0, %1 : tensor<4xf32>
  func.return %3 : tensor<4xf32>
}
"""


def test_groups_grow() -> None:
    (function,) = read_module(CHAIN).ops
    ops = list(function.regions[0].block.ops)
    first, second, reduced, last, returned = ops
    groups = Groups({op: number for number, op in enumerate(ops[:-1])})
    assert [is_reduction(op) for op in ops] == [False, False, True, False, False]
    assert groups.members() == [[op] for op in ops[:-1]]
    assert groups.find(returned) is None
    order = list(groups.from_results())
    assert order.index(last) < order.index(second) < order.index(first)
    groups.merge(second, last)
    groups.merge(last, second)
    groups.merge(returned, last)
    assert groups.find(last) == groups.find(second) == 1
    assert groups.members() == [[first], [second, last], [reduced]]
    groups.merge(first, last)
    assert groups.find(last) == groups.find(second) == groups.find(first) == 0
    assert groups.members() == [[first, second, last], [reduced]]
    assert groups.merge_refusal(first, last) is None
    assert groups.merge_refusal(first, reduced) is None
    assert groups.merge_refusal(first, returned) is None


def test_groups_do_not_grow_beyond_a_kernel() -> None:
    ops = "\n".join(f"%{i} = arith.negf %x : tensor<4xf32>" for i in range(MAX_CODE + 1))
    text = f"func.func @f(%x: tensor<4xf32>) {{\n{ops}\nfunc.return\n}}"
    (function,) = read_module(text).ops
    members = list(function.regions[0].block.ops)[:-1]
    groups = Groups({op: number for number, op in enumerate(members)})
    for op in members[1:-1]:
        assert groups.merge_refusal(members[0], op) is None
        groups.merge(members[0], op)
    refusal = groups.merge_refusal(members[0], members[-1])
    assert refusal is not None
    assert refusal.reason == "its kernel would be 129 ops, more than 128"


def test_how_often_a_kernel_computes_an_element() -> None:
    (function,) = read_module(CHAIN).ops
    op = function.regions[0].block.first_op
    assert op is not None
    positions = Positions()
    positions._steps.extend([1] * MAX_TIMES)  # pyright: ignore[reportPrivateUsage]
    within, beyond = frozenset(range(MAX_TIMES)), frozenset(range(MAX_TIMES + 1))
    assert positions.refusal(op, within, KernelSize(0)) is None
    refusal = positions.refusal(op, beyond, KernelSize(0))
    assert refusal is not None
    assert "would compute each element 17 times, more than 16" in refusal.reason
    assert positions.refusal(op, within, KernelSize(MAX_CODE - MAX_TIMES)) is None
    refusal = positions.refusal(op, within, KernelSize(MAX_CODE - MAX_TIMES + 1))
    assert refusal is not None
    assert refusal.reason == "its kernel would be 129 ops, more than 128: it is written to memory"


LINE = ALIGNMENT // 4
"""Elements of f32 that are aligned as memory is."""

PLACED = """
func.func @f(%x: tensor<LONGxf32>, %o: tensor<WHOLExf32>) -> tensor<WHOLExf32> {
  %a = arith.negf %x : tensor<LONGxf32>
  %b = math.exp %x : tensor<LONGxf32>
  OPS
}
"""
INTO = (
    "tensor.insert_slice {0} into {1}[{2}] [LONG] [{3}] : tensor<LONGxf32> into tensor<WHOLExf32>"
)


def placed(*ops: str, long: int = LINE, whole: int = 2 * LINE, ends: str = "%1") -> list[list[int]]:
    """The offsets in bytes of the pieces of every tensor that kernels fill in place."""
    lines = "\n  ".join((*ops, f"func.return {ends} : tensor<WHOLExf32>"))
    text = PLACED.replace("OPS", lines).replace("LONG", str(long)).replace("WHOLE", str(whole))
    block = next(iter(read_module(text).ops)).regions[0].block
    found = [[piece.offset for piece in result.pieces] for result in placed_results(block)]
    assert len(placing_ops(block)) == sum(map(len, found))
    return found


def insertions(first: int = 0, second: int = LINE, stride: int = 1, base: str = "%o") -> list[str]:
    return [
        "%0 = " + INTO.format("%a", base, first, stride),
        "%1 = " + INTO.format("%b", "%0", second, stride),
    ]


def test_pieces_that_fill_a_tensor() -> None:
    assert placed(*insertions()) == [[0, ALIGNMENT]]
    assert placed(*insertions(LINE, 0)) == [[ALIGNMENT, 0]]


@pytest.mark.parametrize(
    "ops",
    [
        insertions(0, 0),  # one half twice
        [*insertions(), "%2 = arith.addf %0, %1 : tensor<WHOLExf32>"],  # the first half is read
        [*insertions(), "%2 = arith.addf %a, %x : tensor<LONGxf32>"],  # so is a piece
        ["%1 = " + INTO.format("%a", "%o", 0, 1)],  # the other half stays
        [line.replace("%b", "%x") for line in insertions()],  # an argument is copied
        [line.replace("%b", "%a") for line in insertions()],  # one value in two places
    ],
)
def test_pieces_that_kernels_copy(ops: list[str]) -> None:
    assert placed(*ops) == []


def test_pieces_that_are_not_aligned() -> None:
    assert placed(*insertions(0, LINE + 1), long=LINE + 1, whole=2 * LINE + 2) == []
    assert placed(*insertions(0, 1, stride=2)) == []
    assert placed("%1 = " + INTO.format("%a", "%o", 0, 1), whole=LINE) == []


def test_pieces_of_any_order() -> None:
    for pair in combinations(range(3), 2):
        (third,) = {0, 1, 2} - {*pair}
        ops = [
            "%c = math.absf %x : tensor<LONGxf32>",
            "%0 = " + INTO.format("%a", "%o", pair[0] * LINE, 1),
            "%1 = " + INTO.format("%b", "%0", pair[1] * LINE, 1),
            "%2 = " + INTO.format("%c", "%1", third * LINE, 1),
        ]
        found = placed(*ops, whole=3 * LINE, ends="%2")
        assert found == [[n * ALIGNMENT for n in (*pair, third)]]
        assert placed(*ops, whole=4 * LINE, ends="%2") == []


@pytest.mark.parametrize(
    ("count", "stored"),
    [(MAX_SCALARS, 0), (MAX_SCALARS + 1, 1), (2 * MAX_SCALARS, 1), (2 * MAX_SCALARS + 1, 2)],
)
def test_scalars_that_kernels_repeat(count: int, stored: int) -> None:
    """Of a chain, what more than 32 ops compute is written to memory, and counts as one then."""
    lines = [f"%{i + 1} = arith.addf %{i}, %{i} : f32" for i in range(count)]
    text = f"""
    func.func @f(%0: f32, %t: tensor<4xf32>) -> tensor<4xf32> {{
      {" ".join(lines)}
      %s = tensor.splat %{count} : tensor<4xf32>
      %r = arith.addf %t, %s : tensor<4xf32>
      func.return %r : tensor<4xf32>
    }}
    """
    result = run(text, "form-kernel-regions")
    reasons = [remark.reason for remark in result.remarks if "written to memory" in remark.reason]
    assert reasons == [f"{MAX_SCALARS + 1} ops compute it: it is written to memory"] * stored
    assert [op.name for op in result.module.walk()].count("kernel.region") == 1 + stored
    assert [op.name for op in result.module.walk()].count("tensor.extract") == stored
    x, t = np.float32(1e-9), np.arange(4, dtype=np.float32)
    (expected,) = evaluate(read_module(text), "f", [x, t])
    (found,) = evaluate(result.module, "f", [x, t])
    np.testing.assert_array_equal(found, expected)
