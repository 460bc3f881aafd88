"""Functions that CPUs have no instruction for, on vectors of f32 or on scalars.

    math.tanh   x · P(x²) / Q(x²), both of degree 4, fitted to the least largest relative error on
                [-8.3, 8.3]; farther out tanh is 1 within the same error
    math.exp    2^n · e^r with the n that leaves |r| <= ln 2 / 2, e^r as a polynomial of degree 6

Both stay within 4e-7 of the result, relative to it (so tanh may be 1 and one unit in the last
place); infinities, NaN and the sign of zero are as the C library has them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Value, float_constant, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.lowering.kernels.host.code.builder import Function

_TANH_END = 8.3
_TANH_ABOVE = (
    0.9999999908142712, 0.13425886845870166, 0.0035491868604306796, 2.1508713402818914e-05,
    1.4648404344995062e-08,
)  # fmt: skip
_TANH_BELOW = (
    1.0, 0.46759211742280204, 0.026080021606671482, 0.00033739763161364796, 8.295202261098657e-07,
)  # fmt: skip

_EXP = (
    1.0, 1.0, 0.4999999345079676, 0.16666520680903701, 0.04166838754459982, 0.008368710654735321,
    0.0013814604481148392,
)  # fmt: skip
"""e^r on [-ln 2 / 2, ln 2 / 2]; the first two are exact, so that e^0 is."""
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693359375
"""Few enough bits that its products with the n that occur are exact."""
_LN2_LOW = -2.1219444e-4
_EXP_ENDS = (-105.0, 90.0)
"""Beyond, e^x is 0 or infinite in f32."""
_ROUNDER = 12582912.0
"""1.5 · 2^23: adding it to a small number leaves the nearest integer in the last bits."""
_EXPONENT_BIAS, _MANTISSA_BITS = 127, 23


def tanh(f: Function, x: Value) -> Value:
    """The hyperbolic tangent of `x`."""
    x = _within(f, x, -_TANH_END, _TANH_END)
    square = f.float_binary("fmul", x, x, "square")
    above = f.float_binary("fmul", _polynomial(f, square, _TANH_ABOVE), x, "above")
    return f.float_binary("fdiv", above, _polynomial(f, square, _TANH_BELOW), "tanh")


def exp(f: Function, x: Value) -> Value:
    """e to the power of `x`."""
    x = _within(f, x, *_EXP_ENDS)
    rounder = _number(_ROUNDER, x)
    shifted = _multiply_add(f, x, _number(_LOG2_E, x), rounder)
    power = f.float_binary("fsub", shifted, rounder, "power")
    rest = _multiply_add(f, power, _number(-_LN2_HIGH, x), x)
    rest = _multiply_add(f, power, _number(-_LN2_LOW, x), rest)
    raised = _polynomial(f, rest, _EXP)
    # Two factors: 2^n itself may be infinite, or no normal number, where the result is finite.
    bits = f.emit(_integers(x.type), "bits", f"bitcast {shifted} to {_integers(x.type)}")
    whole = _integer_op(f, "sub", bits, _bits_of(_ROUNDER))
    half = _integer_op(f, "ashr", whole, 1)
    other = f.emit(half.type, "other", f"sub {whole}, {half.text}")
    for exponent in (half, other):
        raised = f.float_binary("fmul", raised, _power_of_two(f, exponent, x.type), "exp")
    return raised


FUNCTIONS: Mapping[str, Callable[[Function, Value], Value]] = {"math.exp": exp, "math.tanh": tanh}
"""By the op whose meaning they have."""


def _number(number: float, like: Value) -> Value:
    return float_constant(struct.unpack("f", struct.pack("f", number))[0], like.type)


def _bits_of(number: float) -> int:
    return int(struct.unpack("i", struct.pack("f", number))[0])


def _within(f: Function, x: Value, low: float, high: float) -> Value:
    """`x` between two bounds: one instruction each, and NaN stays NaN."""
    for predicate, bound in (("ogt", _number(low, x)), ("olt", _number(high, x))):
        truth = vector("i1", _lanes(x.type)) if x.type.startswith("<") else "i1"
        beyond = f.emit(truth, "inside", f"fcmp {predicate} {bound}, {x.text}")
        x = f.select(beyond, bound, x, "bounded")
    return x


def _polynomial(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """Σ coefficients[i] · x^i."""
    total = _number(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        total = _multiply_add(f, total, x, _number(coefficient, x))
    return total


def _multiply_add(f: Function, left: Value, right: Value, total: Value) -> Value:
    """`left * right + total`, fused where the CPU has an instruction for that."""
    kind = total.type
    suffix = f"v{_lanes(kind)}f32" if kind.startswith("<") else "f32"
    declaration = f"declare {kind} @llvm.fmuladd.{suffix}({kind}, {kind}, {kind})"
    return f.intrinsic(declaration, kind, (left, right, total), "fitted")


def _power_of_two(f: Function, exponent: Value, kind: str) -> Value:
    """2 to the power of an integer that a normal number has."""
    biased = _integer_op(f, "add", exponent, _EXPONENT_BIAS)
    bits = _integer_op(f, "shl", biased, _MANTISSA_BITS)
    return f.emit(kind, "scale", f"bitcast {bits} to {kind}")


def _integer_op(f: Function, operator: str, left: Value, right: int) -> Value:
    if left.type.startswith("<"):
        text = f"<{', '.join([f'i32 {right}'] * _lanes(left.type))}>"
    else:
        text = str(right)
    return f.emit(left.type, operator, f"{operator} {left}, {text}")


def _integers(kind: str) -> str:
    return vector("i32", _lanes(kind)) if kind.startswith("<") else "i32"


def _lanes(kind: str) -> int:
    return int(kind[1:].split(" x ", maxsplit=1)[0])
