"""Evaluating scalar bodies on constants: what f(0) is, exactly, or that it is not known.

Only results that every implementation agrees on are given: IEEE operations rounded to their own
type, integer operations modulo their width, and elementary functions at the points where their
value is exact (`exp(0)`, `cos(0)`). Anything else is None.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, OpResult, SSAValue

from convir.analysis.values import integers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xdsl.ir import Block, Operation

Constant: TypeAlias = "FloatAttr | IntegerAttr"
"""A typed scalar; its `.value.data` is a Python number."""

Number: TypeAlias = float | int

INDEX_BITS: Final = 64

_FLOAT_TYPES: Final = (Float16Type, BFloat16Type, Float32Type, Float64Type)

# Correctly rounded in the type of the result when computed in binary64 and rounded once more:
# 53 bits are at least 2p + 2 for p = 24 (f32), 11 (f16) and 8 (bf16).
_FLOAT_BINARY: Final[dict[str, Callable[[float, float], float]]] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.maximumf": lambda a, b: max(a, b, key=_order),
    "arith.minimumf": lambda a, b: min(a, b, key=_order),
    "arith.maxnumf": lambda a, b: max(a, b, key=_order),
    "arith.minnumf": lambda a, b: min(a, b, key=_order),
}

_FLOAT_UNARY: Final[dict[str, Callable[[float], float]]] = {
    "arith.negf": operator.neg,
    "arith.extf": lambda a: a,
    "arith.truncf": lambda a: a,
    "math.absf": abs,
}

_EXACT_POINTS: Final[dict[str, dict[float, float]]] = {
    "math.exp": {0.0: 1.0},
    "math.exp2": {0.0: 1.0},
    "math.expm1": {0.0: 0.0},
    "math.log": {1.0: 0.0},
    "math.log2": {1.0: 0.0},
    "math.log10": {1.0: 0.0},
    "math.log1p": {0.0: 0.0},
    "math.sqrt": {0.0: 0.0, 1.0: 1.0},
    "math.rsqrt": {1.0: 1.0},
    "math.cbrt": {0.0: 0.0, 1.0: 1.0},
    "math.sin": {0.0: 0.0},
    "math.cos": {0.0: 1.0},
    "math.tan": {0.0: 0.0},
    "math.asin": {0.0: 0.0},
    "math.acos": {1.0: 0.0},
    "math.atan": {0.0: 0.0},
    "math.sinh": {0.0: 0.0},
    "math.cosh": {0.0: 1.0},
    "math.tanh": {0.0: 0.0},
    "math.asinh": {0.0: 0.0},
    "math.acosh": {1.0: 0.0},
    "math.atanh": {0.0: 0.0},
    "math.erf": {0.0: 0.0},
    "math.floor": {0.0: 0.0},
    "math.ceil": {0.0: 0.0},
    "math.round": {0.0: 0.0},
    "math.roundeven": {0.0: 0.0},
    "math.trunc": {0.0: 0.0},
}

# Predicates in the order of MLIR's encoding.
_CMPI: Final[tuple[Callable[[int, int], bool], ...]] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)
_CMPF: Final[tuple[Callable[[float, float], bool], ...]] = (
    operator.eq,
    operator.gt,
    operator.ge,
    operator.lt,
    operator.le,
    operator.ne,
)
_CMPI_FIRST_ORDER: Final = 2  # The unsigned predicates repeat the signed ones from here.
_CMPF_ORDERED_FIRST: Final = 1
_CMPF_UNORDERED_FIRST: Final = 8

_SIGNED_CASTS: Final = frozenset(("arith.extsi", "arith.sitofp", "arith.index_cast"))
_UNSIGNED_CASTS: Final = frozenset(("arith.extui", "arith.uitofp", "arith.index_castui"))
_OTHER: Final = frozenset(
    f"arith.{name}" for name in ("trunci", "fptosi", "fptoui", "divf", "cmpi", "cmpf")
)

EVALUATED: Final[frozenset[str]] = _OTHER.union(
    _FLOAT_BINARY, _FLOAT_UNARY, _EXACT_POINTS, _SIGNED_CASTS, _UNSIGNED_CASTS, integers.BINARY
)
"""The operations, `arith.select` aside, that `evaluate` computes from constant operands."""


def scalar_constant(value: SSAValue) -> Constant | None:
    """The attribute of the scalar `arith.constant` that defines `value`, if one does."""
    if not isinstance(value, OpResult) or not isinstance(value.op, arith.ConstantOp):
        return None
    attr = value.op.value
    return attr if isinstance(attr, FloatAttr | IntegerAttr) else None


def evaluate(block: Block, known: Mapping[SSAValue, Constant | None]) -> Constant | None:
    """The constant that `block` yields when the values in `known` are as given.

    None if the block does not yield one value, or if that is not computed from known values and
    constants alone, is NaN, or is not exact.
    """
    terminator = block.last_op
    if terminator is None or len(terminator.operands) != 1:
        return None
    numbers: dict[SSAValue, Number | None] = {
        value: None if constant is None else number_of(constant)
        for value, constant in known.items()
    }
    for op in block.ops:
        if len(op.results) == 1:
            result = op.results[0]
            numbers[result] = _rounded(_apply(op, numbers), result.type)
    (yielded,) = terminator.operands
    number = _look_up(yielded, numbers)
    return None if number is None else constant_of(number, yielded.type)


def fold(op: Operation) -> Constant | None:
    """The result of `op`, one of `EVALUATED`, if its operands are constants.

    None if one is not, or if the result is NaN, undefined, or not exact.
    """
    number = _rounded(_apply(op, {}), op.results[0].type)
    return None if number is None else constant_of(number, op.results[0].type)


def combine(name: str, a: FloatAttr, b: FloatAttr) -> Constant | None:
    """The result of the float operation `name` on two constants of one type; None if it is NaN."""
    number = _rounded(_FLOAT_BINARY[name](a.value.data, b.value.data), a.type)
    return None if number is None else constant_of(number, a.type)


def number_of(constant: Constant) -> Number:
    """The Python number in `constant`: signed, but 0 or 1 for an `i1`."""
    number = constant.value.data
    bits = bit_width(constant.type)
    return number if bits is None else _wrapped(int(number), bits)


def constant_of(number: Number, scalar_type: Attribute) -> Constant | None:
    """`number` as an attribute of `scalar_type`; None for NaN and types that are not scalars."""
    if isinstance(scalar_type, IndexType):
        return IntegerAttr.from_index_int_value(int(number))
    bits = bit_width(scalar_type)
    if bits is not None:
        return IntegerAttr(int(number), bits)
    if isinstance(scalar_type, _FLOAT_TYPES) and not math.isnan(number):
        return FloatAttr(float(number), scalar_type)
    return None


def zero_of(scalar_type: Attribute) -> Constant:
    """Zero as an attribute of `scalar_type`.

    Raises:
        TypeError: `scalar_type` is not a float, integer or index type.
    """
    zero = constant_of(0, scalar_type)
    if zero is None:
        raise TypeError(f"{scalar_type} is not a scalar type")
    return zero


def _look_up(value: SSAValue, numbers: Mapping[SSAValue, Number | None]) -> Number | None:
    """The number of a value of the block, or of a constant outside it; None if it is NaN."""
    if value in numbers:
        number = numbers[value]
    else:
        constant = scalar_constant(value)
        number = None if constant is None else number_of(constant)
    return None if number is None or math.isnan(number) else number


def _apply(op: Operation, numbers: Mapping[SSAValue, Number | None]) -> Number | None:
    constant = scalar_constant(op.results[0])
    if constant is not None:
        return number_of(constant)
    operands = [_look_up(operand, numbers) for operand in op.operands]
    match operands:
        case [int() as condition, a, b] if op.name == "arith.select":
            return a if condition else b
        case [int() | float() as a]:
            return _apply_unary(op, a)
        case [int() | float() as a, int() | float() as b]:
            return _apply_binary(op, a, b)
        case _:
            return None


def _apply_unary(op: Operation, a: Number) -> Number | None:
    if op.name in _FLOAT_UNARY:
        return _FLOAT_UNARY[op.name](a)
    if op.name in _EXACT_POINTS:
        image = _EXACT_POINTS[op.name].get(a)
        return a if image == a == 0 else image  # f(-0.0) is -0.0 wherever f(0.0) is 0.0
    if op.name in ("arith.fptosi", "arith.fptoui"):
        return _truncated(op, a)
    bits = bit_width(op.operands[0].type)
    if bits is None or not isinstance(a, int):
        return None
    if op.name in _SIGNED_CASTS:
        return integers.signed(a, bits)
    if op.name in _UNSIGNED_CASTS:
        return integers.unsigned(a, bits)
    return a if op.name == "arith.trunci" else None


def _truncated(op: Operation, a: float) -> int | None:
    """`a` towards zero, None where the integer type cannot hold it."""
    bits = bit_width(op.results[0].type)
    if bits is None or not math.isfinite(a):
        return None
    number = int(a)
    wrap = integers.signed if op.name == "arith.fptosi" else integers.unsigned
    return number if wrap(number, bits) == number else None


def _apply_binary(op: Operation, a: Number, b: Number) -> Number | None:
    if op.name in _FLOAT_BINARY:
        return _FLOAT_BINARY[op.name](a, b)
    if op.name == "arith.divf":
        return a / b if b != 0 else None
    if isinstance(op, arith.CmpfOp):
        return _compare_floats(op.predicate.value.data, a, b)
    bits = bit_width(op.operands[0].type)
    if bits is None or not isinstance(a, int) or not isinstance(b, int):
        return None
    if isinstance(op, arith.CmpiOp):
        return _compare_integers(op.predicate.value.data, a, b, bits)
    return integers.apply(op.name, a, b, bits)


def _compare_integers(predicate: int, a: int, b: int, bits: int) -> int | None:
    if predicate < len(_CMPI):
        return int(_CMPI[predicate](integers.signed(a, bits), integers.signed(b, bits)))
    predicate -= len(_CMPI) - _CMPI_FIRST_ORDER
    if predicate >= len(_CMPI):
        return None
    return int(_CMPI[predicate](integers.unsigned(a, bits), integers.unsigned(b, bits)))


def _compare_floats(predicate: int, a: float, b: float) -> int | None:
    """Ordered and unordered predicates agree, as neither operand is NaN."""
    for first in (_CMPF_ORDERED_FIRST, _CMPF_UNORDERED_FIRST):
        if first <= predicate < first + len(_CMPF):
            return int(_CMPF[predicate - first](a, b))
    return None


def _order(a: float) -> tuple[float, float]:
    """Orders -0.0 below 0.0."""
    return a, math.copysign(1.0, a)


def _rounded(number: Number | None, scalar_type: Attribute) -> Number | None:
    """`number` as a value of `scalar_type`: floats rounded to nearest, integers wrapped."""
    if number is None:
        return None
    bits = bit_width(scalar_type)
    if bits is not None:
        return _wrapped(int(number), bits)
    if not isinstance(scalar_type, _FLOAT_TYPES):
        return None
    if isinstance(number, int) and float(number) != number:
        return None  # Rounding to binary64 first could round twice.
    try:
        return FloatAttr(float(number), scalar_type).value.data
    except OverflowError:
        return None


def _wrapped(number: int, bits: int) -> int:
    """Wrap to two's complement of `bits` bits; an `i1` keeps 0 and 1."""
    return integers.unsigned(number, bits) if bits == 1 else integers.signed(number, bits)


def bit_width(scalar_type: Attribute) -> int | None:
    """The width of an integer or index type in bits, None for other types."""
    if isinstance(scalar_type, IndexType):
        return INDEX_BITS
    if not isinstance(scalar_type, IntegerType):
        return None
    return cast("IntegerType", scalar_type).width.data
