"""Sine and cosine: x = n · π/2 + r, and polynomials of r².

x · 2/π is wanted to some 55 bits behind the point, also where it has a hundred before it. Large
numbers are scaled by a power of 2 to whole ones below 2^49, and of 2/π times that power only what
is left of whole turns is multiplied, in f64: pieces of 29 bits have exact products with an f32, and
the whole part of each product is dropped before they are summed.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.vector_functions.term import polynomial

if TYPE_CHECKING:
    from convir.lowering.kernels.host.vector_functions.term import Bits, Term

_SIN = (
    -0.16666655242443085, 0.008332191966474056, -0.0001951878803083673,
)  # fmt: skip
_COS = (
    -0.5, 0.0416666604578495, -0.0013887932291254401, 2.4495077013853006e-05,
)  # fmt: skip
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0
_TWO_OVER_PI_BITS = 320
_HALF_PI = 1.5707963267948966
_ENDS = (50, 76, 102)
"""Powers of 2 at which the scale changes."""
_MANTISSA = 23
_PIECE_BITS = 29
_WIDE_ROUNDER = 6755399441055744.0
"""1.5 · 2^52: adding it to a whole number leaves the number in the last bits."""


@cache
def _pieces(power: int) -> tuple[float, float, float]:
    """2/π · 2^power modulo 4, as a sum, largest first; the last piece is rounded."""
    left = Fraction(_TWO_OVER_PI << power, 1 << _TWO_OVER_PI_BITS) % 4
    unit = Fraction(4, 1 << _PIECE_BITS)
    high = left // unit * unit
    left -= high
    unit /= 1 << _PIECE_BITS
    middle = left // unit * unit
    return float(high), float(middle), float(left - middle)


def _reduced(x: Term) -> tuple[Bits, Term]:
    """n, of which the two lowest bits count, and r; |r| <= π/4."""
    wide = x.wide()
    magnitude = wide.magnitude()
    scale = wide.number(1.0)
    pieces = [wide.number(piece) for piece in _pieces(0)]
    for end in _ENDS:
        is_larger = magnitude >= 2.0**end
        power = end - _MANTISSA
        scale = is_larger.select(wide.number(2.0**-power), scale)
        pieces = [
            is_larger.select(wide.number(piece), other)
            for piece, other in zip(_pieces(power), pieces, strict=True)
        ]
    wide = wide * scale
    high, middle = wide * pieces[0], wide * pieces[1]
    whole_high, whole_middle = high.whole(), middle.whole()
    fraction = (high - whole_high) + (middle - whole_middle)
    whole = fraction.whole()
    fraction = wide.times_plus(pieces[2], fraction - whole)
    whole = whole_high + whole_middle + whole
    return (whole + _WIDE_ROUNDER).bits().low(x), (fraction * _HALF_PI).narrow()


def sin(x: Term) -> Term:
    """The sine of `x` radians."""
    n, r = _reduced(x)
    return x.compare("oeq", 0.0).select(x, _wave(n, r))


def cos(x: Term) -> Term:
    """The cosine of `x` radians."""
    n, r = _reduced(x)
    return _wave(n + 1, r)


def _wave(n: Bits, r: Term) -> Term:
    """sin(n · π/2 + r)."""
    square = r * r
    sine = (r * square).times_plus(polynomial(square, _SIN), r)
    cosine = square.times_plus(polynomial(square, _COS), 1.0)
    value = (n & 1).is_not(0).select(cosine, sine)
    return value.bits().differing((n & 2) << 30).floats()
