"""Grids, what the tracker proves of them, and that a proof of exactness holds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.dialects.context import parse_module, read_module
from convir.reference.checking.check import evaluate_tracked
from convir.reference.exactness.facts import EXACT, Fact
from convir.reference.exactness.grid import ZERO, Grid

DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_every_measured_element_is_on_the_grid(values: list[float]) -> None:
    grid = Grid.of(np.array(values))
    for value in values:
        assert abs(value) <= grid.bound
        assert (Fraction(value) / Fraction(2) ** grid.exponent).denominator == 1


@given(st.sampled_from(sorted(DTYPES)), st.integers(-160, 100), st.integers(0, 70))
def test_a_grid_fits_a_type_exactly_if_its_largest_points_do(
    name: str, exponent: int, bits: int
) -> None:
    dtype = DTYPES[name]
    bound = float(Fraction(2) ** exponent * (2**bits - 1))
    if Fraction(bound) != Fraction(2) ** exponent * (2**bits - 1):
        return
    with np.errstate(over="ignore"):
        held = float(np.array(bound, np.float64).astype(dtype)) == bound
        step = float(Fraction(2) ** exponent)
        held = held and float(np.array(step, np.float64).astype(dtype)) == step
    assert Grid(exponent, bound).fits(dtype) == (held or bound == 0)


def test_measures() -> None:
    assert Grid.of(np.array([0.5, 0.75, -3.0])) == Grid(-2, 3.0)
    assert Grid.of(np.array([4.0, np.nan, np.inf], np.float16)) == Grid(0, 4.0)
    assert Grid.of(np.array([1e-40], np.float32)).exponent >= -149
    assert Grid.of(np.array([5e-324])) == Grid(-1074, 5e-324)
    assert Grid.of(np.array([-7, 3], np.int8)) == Grid(0, 7.0)
    assert Grid.of(np.zeros(3)) == Grid(0, 0.0)
    assert Grid.of(np.zeros((0, 3))) == ZERO
    assert Grid.of(np.broadcast_to(np.float32(0.25), (10**9, 10**9))) == Grid(-2, 0.25)


def test_arithmetic_of_grids() -> None:
    half, integer = Grid(-1, 3.5), Grid(0, 4.0)
    assert half.plus(integer) == Grid(-1, 7.5)
    assert half.times(half) == Grid(-2, 12.25)
    assert half.repeated(10) == Grid(-1, 35.0)
    assert half.join(ZERO) == half == ZERO.join(half)


def facts(signature: str, result: str, body: str, *args: Any) -> Fact:
    module = parse_module(
        f"func.func @main({signature}) -> {result} {{\n{body}\nfunc.return %r : {result}\n}}"
    )
    return evaluate_tracked(module, "main", args)[1][0]


@pytest.mark.parametrize(
    ("body", "value", "is_exact"),
    [
        ("%r = arith.addf %x, %x : f16", 511.5, True),
        ("%r = arith.addf %x, %x : f16", 40000.0, False),
        ("%r = arith.mulf %x, %x : f16", 2**-13, False),
        ("%r = arith.mulf %x, %x : f16", 45.0, True),
        ("%r = arith.divf %x, %x : f16", 2.0, False),
        ("%r = math.exp %x : f16", 0.0, False),
        ("%r = arith.negf %x : f16", 1.2345, True),
        ("%r = math.floor %x : f16", 1.2345, True),
        ("%r = arith.maximumf %x, %x : f16", 1.2345, True),
    ],
)
def test_scalar_operations(body: str, value: float, is_exact: bool) -> None:
    found = facts("%x: f16", "f16", body, np.float16(value))
    assert (found.inexact is None) == is_exact
    if not is_exact:
        assert found.roundings == {DTYPES["f16"]: 1}


def test_one_correct_rounding_stays_exact_but_is_counted() -> None:
    found = facts("%x: f32", "f16", "%r = arith.truncf %x : f32 to f16", np.float32(1 / 3))
    assert found.inexact is None
    assert found.relative_error == 2.0**-11
    assert facts("%x: f32", "f16", "%r = arith.truncf %x : f32 to f16", np.float32(3)) == EXACT


def test_inexactness_is_inherited_by_everything_computed_from_it() -> None:
    body = "%e = math.exp %x : f32\n%c = arith.cmpf ogt, %e, %x : f32\n"
    body += "%r = arith.select %c, %x, %x : f32"
    found = facts("%x: f32", "f32", body, np.float32(1))
    assert found.inexact is not None
    assert "math.exp" in found.inexact


def test_what_a_loop_carries_is_followed() -> None:
    body = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c9 = arith.constant 9 : index
      %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%a = %x) -> (f16) {
        %b = arith.addf %a, %a : f16
        scf.yield %b : f16
      }"""
    assert facts("%x: f16", "f16", body, np.float16(1)).inexact is None
    assert facts("%x: f16", "f16", body, np.float16(3)).inexact is None
    found = facts("%x: f16", "f16", body, np.float16(2047))
    assert found.inexact is not None
    assert 0 < found.roundings[DTYPES["f16"]] <= 9


def test_roundings_merge_by_their_worst_path() -> None:
    f16, f32 = DTYPES["f16"], DTYPES["f32"]
    merged = Fact.merge([Fact("a", {f16: 1, f32: 5}), Fact("b", {f16: 2})])
    assert merged == Fact("a", {f16: 2, f32: 5})
    assert merged.rounded(f32, 3).roundings == {f16: 2, f32: 8}
    assert merged.because("c").inexact == "a"
    assert EXACT.because("c").inexact == "c"


@given(st.data())
def test_sums_that_are_proved_exact_do_not_depend_on_their_order(data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from([2.0**-8, 1.0, 64.0, 1 / 3]))
    limit = data.draw(st.sampled_from([4, 1000, 2**22]))
    values = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=20))
    terms = (np.array(values, np.float32) * np.float32(scale)).astype(np.float32)
    n = len(terms)
    found = facts(
        f"%x: tensor<{n}xf32>, %i: tensor<f32>",
        "tensor<f32>",
        f"""%r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
            iterator_types = ["reduction"]}} ins(%x : tensor<{n}xf32>) outs(%i : tensor<f32>) {{
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        }} -> tensor<f32>""",
        terms,
        np.zeros((), np.float32),
    )
    if found.inexact is not None:
        assert found.roundings == {DTYPES["f32"]: n}
        return
    exact = sum((Fraction(float(term)) for term in terms), Fraction(0))
    for order in (terms, terms[::-1], np.sort(terms)):
        total = np.float32(0)
        for term in order:
            total = np.float32(total + term)
        assert Fraction(float(total)) == exact


def test_open_sizes_of_a_convolution_are_those_of_its_operands() -> None:
    def of(sizes: str):
        x, w, y = (f"tensor<{sizes or shape}xf16>" for shape in ("1x3x3x2", "2x2x2x2", "1x2x2x2"))
        return read_module(
            f"func.func @main(%x: {x}, %w: {w}, %y: {y}) -> {y} {{\n"
            f"  %r = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : {x}, {w}) outs(%y : {y})\n"
            f"  return %r : {y}\n}}"
        )

    shapes = ((1, 3, 3, 2), (2, 2, 2, 2), (1, 2, 2, 2))
    arguments = [np.full(shape, 999, np.float16) for shape in shapes]
    static, opened = (evaluate_tracked(of(s), "main", arguments) for s in ("", "?x?x?x?"))
    np.testing.assert_array_equal(opened[0][0], static[0][0])
    assert static[1][0].inexact is not None
    assert opened[1][0].relative_error == static[1][0].relative_error > 0
