"""Reports: agreement in every bit where it is proved, tolerance elsewhere, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from convir.dialects.context import read_module
from convir.reference import FloatFormat, evaluate, find_function
from convir.reference.checking.check import Budget, Checker, check
from convir.reference.checking.inputs import Distribution, random_arguments

pytestmark = pytest.mark.fast

SCALE = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %c = arith.constant dense<{factor}> : tensor<4x8xf32>
  %y = arith.mulf %x, %c : tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}}
"""

DOT = """
func.func @main(%x: tensor<64x{element}>, %init: tensor<f32>) -> tensor<{out}> {{
  %sum = linalg.generic {{indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> ()>],
      iterator_types = ["reduction"]}} ins(%x : tensor<64x{element}>) outs(%init : tensor<f32>) {{
  ^bb0(%a: {element}, %out: f32):
    %wide = {cast}
    %total = arith.addf %out, %wide : f32
    linalg.yield %total : f32
  }} -> tensor<f32>
  %y = arith.truncf %sum : tensor<f32> to tensor<{out}>
  func.return %y : tensor<{out}>
}}
"""


def dot(cast: str = "arith.extf %a : f16 to f32") -> str:
    return DOT.format(element="f16", out="f16", cast=cast)


def test_same_module_agrees_bit_for_bit() -> None:
    module = read_module(SCALE.format(factor="2.0"))
    report = check(module, module)
    assert (report.checked, report.passed, report.exact) == (True, True, True)
    assert "bit for bit" in str(report)


def test_a_difference_is_found_and_placed() -> None:
    before = read_module(SCALE.format(factor="2.0"))
    after = read_module(SCALE.format(factor="3.0"))
    report = check(before, after, "main")
    assert not report.passed
    assert report.exact
    assert report.max_error == 2.0
    assert report.where.startswith("@main result #0 [")


def test_a_sum_of_small_integers_is_exact_through_the_rounding_to_f16() -> None:
    module = read_module(dot())
    report = check(module, module)
    assert report.exact
    assert report.reason == ""


def test_a_sum_of_normals_has_the_tolerance_of_composable_kernel() -> None:
    module = read_module(dot())
    report = check(module, module, distribution=Distribution.NORMAL)
    assert (report.passed, report.exact) == (True, False)
    assert "a sum of 64 terms in linalg.generic at <string>:3:" in report.reason
    arguments = random_arguments(
        tuple(find_function(module, "main").function_type.inputs), 0, Distribution.NORMAL
    )
    (value,) = evaluate(module, "main", arguments, float_format=FloatFormat.WIDE)
    half_ulp_f16, half_ulp_f32, terms = 2.0**-11, 2.0**-24, 64
    relative = max(half_ulp_f16, half_ulp_f32 * terms)
    assert report.tolerance == pytest.approx(relative * 2 * abs(float(value)))


def test_an_elementary_function_is_not_exact_and_says_where() -> None:
    text = SCALE.format(factor="2.0").replace("arith.mulf %x, %c", "math.exp %x")
    report = check(read_module(text), read_module(text))
    assert report.passed
    assert not report.exact
    assert "math.exp at <string>:4:8 may round" in report.reason


def test_a_lost_rounding_is_an_error() -> None:
    before = """
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %c = arith.constant dense<2049.0> : tensor<8xf32>
      %sum = arith.addf %x, %c : tensor<8xf32>
      %narrow = arith.truncf %sum : tensor<8xf32> to tensor<8xf16>
      %y = arith.extf %narrow : tensor<8xf16> to tensor<8xf32>
      func.return %y : tensor<8xf32>
    }"""
    after = before.replace("func.return %y", "func.return %sum")
    report = check(read_module(before), read_module(after))
    assert report.exact
    assert not report.passed


def test_undefined_elements_may_become_anything() -> None:
    before = """
    func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %y = tensor.insert_slice %x into %e[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
      func.return %y : tensor<4xf32>
    }"""
    after = before.replace(
        "tensor.empty() : tensor<4xf32>", "arith.constant dense<7.0> : tensor<4xf32>"
    )
    report = check(read_module(before), read_module(after))
    assert report.passed
    assert report.undefined == 2
    assert not check(read_module(after), read_module(before)).passed


def test_nothing_defined_is_not_checked() -> None:
    module = read_module("""
    func.func @main() -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      func.return %e : tensor<4xf32>
    }""")
    report = check(module, module)
    assert not report.checked
    assert not report.passed
    assert str(report) == "not checked: @main result #0 is undefined everywhere before"


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(flops=10), "32 FLOPs exceed the budget of 10"),
        (Budget(bytes=100), "256 bytes exceed the budget of 100"),
    ],
)
def test_budget(budget: Budget, reason: str) -> None:
    module = read_module(SCALE.format(factor="2.0"))
    report = check(module, module, budget=budget)
    assert str(report) == f"not checked: {reason}"


def test_checker_keeps_the_values_of_a_module_that_is_rewritten() -> None:
    module = read_module(SCALE.format(factor="2.0"))
    checker = Checker(module)
    assert checker.check(module).passed
    constant = next(op for op in module.walk() if op.name == "arith.constant")
    other = read_module(SCALE.format(factor="5.0"))
    constant.properties["value"] = next(
        op for op in other.walk() if op.name == "arith.constant"
    ).properties["value"]
    assert not checker.check(module).passed


