"""The error function, and gelu, which is the distribution of a normal variable times the variable.

erf    the larger of |x| + |x| · P(x²), which is too small beyond 1.2, and 1 - Q(|x|)⁴, which is
       too small below 1.19
gelu   x · h or x · (1 - h) with h = erfc(|x| / sqrt 2) / 2 = 2^(-x² · log2 e / 2) · P(u) at
       u = 1 / (1 + 0.3 · |x|), in f64: neither loses what small values of h have
       to bf16: h = 2^R(|x|), relative to 2^-12, or to 2^-30 of 1 where gelu is small
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.lowering.kernels.host.vector_functions.exponential import (
    EXP_PARTS_SHIFT,
    exp2_to_bf16,
    parts_of_half,
)
from convir.lowering.kernels.host.vector_functions.term import polynomial

if TYPE_CHECKING:
    from convir.lowering.kernels.host.vector_functions.term import Term

_ERF_NEAR = (
    0.12837916612625122, -0.37612631916999817, 0.1128370612859726, -0.026861920952796936,
    0.005212902557104826, -0.0008383461972698569, 0.00010632109479047358, -8.071161573752761e-06,
)  # fmt: skip
_ERF_FAR = (
    1.0062720775604248, -0.3117915689945221, -0.05850828066468239, -0.05486783757805824,
    0.06842749565839767, -0.022926192730665207, 0.003354204585775733, -0.00018798137898556888,
)  # fmt: skip
_GELU_SLOPE = (
    0.7037772536277771, 2.3519692420959473,
)  # fmt: skip

_GELU_TAIL = (
    0.09974578768014908, 0.09953149408102036, 0.09520812332630157, 0.07336988300085068,
    0.08285646885633469, 0.019525514915585518, 0.020523764193058014, 0.0574009008705616,
    -0.06516777724027634, 0.01700584404170513,
)  # fmt: skip
_GELU_TO_BF16 = (
    -1.000213861465454, -1.1479672193527222, -0.4665662348270416, -0.04654252529144287,
    0.005355844274163246, -0.0002752061700448394,
)  # fmt: skip
_ERF_END = 4.0
"""Beyond, erf is 1 in f32."""
_GELU_END = 14.6
"""Beyond, gelu is x or 0 in f32."""
_GELU_TO_BF16_END = 12.292
"""There R is -127, a power of 2 that comes out as 0."""
_UPPER_HALF = -4096
"""The sign, the exponent, and 12 bits of the mantissa."""


def erf(x: Term) -> Term:
    """The error function of `x`."""
    magnitude = x.magnitude().at_most(_ERF_END)
    near = magnitude.times_plus(polynomial(magnitude * magnitude, _ERF_NEAR), magnitude)
    root = polynomial(magnitude, _ERF_FAR)
    square = root * root
    return near.at_least((-square).times_plus(square, 1.0)).signed_as(x)


def gelu(x: Term) -> Term:
    """x · (1 + erf(x / sqrt 2)) / 2."""
    magnitude = x.magnitude().at_most(_GELU_END)
    # x² as two numbers: the square of the upper half of the bits is exact.
    high = (magnitude.bits() & _UPPER_HALF).floats()
    power, near = parts_of_half(high * high, (magnitude - high, magnitude + high))
    # u, and what is lost relative to it, in the sum of its divisor and in the quotient together.
    quarter = magnitude * 0.25
    u = 1.0 / (quarter + 1.0)
    lost = (-u).times_plus_once(quarter, 1.0 - u)
    near = polynomial(u, _GELU_SLOPE).times_plus(lost, near)
    tail = magnitude * u * polynomial(u, _GELU_TAIL)
    tail = tail.times_plus(near, tail) * power
    return tail.times_plus(-(2.0**-EXP_PARTS_SHIFT), x.at_least(0.0)).with_sign_of(x)


def gelu_to_bf16(x: Term) -> Term:
    """The same, of which a bf16 is kept."""
    magnitude = x.magnitude().at_most(_GELU_TO_BF16_END)
    half = exp2_to_bf16(polynomial(magnitude, _GELU_TO_BF16))
    return (-magnitude).times_plus(half, x.at_least(0.0)).with_sign_of(x)
