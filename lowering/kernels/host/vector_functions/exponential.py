"""Exponentials, the functions that are made of one, and what activations make of these.

    exp       2^n · e^r with the n that leaves |r| <= ln 2 / 2; e^r = 1 + r + r² · P(r)
    tanh      h - h · h / (1 + h) or 1 - 1 / (1 + h) at h = (e^2x - 1) / 2, of which e^r - 1 loses
              nothing where n = 0
    sigmoid   1 / (1 + exp(-x)), both parts scaled so that exp neither overflows nor vanishes

In f64: exp2, of which gelu (tanh), mish and powers are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.vector_functions.term import polynomial

if TYPE_CHECKING:
    from convir.lowering.kernels.host.vector_functions.term import Bits, Term

_EXP = (
    0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.008369192481040955,
    0.001383890165016055,
)  # fmt: skip
_EXP_OF_HALF = (-0.5, *(c * (-0.5) ** power for power, c in enumerate(_EXP, 2)))
_EXPM1 = (
    0.4999999701976776, 0.16666539013385773, 0.04166775569319725, 0.008367122150957584,
    0.0013835706049576402,
)  # fmt: skip
_ONE_LESS_EXP = tuple(-c * (-2.0) ** power for power, c in enumerate(_EXPM1, 2))
"""The same of 1 - e^(-2r), less its first term."""
_EXP2 = (
    0.6931471824645996, 0.24022594094276428, 0.055503662675619125, 0.009625445120036602,
    0.0013387927319854498, 0.0001333249529125169,
)  # fmt: skip
_EXP2_TO_BF16 = (0.6932829022407532, 0.24221110343933105, 0.05500930920243263)
_EXP2_WIDE = (
    0.6931472028550367, 0.24022647913629086, 0.05550332471179226, 0.009618437357993262,
    0.0013398874397662019, 0.00015353361777757665,
)  # fmt: skip
LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_LN2_HIGH = 0.693359375
"""Few enough bits that its products with the n that occur are exact."""
_LN2_LOW = -2.12194440e-4
_ROUNDER = 12582912.0
"""1.5 · 2^23: adding it to a small number leaves the nearest integer in the last bits."""
_ROUNDER_BITS = 0x4B400000
_BIAS, _MANTISSA = 127, 23
EXP_PARTS_SHIFT = 64
"""By how much the exponent of a part is larger, so that it is a normal number's."""
_WIDE_ROUNDER, _WIDE_BIAS, _WIDE_MANTISSA = 6755399441055744.0, 1023, 52
_EXP_ENDS = (-105.0, 89.0)
"""Beyond, e^x is 0 or infinite in f32."""
_TANH_END = 9.5
"""Beyond, tanh is 1 in f32."""
_SIGMOID_SHIFT = -40
"""1 + exp(-x) is computed times 2 to this power: exp(110) does not overflow."""
_SIGMOID_ENDS = (-50.0, 110.0)
"""Where -x is less, 1 + exp(-x) is 1; where it is more, x / exp(-x) is 0."""
_GELU_CUBE, _GELU_SLOPE = 0.044715, 1.5957691216057308
"""Of the approximate gelu: x · sigmoid(slope · (x + cube · x³)); the slope is 2 · sqrt(2 / π)."""
_GELU_ENDS = (-11.0, 6.0)
"""Beyond, the approximate gelu is 0 or x in f32."""
_MISH_END = 60.0
"""Beyond, mish is x in f32."""


def exp(x: Term) -> Term:
    """e to the power of `x`."""
    x = x.at_least(_EXP_ENDS[0]).at_most(_EXP_ENDS[1])
    is_negative = x < 0.0
    # 2^n itself may be infinite, or no normal number, where the result is finite: the exponent is
    # moved away from that end, and back by a second factor.
    rounder = is_negative.select(x.number(_ROUNDER + _BIAS + 64), _ROUNDER + _BIAS - 2)
    factor = is_negative.select(x.number(2.0**-64), 2.0**2)
    power, rest = _parts(x, rounder)
    return power.times_plus(_near_zero(rest), power) * factor