def test_functions_that_are_gone_or_changed() -> None:
    before = read_module(SCALE.format(factor="2.0"))
    gone = check(before, read_module(""))
    assert str(gone) == "differs at @main: the function is gone"
    changed = read_module(SCALE.format(factor="2.0").replace("8x", "9x").replace("4x8", "4x9"))
    assert "argument #0" not in str(check(changed, changed))
    with pytest.raises(ValueError, match="no function 'other'"):
        check(before, before, "other")


def test_the_same_seed_gives_the_same_inputs() -> None:
    text = SCALE.format(factor="2.0")
    reports = {check(read_module(text), read_module(SCALE.format(factor="3.0"))) for _ in range(2)}
    assert len(reports) == 1
    other = check(read_module(text), read_module(SCALE.format(factor="3.0")), seed=5)
    assert other.max_error == 2.0


def test_both_runs_must_be_exact_for_bits_to_be_demanded() -> None:
    before = read_module(SCALE.format(factor="2.0"))
    third = np.float32(2.0) * np.float32(1 / 3)
    text = f"""
    func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
      %c = arith.constant dense<{third!s}> : tensor<4x8xf32>
      %three = arith.constant dense<3.0> : tensor<4x8xf32>
      %z = arith.mulf %x, %c : tensor<4x8xf32>
      %y = arith.mulf %z, %three : tensor<4x8xf32>
      func.return %y : tensor<4x8xf32>
    }}"""
    report = check(before, read_module(text))
    assert not report.exact
    assert report.passed


TINY = """
func.func @main() -> tensor<2xf32> {{
  %x = arith.constant dense<{value}> : tensor<2xf32>
  %square = arith.mulf %x, %x : tensor<2xf32>
  %zero = arith.subf %square, %square : tensor<2xf32>
  func.return %{result} : tensor<2xf32>
}}
"""


@pytest.mark.parametrize(("value", "passed"), [("1.0e-30", True), ("1.0e-21", False)])
def test_what_f32_loses_below_its_smallest_number_is_within_tolerance(
    value: str, passed: bool
) -> None:
    before, after = (
        read_module(TINY.format(value=value, result=name)) for name in ("square", "zero")
    )
    assert check(before, after).passed == passed


OVERFLOW = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {{
  %square = arith.mulf %x, %x : tensor<3xf32>
  %cube = arith.mulf %square, %square : tensor<3xf32>
  %big = arith.mulf %cube, %y : tensor<3xf32>
  %third = arith.constant dense<{factor}> : tensor<3xf32>
  %result = arith.{op}f %big, %third : tensor<3xf32>
  func.return %result : tensor<3xf32>
}}
"""
LARGE = np.array([1e15, 2.0, 3.0], np.float32)
ONES = np.ones(3, np.float32)


def overflowing(
    after: str, y: np.ndarray = ONES, before: str = OVERFLOW.format(op="mul", factor="0.1")
) -> tuple[bool, bool, int]:
    """Whether what the first element overflows in was compared, agrees, and what was undefined."""
    checker = Checker(read_module(before), arguments=(LARGE, y))
    report = checker.check(read_module(after))
    return report.checked, report.passed, report.undefined


def test_what_overflows_before_may_overflow_after() -> None:
    assert overflowing(OVERFLOW.format(op="mul", factor="0.1")) == (True, True, 0)
    # The next number of f32 is within tolerance.
    assert overflowing(OVERFLOW.format(op="mul", factor="0.10000001")) == (True, True, 0)


def test_what_overflows_before_may_be_no_other_number_after() -> None:
    after = OVERFLOW.format(op="mul", factor="0.1").replace("%big, %third", "%x, %third")
    assert overflowing(after, np.array([1, 0.125, 1 / 27], np.float32)) == (True, False, 0)


def test_an_overflow_sets_no_tolerance_for_other_elements() -> None:
    assert overflowing(OVERFLOW.format(op="mul", factor="0.11")) == (True, False, 0)


def test_what_does_not_overflow_before_must_not_after() -> None:
    small = np.array([1e-30, 1, 1], np.float32)
    before = OVERFLOW.format(op="mul", factor="0.1").replace("%square, %square", "%square, %y")
    assert overflowing(before, small, before) == (True, True, 0)
    assert overflowing(OVERFLOW.format(op="mul", factor="0.1"), small, before)[1] is False


def test_infinity_less_infinity_is_undefined() -> None:
    text = OVERFLOW.format(op="sub", factor="0.1").replace("%big, %third", "%big, %cube")
    assert overflowing(text, 2 * ONES, text) == (True, True, 1)


INVERSE = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %square = arith.mulf %x, %x : tensor<3xf32>
  %power = arith.mulf %square, %square : tensor<3xf32>
  %inverse = arith.divf %x, %power : tensor<3xf32>
  %back = arith.mulf %inverse, %square : tensor<3xf32>
  func.return %back : tensor<3xf32>
}
"""


def test_bits_that_stay_agree_wherever_an_overflow_leads() -> None:
    # 1 / x is 0 in f32, after an infinity.
    before = read_module(INVERSE)
    checker = Checker(before, arguments=(np.full(3, 1e15, np.float32),))
    assert checker.check(before).passed
    assert not checker.check(read_module(INVERSE.replace("return %back", "return %x"))).passed
