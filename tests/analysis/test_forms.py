"""Linear forms, reshapes, costs and effects, at their boundaries."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    IndexType,
    TensorType,
    f16,
    f32,
    i1,
    i64,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr, AffineMap

from convir.analysis.cost import Cost, cost_of, peak_bytes, size_in_bytes
from convir.analysis.effects import Effects
from convir.analysis.linear import LinearIndex, linear_index, linear_map
from convir.analysis.rearrangement import rearrangement
from convir.analysis.reshapes import reassociation, splitting
from convir.dialects.context import read_module

pytestmark = pytest.mark.fast

coefficients = st.dictionaries(st.integers(0, 2), st.integers(-3, 3))
forms = st.builds(LinearIndex.of, coefficients, st.integers(-4, 4))
POINTS = list(product(range(3), repeat=3))


def value(form: LinearIndex, point: tuple[int, ...]) -> int:
    return form.constant + sum(c * point[loop] for loop, c in form.terms)


@given(forms, forms, st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 2))
def test_arithmetic_of_forms(
    form: LinearIndex, other: LinearIndex, factor: int, offset: int, loop: int
) -> None:
    for point in POINTS:
        moved = tuple(offset + factor * n if i == loop else n for i, n in enumerate(point))
        kept = tuple(n if i == loop else 0 for i, n in enumerate(point))
        own, theirs = value(form, point), value(other, point)
        assert value(form.plus(other), point) == own + theirs
        assert value(form.affine(factor, offset), point) == factor * own + offset
        assert value(form.substituted(loop, offset, factor), point) == value(form, moved)
        assert value(form.restricted(lambda each: each == loop), point) == value(form, kept)
        composed = form.composed([other, form, other.affine(2, 1)])
        assert value(composed, point) == value(form, (theirs, own, 2 * theirs + 1))
    assert all(c for _, c in form.plus(form.affine(-1, 0)).terms)
    assert form.loops == tuple(sorted(form.loops))
    assert form.coefficient(loop) == value(form, unit(loop)) - form.constant
    assert linear_index(form.expression()) == form
    alone = all(value(form, point) == point[loop] for point in POINTS)
    assert (form.bare == loop) == alone


def unit(loop: int) -> tuple[int, ...]:
    return tuple(int(each == loop) for each in range(3))


@given(forms, st.tuples(*[st.integers(1, 3)] * 3))
def test_the_largest_value(form: LinearIndex, bounds: tuple[int, ...]) -> None:
    points = product(*map(range, bounds))
    assert form.maximum(bounds) == max(value(form, point) for point in points)
    assert (form.maximum((None, *bounds[1:])) is None) == (0 in form.loops)


def test_what_is_not_linear() -> None:
    i, j = AffineExpr.dimension(0), AffineExpr.dimension(1)
    assert linear_index(i * 2 + j * -1 + 3) == LinearIndex(((0, 2), (1, -1)), 3)
    assert linear_index(AffineExpr.constant(2) * i) == LinearIndex(((0, 2),))
    assert linear_index((i + 1) * AffineExpr.constant(3)) == LinearIndex(((0, 3),), 3)
    i_times_j = AffineBinaryOpExpr(AffineBinaryOpKind.Mul, i, j)
    for expr in (i_times_j, i // 2, i % 2, AffineExpr.symbol(0), i + j % 2, (i % 2) * 3):
        assert linear_index(expr) is None
        assert linear_map(AffineMap(2, 1, (i, expr))) is None


sizes = st.lists(st.integers(1, 4), max_size=4)


@given(sizes, sizes)
def test_groups_hold_the_same_elements(before: list[int], after: list[int]) -> None:
    groups = reassociation(before, after)
    if prod(before) != prod(after):
        assert groups is None
        return
    assert groups is not None
    if not before or not after:
        assert groups == ()
        return
    assert [dim for left, _ in groups for dim in left] == list(range(len(before)))
    assert [dim for _, right in groups for dim in right] == list(range(len(after)))
    for left, right in groups:
        assert left
        assert right
        assert prod(before[dim] for dim in left) == prod(after[dim] for dim in right)


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((), (1, 1), ()),
        ((), (2,), None),
        ((1, 2), (), None),
        ((6,), (2, 3), (((0,), (0, 1)),)),
        ((2, 3, 5), (6, 5), (((0, 1), (0,)), ((2,), (1,)))),
        ((2, 1, 3), (2, 3), (((0, 1), (0,)), ((2,), (1,)))),
        ((2, 1, 3), (2, 1, 3), (((0,), (0,)), ((1,), (1,)), ((2,), (2,)))),
        ((2, 3), (3, 2), (((0, 1), (0, 1)),)),
        ((2, 3, 1, 1), (6,), (((0, 1, 2, 3), (0,)),)),
        ((4,), (5,), None),
        ((4, 0), (0, 4), (((0, 1), (0, 1)),)),
    ],
)
def test_the_finest_groups(
    before: tuple[int, ...], after: tuple[int, ...], groups: tuple[object, ...] | None
) -> None:
    assert reassociation(before, after) == groups


def test_one_dimension_stands_for_two() -> None:
    assert splitting(3, 1) == ((0,), (1, 2), (3,))
    assert splitting(1, 0) == ((0, 1),)


@pytest.mark.parametrize(
    ("element", "size"),
    [(f32, 4), (f16, 2), (i1, 1), (IndexType(), 8), (i64, 8), (ComplexType(f32), 0)],
)
def test_sizes_in_bytes(element: IndexType, size: int) -> None:
    assert size_in_bytes(TensorType(element, [2, 3])) == 6 * size
    assert size_in_bytes(TensorType(element, [2, DYNAMIC_INDEX]), 5) == 10 * size
    assert size_in_bytes(TensorType(element, [2, DYNAMIC_INDEX])) == 2 * size
    assert size_in_bytes(element) == 0


COSTS = """
func.func @f(%t: tensor<4x6xf32>, %i: tensor<4x6xi32>, %x: f32, %h: tensor<4x6xf16>,
             %m: tensor<6x5xf32>, %o: tensor<4x5xf32>) {
  OP
  func.return
}
"""
MAP = "affine_map<(a, b) -> (a, b)>"
LOOPS = f'indexing_maps = [{MAP}, {MAP}], iterator_types = ["parallel", "parallel"]'


@pytest.mark.parametrize(
    ("op", "flops", "moved"),
    [
        ("%0 = arith.addf %t, %t : tensor<4x6xf32>", 24, 3 * 96),
        ("%0 = arith.addi %i, %i : tensor<4x6xi32>", 0, 3 * 96),
        ("%0 = arith.extf %h : tensor<4x6xf16> to tensor<4x6xf32>", 0, 96 + 48),
        ("%0 = arith.addf %x, %x : f32", 0, 0),
        ("%0 = math.exp %h : tensor<4x6xf16>", 24, 96),
        ("%0 = tensor.empty() : tensor<4xf32>", 0, 0),
        ("%0 = arith.constant dense<1.0> : tensor<4xf32>", 0, 0),
        (
            (
                "%0 = tensor.pad %m low[0, 1] high[0, 0] { ^bb0(%a: index, %b: index): "
                "tensor.yield %x : f32 } : tensor<6x5xf32> to tensor<6x6xf32>"
            ),
            *(0, 120 + 144),
        ),
        (
            (
                "%0 = linalg.matmul ins(%t, %m : tensor<4x6xf32>, tensor<6x5xf32>) "
                "outs(%o : tensor<4x5xf32>) -> tensor<4x5xf32>"
            ),
            *(2 * 4 * 6 * 5, 96 + 120 + 80 + 80),
        ),
        (
            (
                f"%0 = linalg.generic {{{LOOPS}}} ins(%t : tensor<4x6xf32>) outs(%t : "
                f"tensor<4x6xf32>) "
                "{ ^bb0(%p: f32, %q: f32): %r = arith.addf %p, %x : f32 %s = math.exp %r : f32 "
                "%c = arith.cmpf olt, %r, %x : f32 %u = arith.select %c, %r, %s : f32 "
                "linalg.yield %u : f32 } -> tensor<4x6xf32>"
            ),
            *(48, 96 + 96),
        ),
    ],
)
def test_costs(op: str, flops: int, moved: int) -> None:
    (function,) = read_module(COSTS.replace("OP", op)).ops
    assert cost_of(function) == Cost(flops, moved)
    assert cost_of(function) + Cost(1, 2) == Cost(flops + 1, moved + 2)


def test_the_most_bytes_at_once() -> None:
    ops = """%0 = math.exp %t : tensor<4x6xf32>
    %e = tensor.empty() : tensor<400xf32>
    %1 = math.exp %0 : tensor<4x6xf32>
    %2 = math.exp %1 : tensor<4x6xf32>
    %3 = arith.addf %2, %0 : tensor<4x6xf32>"""
    (function,) = read_module(COSTS.replace("OP", ops)).ops
    block = function.regions[0].block
    arguments = 96 + 96 + 48 + 120 + 80
    assert peak_bytes(block) == arguments + 3 * 96


EFFECTS = {
    "%0 = arith.addf %x, %x : f32": (True, True, False, True),
    "%0 = arith.divui %n, %n : index": (True, True, False, True),
    "%0 = memref.load %m[%n] : memref<4xf32>": (False, True, False, True),
    "memref.store %x, %m[%n] : memref<4xf32>": (False, False, True, False),
    "%0 = memref.alloc() : memref<4xf32>": (False, False, False, False),
    "scf.for %i = %n to %n step %n { memref.store %x, %m[%i] : memref<4xf32> }": (
        *(False, False, False, False),
    ),
    "scf.for %i = %n to %n step %n { %0 = memref.load %m[%i] : memref<4xf32> }": (
        *(False, True, False, True),
    ),
    '"test.op"() : () -> ()': (False, False, True, False),
    "func.call @g() : () -> ()": (False, False, True, False),
}
"""Whether it is pure, only reads, may write, and may go."""


@pytest.mark.parametrize("text", EFFECTS)
def test_effects(text: str) -> None:
    module = read_module(
        "func.func private @g()\n"
        f"func.func @f(%x: f32, %n: index, %m: memref<4xf32>) {{ {text} func.return }}"
    )
    function = list(module.ops)[-1]
    op = function.regions[0].block.first_op
    assert isinstance(op, Operation)
    effects = Effects()
    for _ in range(2):  # what is known of a class is kept
        found = (
            *(effects.is_pure(op), effects.only_reads(op), effects.may_write(op)),
            effects.removable_if_unused(op),
        )
        assert found == EFFECTS[text]
        assert effects.is_dead(op) == found[3]
    assert not effects.is_dead(function)
    end = function.regions[0].block.last_op
    assert end is not None
    assert not effects.removable_if_unused(end)


REARRANGED = """
func.func @f(%t: tensor<6x4xf32>, %e: tensor<4x6xf32>, %k: index, %x: f32) -> tensor<4x6xf32> {
  %c3 = arith.constant 3 : index
  %0 = linalg.generic {indexing_maps = [SOURCE_MAP, RESULT_MAP],
      iterator_types = ["parallel", "WALK"]}
      ins(%t : tensor<6x4xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%p: f32, %q: f32):
    BODY
  } -> tensor<4x6xf32>
  func.return %0 : tensor<4x6xf32>
}
"""
STRAIGHT, TURNED = "affine_map<(a, b) -> (a, b)>", "affine_map<(a, b) -> (b, a)>"
FLIP = """%a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %f = arith.subi %c3, %a : index
    %g = arith.addi %b, %b : index
    %r = tensor.extract %t[%b, %f] : tensor<6x4xf32>
    linalg.yield %r : f32"""


@pytest.mark.parametrize(
    ("change", "index"),
    [
        ({"BODY": "linalg.yield %p : f32"}, (((1, 1),), ((0, 1),))),
        ({"BODY": FLIP}, (((1, 1),), ((0, -1),))),
        ({"BODY": FLIP.replace("subi", "addi")}, (((1, 1),), ((0, 1),))),
        ({"BODY": FLIP.replace("%b, %f", "%g, %f")}, (((1, 2),), ((0, -1),))),
        ({"BODY": FLIP.replace("%b, %f", "%k, %f")}, None),
        ({"BODY": FLIP.replace("subi %c3", "subi %k")}, None),
        ({"BODY": FLIP.replace("subi", "muli")}, None),
        ({"BODY": "linalg.yield %q : f32"}, None),
        ({"BODY": "%r = arith.negf %p : f32 linalg.yield %r : f32"}, None),
        ({"BODY": "linalg.yield %p : f32", "WALK": "reduction"}, None),
        ({"BODY": "linalg.yield %p : f32", "RESULT_MAP": "affine_map<(a, b) -> (b, a)>"}, None),
    ],
)
def test_rearrangements(change: dict[str, str], index: tuple[object, ...] | None) -> None:
    text = REARRANGED
    defaults = {"SOURCE_MAP": TURNED, "RESULT_MAP": STRAIGHT, "WALK": "parallel"}
    if "RESULT_MAP" in change:
        text = text.replace("tensor<4x6xf32>", "tensor<6x4xf32>")
    for name, each in {**defaults, **change}.items():
        text = text.replace(name, each)
    op = next(op for op in read_module(text).walk() if op.name == "linalg.generic")
    found = rearrangement(op)
    assert (None if found is None else tuple(form.terms for form in found.index)) == index
    if found is not None:
        block = op.parent_block()
        assert block is not None
        assert found.source is block.args[0]