def exp_by_scaling(x: Term) -> Term:
    """As `exp`, for CPUs that have an instruction for a product with any power of 2."""
    n, exponent, rest = _scale(x.at_least(_EXP_ENDS[0]).at_most(_EXP_ENDS[1]))
    return polynomial(rest, (1.0, 1.0, *_EXP)).times_power(n, exponent)


def exp_of_negative_by_scaling(x: Term) -> Term:
    """As `exp_of_negative`, likewise. Rows end with a single vector, so that what waits for itself
    is short."""
    n, exponent, rest = _scale(x.at_least(_EXP_ENDS[0]))
    square = rest * rest
    low, high = rest.times_plus(_EXP[1], _EXP[0]), rest.times_plus(_EXP[3], _EXP[2])
    near = square.times_plus(square.times_plus(_EXP[4], high), low)
    return square.times_plus(near, rest + 1.0).times_power(n, exponent)


def _scale(x: Term) -> tuple[Term, Bits, Term]:
    """The power of 2 that e^x is scaled by, as a float and as an integer, and what that leaves."""
    shifted = x.times_plus(LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    rest = n.times_plus(-_LN2_LOW, n.times_plus(-_LN2_HIGH, x))
    return n, shifted.bits() - _ROUNDER_BITS, rest


def exp_of_negative(x: Term) -> Term:
    """e to the power of an `x` that is not positive."""
    x = x.at_least(_EXP_ENDS[0])
    power, rest = _parts(x, x.number(_ROUNDER + _BIAS + EXP_PARTS_SHIFT))
    return power.times_plus(_near_zero(rest), power) * 2.0**-EXP_PARTS_SHIFT


def parts_of_half(x: Term, factors: tuple[Term, Term]) -> tuple[Term, Term]:
    """p and q of e^-((x + the product of `factors`) / 2) = 2^-64 · p · (1 + q), for an x from 0 to
    220 and a small product."""
    rounder = _ROUNDER + _BIAS + EXP_PARTS_SHIFT
    shifted = x.times_plus(-LOG2_E / 2, rounder)
    n = shifted - rounder
    rest = n.times_plus(2 * _LN2_LOW, n.times_plus(2 * _LN2_HIGH, x))
    rest = factors[0].times_plus(factors[1], rest)
    power = (shifted.bits() << _MANTISSA).floats()
    return power, rest * polynomial(rest, _EXP_OF_HALF)


def _parts(x: Term, rounder: Term) -> tuple[Term, Term]:
    """2 to the power that `rounder` holds plus n, and what n · ln 2 leaves of `x`."""
    shifted = x.times_plus(LOG2_E, rounder)
    n = shifted - rounder
    rest = n.times_plus(-_LN2_LOW, n.times_plus(-_LN2_HIGH, x))
    return (shifted.bits() << _MANTISSA).floats(), rest


def _near_zero(r: Term) -> Term:
    """e^r - 1 for |r| <= ln 2 / 2, to what is seen in e^r."""
    return (r * r).times_plus(polynomial(r, _EXP), r)


def tanh(x: Term) -> Term:
    """The hyperbolic tangent of `x`."""
    bounded = x.at_least(-_TANH_END).at_most(_TANH_END)
    rounder = x.number(_ROUNDER + _BIAS - 1)
    shifted = bounded.times_plus(2 * LOG2_E, rounder)
    # What is left of -x: no sum from here on is of zeros with different signs, so -0 gives -0.
    rest = (rounder - shifted).times_plus(-_LN2 / 2, -bounded)
    half_power = (shifted.bits() << _MANTISSA).floats()
    least, most = -(0.5 - half_power), half_power + 0.5
    one_less = (rest * rest).times_plus(polynomial(rest, _ONE_LESS_EXP), rest + rest)
    half = (-half_power).times_plus(one_less, least)
    half_and_one = (-half_power).times_plus(one_less, most)
    # h / (1 + h) as that of which the quotient is the smaller part, and its errors are.
    whole = half.at_most(1.0)
    return (-whole).times_plus(whole / half_and_one, whole)


def tanh_by_magnitude(x: Term) -> Term:
    """As `tanh`, for CPUs whose multiply-adds round twice: below zero it is then past two units."""
    return tanh(x.magnitude()).with_sign_of(x)


def sigmoid(x: Term) -> Term:
    """1 / (1 + exp(-x))."""
    one = x.number(2.0**_SIGMOID_SHIFT)
    minus = (-x).at_least(_SIGMOID_ENDS[0]).at_most(_SIGMOID_ENDS[1])
    return one / _plus_exp(one, minus, x.number(_ROUNDER + _BIAS + _SIGMOID_SHIFT))


def silu(x: Term) -> Term:
    """x / (1 + exp(-x))."""
    is_negative = x < 0.0
    rounder = is_negative.select(x.number(_ROUNDER + _BIAS + _SIGMOID_SHIFT), _ROUNDER + _BIAS)
    one = is_negative.select(x.number(2.0**_SIGMOID_SHIFT), 1.0)
    bounded = x.at_least(-_SIGMOID_ENDS[1])
    return bounded / _plus_exp(one, (-bounded).at_least(_SIGMOID_ENDS[0]), rounder) * one


def _plus_exp(one: Term, x: Term, rounder: Term) -> Term:
    """`one` · (1 + e^x), where `rounder` is for an exponent moved by that of `one`."""
    power, rest = _parts(x, rounder)
    return power.times_plus(_near_zero(rest), one) + power


def exp2_to_bf16(x: Term) -> Term:
    """2 to the power of an f32 of which 2^x is a normal number, to 2^-13 of the result; 0 for a
    power that is -127, rounded."""
    rounder = x.number(_ROUNDER + _BIAS)
    shifted = x + rounder
    rest = x - (shifted - rounder)
    power = (shifted.bits() << _MANTISSA).floats()
    return power * rest.times_plus(polynomial(rest, _EXP2_TO_BF16), 1.0)


def exp2_wide(x: Term) -> Term:
    """2 to the power of an f64, to 2^-29 of the result; |x| < 1000."""
    rounder = x.number(_WIDE_ROUNDER + _WIDE_BIAS)
    shifted = x + rounder
    rest = x - (shifted - rounder)
    power = (shifted.bits() << _WIDE_MANTISSA).floats()
    return power * rest.times_plus(polynomial(rest, _EXP2_WIDE), 1.0)


def gelu_tanh(x: Term) -> Term:
    """x · (1 + tanh(sqrt(2 / π) · (x + 0.044715 · x³))) / 2, as x / (1 + 2^t) with t in f64."""
    bounded = x.at_least(_GELU_ENDS[0])
    wide = bounded.at_most(_GELU_ENDS[1]).wide()
    slope = -_GELU_SLOPE * LOG2_E
    inner = (wide * wide).times_plus(slope * _GELU_CUBE, slope) * wide
    shifted = inner + _WIDE_ROUNDER
    rest = (inner - (shifted - _WIDE_ROUNDER)).narrow()
    is_negative = x < 0.0
    one = is_negative.select(x.number(2.0**_SIGMOID_SHIFT), 1.0)
    power = ((shifted.bits().low(x) << _MANTISSA).plus(one.bits())).floats()
    below = power.times_plus(rest * polynomial(rest, _EXP2), one) + power
    return bounded / below * one


def mish(x: Term) -> Term:
    """x · tanh(log(1 + e^x)) = x · w / (w + 2) with w = e^x · (e^x + 2), in f64."""
    wide = x.at_least(-120.0).wide()
    raised = exp2_wide(wide.at_most(_MISH_END) * LOG2_E)
    w = raised * (raised + 2.0)
    return (wide * w / (w + 2.0)).narrow()
