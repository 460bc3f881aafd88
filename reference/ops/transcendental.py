"""`math`: elementary functions, rounded to the type of their operand."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Chebyshev

from convir.reference.dtypes import BOOL, FLOAT64, Array, convert
from convir.reference.interpreter import Frame, Handlers
from convir.reference.ops.arithmetic import back_to, binary, integer_binary, unary, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

HANDLERS = Handlers()

_ERF_PIECES = 6
"""erf is 1 in f64 from 6 on; below, one polynomial per unit interval."""
_ERF_DEGREE = 18


def through_f64(function: Callable[[Array], Any]) -> Callable[[Array], Array]:
    """`function` computed in f64 and rounded to its operand's type."""
    return lambda values: convert(np.asarray(function(values.astype(FLOAT64))), values.dtype)


@cache
def _erf_pieces() -> tuple[Chebyshev, ...]:
    """erf(x) / x on [0, 1], then 1 - erf(x) on each unit interval: small where erf is not."""

    def ratio(points: Array) -> Array:
        return np.array([math.erf(point) / point for point in points])

    def complement(points: Array) -> Array:
        return np.array([math.erfc(point) for point in points])

    return tuple(
        Chebyshev.interpolate(
            complement if piece else ratio, _ERF_DEGREE, domain=[piece, piece + 1]
        )
        for piece in range(_ERF_PIECES)
    )


def erf(values: Array) -> Array:
    """The error function of f64 values, to within 5e-15 of the value."""
    magnitude = np.abs(values)
    result = np.ones_like(magnitude)
    for piece, polynomial in enumerate(_erf_pieces()):
        inside = (magnitude >= piece) & (magnitude < piece + 1)
        points = np.where(inside, magnitude, piece)
        found = 1.0 - polynomial(points) if piece else points * polynomial(points)
        result = np.where(inside, found, result)
    return np.where(np.isnan(values), values, np.copysign(result, values))


def _rsqrt(values: Array) -> Any:
    return 1.0 / np.sqrt(values)


def _round_half_away(values: Array) -> Any:
    whole = np.trunc(values)
    return whole + np.copysign((np.abs(values - whole) >= 0.5).astype(values.dtype), values)


unary("math.absf", np.abs)
unary("math.ceil", np.ceil)
unary("math.floor", np.floor)
unary("math.trunc", np.trunc)
unary("math.roundeven", np.rint)
unary("math.round", _round_half_away)
unary("math.sqrt", np.sqrt)
unary("math.rsqrt", through_f64(_rsqrt))
unary("math.exp", np.exp)
unary("math.exp2", np.exp2)
unary("math.expm1", np.expm1)
unary("math.log", np.log)
unary("math.log2", np.log2)
unary("math.log10", np.log10)
unary("math.log1p", np.log1p)
unary("math.sin", np.sin)
unary("math.cos", np.cos)
unary("math.tan", np.tan)
unary("math.asin", np.arcsin)
unary("math.acos", np.arccos)
unary("math.atan", np.arctan)
unary("math.sinh", np.sinh)
unary("math.cosh", np.cosh)
unary("math.tanh", np.tanh)
unary("math.asinh", np.arcsinh)
unary("math.acosh", np.arccosh)
unary("math.atanh", np.arctanh)
unary("math.cbrt", np.cbrt)
unary("math.erf", through_f64(erf))
unary("math.absi", lambda values: values if values.dtype == BOOL else np.abs(values))
binary("math.atan2", np.arctan2)
binary("math.copysign", np.copysign)
binary("math.powf", np.power)


def _two_product_error(lhs: Array, rhs: Array, product: Array) -> Array:
    """What `product` = lhs * rhs lost, exactly (Dekker's splitting, f64)."""
    splitter = float((1 << 27) + 1)
    lhs_high = lhs * splitter - (lhs * splitter - lhs)
    rhs_high = rhs * splitter - (rhs * splitter - rhs)
    lhs_low, rhs_low = lhs - lhs_high, rhs - rhs_high
    return ((lhs_high * rhs_high - product) + lhs_high * rhs_low + lhs_low * rhs_high) + (
        lhs_low * rhs_low
    )


@HANDLERS.handles("math.fma")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    lhs, rhs, addend = (values.astype(FLOAT64) for values in operands)
    product = lhs * rhs
    total = product + addend
    tail = total - product
    lost = (product - (total - tail)) + (addend - tail)
    if operands[0].dtype == FLOAT64:
        lost = lost + _two_product_error(lhs, rhs, product)
    if operands[0].dtype == FLOAT64:
        return (np.where(np.isfinite(lost), total + lost, total),)
    # An odd last bit says that something is lost, so that rounding once more invents no tie.
    is_even = (np.asarray(total).view(np.int64) & 1) == 0
    odd = np.where(
        is_even & (lost != 0) & np.isfinite(lost), np.nextafter(total, lost * np.inf), total
    )
    return (convert(odd, operands[0].dtype),)


@HANDLERS.handles("math.fpowi")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    base, exponent = operands
    return (convert(np.power(base.astype(FLOAT64), exponent), base.dtype),)


def _integer_power(base: Array, exponent: Array) -> Array:
    result = np.ones(np.broadcast(base, exponent).shape, base.dtype)
    remaining, square = np.maximum(exponent, 0), base
    while np.any(remaining):
        result = np.where(remaining & 1, result * square, result)
        square, remaining = square * square, remaining >> 1
    unit = (base == 1) | ((base == -1) & (exponent & 1 == 0))
    inverse = np.where(unit, 1, np.where(base == -1, -1, 0)).astype(base.dtype)
    return np.where(exponent < 0, inverse, result)


integer_binary("math.ipowi", _integer_power)


def _bit_count(values: Array) -> Array:
    return np.bitwise_count(unsigned(values))


def _leading_zeros(values: Array) -> Array:
    bits, width = unsigned(values), _width(values)
    for distance in (1, 2, 4, 8, 16, 32):
        if distance < width:
            bits = bits | (bits >> distance)
    return width - np.bitwise_count(bits)


def _trailing_zeros(values: Array) -> Array:
    bits = unsigned(values)
    lowest = bits & (~bits + np.ones((), bits.dtype))
    return np.where(bits == 0, _width(values), np.bitwise_count(lowest - np.ones((), bits.dtype)))


def _width(values: Array) -> int:
    return 1 if values.dtype == BOOL else values.dtype.itemsize * 8


def _counting(name: str, function: Callable[[Array], Array]) -> None:
    unary(name, lambda values: back_to(function(values), values.dtype))


_counting("math.ctpop", _bit_count)
_counting("math.ctlz", _leading_zeros)
_counting("math.cttz", _trailing_zeros)
