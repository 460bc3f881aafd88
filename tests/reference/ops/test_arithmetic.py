"""Scalars as MLIR has them: integers that wrap, floats that round once at every operation."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.context import parse_module
from convir.reference import EvaluationError, FloatFormat, evaluate
from convir.reference.dtypes import BFLOAT16, convert
from convir.reference.ops.transcendental import erf

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGERS: dict[int, Any] = {1: np.bool_, 8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


def scalar(body: str, types: str, result: str, *args: Any) -> Any:
    names = ", ".join(f"%{n}: {t.strip()}" for n, t in zip("abc", types.split(","), strict=False))
    module = parse_module(f"""
    func.func @main({names}) -> {result} {{
      %r = {body}
      func.return %r : {result}
    }}""")
    return evaluate(module, "main", args)[0][()]


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def divided(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


MEANINGS: dict[str, Callable[[int, int, int], int]] = {
    "addi": lambda a, b, w: a + b,
    "subi": lambda a, b, w: a - b,
    "muli": lambda a, b, w: a * b,
    "andi": lambda a, b, w: a & b,
    "ori": lambda a, b, w: a | b,
    "xori": lambda a, b, w: a ^ b,
    "maxsi": lambda a, b, w: max(a, b),
    "minsi": lambda a, b, w: min(a, b),
    "maxui": lambda a, b, w: max(a % 2**w, b % 2**w),
    "minui": lambda a, b, w: min(a % 2**w, b % 2**w),
    "divsi": lambda a, b, w: divided(a, b),
    "remsi": lambda a, b, w: a - b * divided(a, b),
    "floordivsi": lambda a, b, w: a // b,
    "ceildivsi": lambda a, b, w: -(-a // b),
    "divui": lambda a, b, w: (a % 2**w) // (b % 2**w),
    "remui": lambda a, b, w: (a % 2**w) % (b % 2**w),
    "ceildivui": lambda a, b, w: -(-(a % 2**w) // (b % 2**w)),
    "shli": lambda a, b, w: a << (b % 2**w),
    "shrsi": lambda a, b, w: a >> (b % 2**w),
    "shrui": lambda a, b, w: (a % 2**w) >> (b % 2**w),
}


@pytest.mark.parametrize("name", MEANINGS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_integers_equal_python_modulo_their_width(name: str, data: st.DataObject) -> None:
    width = data.draw(st.sampled_from([1, 8, 16, 32, 64]))
    values = st.integers(-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    a, b = data.draw(values), data.draw(values)
    if "div" in name or "rem" in name:
        b = b or -1
        if b == -1 and a == -(2 ** (width - 1)):
            a = 0
    if name.startswith("sh"):
        b = data.draw(st.integers(0, width - 1))
    dtype = INTEGERS[width]
    args = (
        np.array(a & 1 if width == 1 else a, dtype),
        np.array(signed(b, width) & 1 if width == 1 else b, dtype),
    )
    actual = int(
        scalar(f"arith.{name} %a, %b : i{width}", f"i{width}, i{width}", f"i{width}", *args)
    )
    expected = signed(MEANINGS[name](a, b, width), width)
    assert signed(actual, width) == expected


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a % 256 < b % 256,
    "ule": lambda a, b: a % 256 <= b % 256,
    "ugt": lambda a, b: a % 256 > b % 256,
    "uge": lambda a, b: a % 256 >= b % 256,
}


@pytest.mark.parametrize("predicate", COMPARISONS)
def test_integer_comparisons(predicate: str) -> None:
    for a in (-128, -1, 0, 1, 127):
        for b in (-128, -1, 0, 1, 127):
            args = np.array(a, np.int8), np.array(b, np.int8)
            actual = scalar(f"arith.cmpi {predicate}, %a, %b : i8", "i8, i8", "i1", *args)
            assert bool(actual) == COMPARISONS[predicate](a, b)


@pytest.mark.parametrize(
    ("predicate", "true_for"),
    [
        ("false", ""),
        ("oeq", "="),
        ("ogt", ">"),
        ("oge", ">="),
        ("olt", "<"),
        ("ole", "<="),
        ("one", "<>"),
        ("ord", "<>="),
        ("ueq", "=?"),
        ("ugt", ">?"),
        ("uge", ">=?"),
        ("ult", "<?"),
        ("ule", "<=?"),
        ("une", "<>?"),
        ("uno", "?"),
        ("true", "<>=?"),
    ],
)
def test_float_comparisons(predicate: str, true_for: str) -> None:
    cases = {"<": (1.0, 2.0), ">": (2.0, 1.0), "=": (0.0, -0.0), "?": (1.0, math.nan)}
    for relation, values in cases.items():
        args = [np.float32(value) for value in values]
        actual = scalar(f"arith.cmpf {predicate}, %a, %b : f32", "f32, f32", "i1", *args)
        assert bool(actual) == (relation in true_for)


@pytest.mark.parametrize(
    ("body", "types", "result", "args", "expected"),
    [
        ("arith.extsi %a : i1 to i32", "i1", "i32", [np.bool_(True)], -1),
        ("arith.extui %a : i1 to i32", "i1", "i32", [np.bool_(True)], 1),
        ("arith.sitofp %a : i1 to f32", "i1", "f32", [np.bool_(True)], -1.0),
        ("arith.uitofp %a : i1 to f32", "i1", "f32", [np.bool_(True)], 1.0),
        ("arith.uitofp %a : i8 to f32", "i8", "f32", [np.int8(-1)], 255.0),
        ("arith.trunci %a : i32 to i8", "i32", "i8", [np.int32(0x1FF)], -1),
        ("arith.trunci %a : i32 to i1", "i32", "i1", [np.int32(2)], 0),
        ("arith.index_cast %a : index to i32", "index", "i32", [np.int64(2**32 + 5)], 5),
        ("arith.fptosi %a : f32 to i8", "f32", "i8", [np.float32(-3.9)], -3),
        ("arith.fptoui %a : f32 to i8", "f32", "i8", [np.float32(200.7)], -56),
        ("arith.bitcast %a : f32 to i32", "f32", "i32", [np.float32(1)], 0x3F800000),
        ("arith.bitcast %a : i16 to bf16", "i16", "bf16", [np.int16(0x3F80)], 1.0),
        ("arith.negf %a : f32", "f32", "f32", [np.float32(2)], -2.0),
        ("arith.maxnumf %a, %b : f32", "f32,f32", "f32", [np.float32(np.nan), np.float32(2)], 2.0),
        (
            "arith.select %a, %b, %c : f32",
            "i1,f32,f32",
            "f32",
            [np.bool_(0), np.float32(1), np.float32(2)],
            2.0,
        ),
        ("math.ctlz %a : i16", "i16", "i16", [np.int16(5)], 13),
        ("math.cttz %a : i16", "i16", "i16", [np.int16(0)], 16),
        ("math.ctpop %a : i8", "i8", "i8", [np.int8(-1)], 8),
        ("math.ipowi %a, %b : i8", "i8,i8", "i8", [np.int8(-3), np.int8(5)], 13),
        ("math.ipowi %a, %b : i32", "i32,i32", "i32", [np.int32(-1), np.int32(-3)], -1),
        ("math.round %a : f32", "f32", "f32", [np.float32(-2.5)], -3.0),
        ("math.roundeven %a : f32", "f32", "f32", [np.float32(-2.5)], -2.0),
        ("math.rsqrt %a : f32", "f32", "f32", [np.float32(4)], 0.5),
        ("math.fpowi %a, %b : f32, i32", "f32,i32", "f32", [np.float32(2), np.int32(-2)], 0.25),
        ("math.copysign %a, %b : f32", "f32,f32", "f32", [np.float32(2), np.float32(-0.0)], -2.0),
    ],
)
def test_single_operations(
    body: str, types: str, result: str, args: list[Any], expected: Any
) -> None:
    assert scalar(body, types, result, *args) == expected


def test_maximumf_propagates_nan() -> None:
    args = np.float32(np.nan), np.float32(2)
    assert np.isnan(scalar("arith.maximumf %a, %b : f32", "f32, f32", "f32", *args))


@pytest.mark.parametrize("name", ["divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi"])
def test_division_by_zero_is_an_error_at_the_operation(name: str) -> None:
    with pytest.raises(EvaluationError, match=r"<string>:3:12: error: .*divides by zero"):
        scalar(f"arith.{name} %a, %b : i32", "i32, i32", "i32", np.int32(1), np.int32(0))


@given(st.floats(width=64, allow_nan=False))
@settings(max_examples=300, deadline=None)
def test_truncf_rounds_once_to_nearest_even(value: float) -> None:
    for name, digits, lowest, highest in (("f16", 11, -24, 15), ("bf16", 8, -133, 127)):
        actual = float(scalar(f"arith.truncf %a : f64 to {name}", "f64", name, np.float64(value)))
        assert actual == nearest_even(value, digits, lowest, highest)


def nearest_even(value: float, digits: int, lowest: int, highest: int) -> float:
    """`value` rounded in exact arithmetic."""
    if math.isinf(value) or value == 0:
        return value
    exponent = max(math.frexp(value)[1] - digits, lowest)
    units = round(Fraction(value) / Fraction(2) ** exponent)
    rounded = units * Fraction(2) ** exponent
    largest = (2 - Fraction(2) ** (1 - digits)) * 2**highest
    return float(rounded) if abs(rounded) <= largest else math.copysign(math.inf, value)


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=200, deadline=None)
def test_integers_become_bf16_by_one_rounding(value: int) -> None:
    (actual,) = convert(np.array([value], np.int64), BFLOAT16).astype(np.float64)
    exponent = max(value.bit_length() - 8, 0)
    assert actual == float(round(Fraction(value, 2**exponent)) * 2**exponent)


def test_16_bit_floats_round_at_every_operation() -> None:
    module = parse_module("""
    func.func @main(%a: f16, %b: f16) -> f16 {
      %s = arith.addf %a, %b : f16
      %r = arith.addf %s, %b : f16
      func.return %r : f16
    }""")
    arguments = [np.float16(2048), np.float16(1)]
    assert evaluate(module, "main", arguments)[0] == 2048
    assert evaluate(module, "main", arguments, float_format=FloatFormat.WIDE)[0] == 2050


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_fma_rounds_once(element: str) -> None:
    dtype = FLOATS[element]
    tiny = np.finfo(dtype).eps
    a, b, c = dtype(1 + tiny), dtype(1 - tiny), dtype(-1)
    types = ", ".join([element] * 3)
    actual = scalar(f"math.fma %a, %b, %c : {element}", types, element, a, b, c)
    assert Fraction(float(actual)) == Fraction(float(a)) * Fraction(float(b)) - 1


def test_erf_is_accurate() -> None:
    points = np.concatenate([np.linspace(-8, 8, 4001), [0.0, -0.0, np.inf, -np.inf, 1e-300]])
    expected = np.array([math.erf(point) for point in points])
    np.testing.assert_allclose(erf(points), expected, rtol=5e-15)
    assert np.isnan(erf(np.array([np.nan]))).all()


def test_bits_of_floats_cannot_be_read_in_f64() -> None:
    module = parse_module("""
    func.func @main(%a: f32) -> i32 {
      %r = arith.bitcast %a : f32 to i32
      func.return %r : i32
    }""")
    with pytest.raises(EvaluationError, match="held in f64"):
        evaluate(module, "main", [np.float32(1)], float_format=FloatFormat.WIDE)


def test_hexadecimal_and_dense_constants() -> None:
    module = parse_module("""
    func.func @main() -> (f16, tensor<2xbf16>, tensor<2x2xi1>, tensor<3xindex>) {
      %a = arith.constant 0xFC00 : f16
      %b = arith.constant dense<[1.5, -2.0]> : tensor<2xbf16>
      %c = arith.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
      %d = arith.constant dense<7> : tensor<3xindex>
      func.return %a, %b, %c, %d : f16, tensor<2xbf16>, tensor<2x2xi1>, tensor<3xindex>
    }""")
    a, b, c, d = evaluate(module, "main", [])
    assert a == -np.inf
    assert b.astype(float).tolist() == [1.5, -2.0]
    assert c.tolist() == [[True, False], [False, True]]
    assert d.tolist() == [7, 7, 7]
    assert struct.calcsize("q") == d.itemsize


def test_unknown_operations_and_types_are_located_errors() -> None:
    module = parse_module("""
    func.func @main(%a: i4) -> i4 {
      func.return %a : i4
    }""")
    with pytest.raises(ValueError, match="argument #0 of 'main' is i4, which has no NumPy dtype"):
        evaluate(module, "main", [np.int8(1)])
    module = parse_module("""
    func.func @main() {
      "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2xf32>
      func.return
    }""")
    with pytest.raises(EvaluationError, match=r"<string>:3:7: error: 'memref.alloca' op is not an"):
        evaluate(module, "main", [])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 1 arguments, not 0"),
        ([np.zeros((2, 3), np.float32)], "shape"),
        ([np.zeros((3,), np.float64)], "dtype float64"),
        ([np.float32(1)], "shape"),
    ],
)
def test_arguments_must_match(args: list[Any], message: str) -> None:
    module = parse_module("func.func @main(%a: tensor<3xf32>) { func.return }")
    with pytest.raises(ValueError, match=message):
        evaluate(module, "main", args)
    with pytest.raises(ValueError, match="no function 'other'"):
        evaluate(module, "other", args)
