"""Integer arithmetic of the `arith` dialect on two constants: modulo the width, or not defined."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_WRAPPING: Final[dict[str, Callable[[int, int], int]]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
}
_SIGNED: Final[dict[str, Callable[[int, int], int]]] = {
    "arith.maxsi": max,
    "arith.minsi": min,
}
_UNSIGNED: Final[dict[str, Callable[[int, int], int]]] = {
    "arith.maxui": max,
    "arith.minui": min,
}
_SIGNED_DIVISION: Final[dict[str, Callable[[int, int], int]]] = {
    "arith.divsi": lambda a, b: _quotient(a, b),
    "arith.remsi": lambda a, b: a - _quotient(a, b) * b,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.floordivsi": lambda a, b: a // b,
}
_UNSIGNED_DIVISION: Final[dict[str, Callable[[int, int], int]]] = {
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
    "arith.ceildivui": lambda a, b: -(-a // b),
}
_SHIFTS: Final = frozenset(("arith.shli", "arith.shrsi", "arith.shrui"))

BINARY: Final[frozenset[str]] = _SHIFTS.union(
    _WRAPPING, _SIGNED, _UNSIGNED, _SIGNED_DIVISION, _UNSIGNED_DIVISION
)
"""The operations that `apply` knows."""


def apply(name: str, a: int, b: int, bits: int) -> int | None:
    """The result of operation `name` on two integers of `bits` bits, equal to it modulo 2**bits.

    None where it is undefined or poison: a division by zero, a quotient that does not fit, a shift
    by the width or more.
    """
    if name in _WRAPPING:
        return _WRAPPING[name](a, b)
    if name in _SIGNED:
        return _SIGNED[name](signed(a, bits), signed(b, bits))
    unsigned_a, unsigned_b = unsigned(a, bits), unsigned(b, bits)
    if name in _UNSIGNED:
        return _UNSIGNED[name](unsigned_a, unsigned_b)
    if name in _SHIFTS:
        return _shift(name, a, unsigned_b, bits) if unsigned_b < bits else None
    if unsigned_b == 0:
        return None
    if name in _UNSIGNED_DIVISION:
        return _UNSIGNED_DIVISION[name](unsigned_a, unsigned_b)
    if name not in _SIGNED_DIVISION or (signed(b, bits) == -1 and unsigned_a == 1 << (bits - 1)):
        return None
    return _SIGNED_DIVISION[name](signed(a, bits), signed(b, bits))


def signed(number: int, bits: int) -> int:
    """`number` as a two's complement integer of `bits` bits; the bit of an `i1` is 0 or -1."""
    return unsigned(number + (1 << (bits - 1)), bits) - (1 << (bits - 1))


def unsigned(number: int, bits: int) -> int:
    """`number` modulo 2**bits."""
    return number & ((1 << bits) - 1)


def _shift(name: str, a: int, amount: int, bits: int) -> int:
    if name == "arith.shli":
        return a << amount
    return (signed(a, bits) if name == "arith.shrsi" else unsigned(a, bits)) >> amount


def _quotient(a: int, b: int) -> int:
    """The quotient rounded towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient
