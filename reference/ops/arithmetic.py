"""`arith`: constants, integers that wrap, floats that round at every operation, casts.

Undefined results (a shift past the width, a cast out of range) are some value, as MLIR's poison
may be; undefined behaviour (division by zero) is an error at the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr

from convir.reference.dtypes import (
    BOOL,
    Array,
    DType,
    FloatFormat,
    constant,
    convert,
    is_float,
)
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers

if TYPE_CHECKING:
    from xdsl.ir import Operation

HANDLERS = Handlers()

Binary = Callable[[Array, Array], Any]
Unary = Callable[[Array], Any]


def unsigned(values: Array) -> Array:
    """The same bits as unsigned integers; `i1` as 0 and 1."""
    if values.dtype == BOOL:
        return values.astype(np.uint8)
    return np.asarray(values).view(np.dtype(f"u{values.dtype.itemsize}"))


def signed(values: Array) -> Array:
    """Integers as NumPy's signed ones; `i1` as 0 and -1."""
    return -values.astype(np.int8) if values.dtype == BOOL else values


def back_to(values: Any, dtype: DType) -> Array:
    """An integer result cut to `dtype`: same bits, or the lowest bit for `i1`."""
    array = np.asarray(values)
    if dtype == BOOL:
        return array if array.dtype == BOOL else (array & 1) != 0
    return array.astype(dtype, copy=False)


def binary(name: str, function: Binary) -> None:
    """Register a float operation of two operands."""

    @HANDLERS.handles(name)
    def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
        lhs, rhs = operands
        return (function(lhs, rhs),)


def unary(name: str, function: Unary) -> None:
    """Register an operation of one operand whose result has its operand's dtype."""

    @HANDLERS.handles(name)
    def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
        return (function(operands[0]),)


def integer_binary(name: str, function: Binary, view: Unary = signed) -> None:
    """Register an integer operation on its operands' bits as `view` reads them."""

    @HANDLERS.handles(name)
    def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
        lhs, rhs = operands
        return (back_to(function(view(lhs), view(rhs)), lhs.dtype),)


def division(name: str, function: Binary, view: Unary = signed) -> None:
    """Register an integer operation whose right operand must not be zero."""

    @HANDLERS.handles(name)
    def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
        lhs, rhs = operands
        if not np.all(rhs):
            raise EvaluationError(op, "divides by zero")
        return (back_to(function(view(lhs), view(rhs)), lhs.dtype),)


def shift(name: str, function: Binary, view: Unary = signed) -> None:
    """Register a shift; past the width of its type the result is a fixed value."""

    @HANDLERS.handles(name)
    def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
        lhs, rhs = operands
        width = 1 if lhs.dtype == BOOL else lhs.dtype.itemsize * 8
        amount = view(np.minimum(unsigned(rhs), width - 1).astype(lhs.dtype))
        return (back_to(function(view(lhs), amount), lhs.dtype),)


def _truncating_divide(lhs: Array, rhs: Array) -> Any:
    quotient = np.floor_divide(lhs, rhs)
    inexact = quotient * rhs != lhs
    return quotient + (inexact & ((lhs < 0) != (rhs < 0))).astype(quotient.dtype)


def _ceiling_divide(lhs: Array, rhs: Array) -> Any:
    quotient = np.floor_divide(lhs, rhs)
    return quotient + (quotient * rhs != lhs).astype(quotient.dtype)


binary("arith.addf", np.add)
binary("arith.subf", np.subtract)
binary("arith.mulf", np.multiply)
binary("arith.divf", np.divide)
binary("arith.remf", np.fmod)
binary("arith.maximumf", np.maximum)
binary("arith.minimumf", np.minimum)
binary("arith.maxnumf", np.fmax)
binary("arith.minnumf", np.fmin)
unary("arith.negf", np.negative)

integer_binary("arith.addi", np.add)
integer_binary("arith.subi", np.subtract)
integer_binary("arith.muli", np.multiply)
integer_binary("arith.andi", np.bitwise_and, np.asarray)
integer_binary("arith.ori", np.bitwise_or, np.asarray)
integer_binary("arith.xori", np.bitwise_xor, np.asarray)
integer_binary("arith.maxsi", np.maximum)
integer_binary("arith.minsi", np.minimum)
integer_binary("arith.maxui", np.maximum, unsigned)
integer_binary("arith.minui", np.minimum, unsigned)
division("arith.divsi", _truncating_divide)
division("arith.remsi", np.fmod)
division("arith.floordivsi", np.floor_divide)
division("arith.ceildivsi", _ceiling_divide)
division("arith.divui", np.floor_divide, unsigned)
division("arith.remui", np.remainder, unsigned)
division("arith.ceildivui", _ceiling_divide, unsigned)
shift("arith.shli", np.left_shift)
shift("arith.shrsi", np.right_shift)
shift("arith.shrui", np.right_shift, unsigned)

_INTEGER_PREDICATES: tuple[tuple[Binary, Unary], ...] = (
    (np.equal, signed),
    (np.not_equal, signed),
    (np.less, signed),
    (np.less_equal, signed),
    (np.greater, signed),
    (np.greater_equal, signed),
    (np.less, unsigned),
    (np.less_equal, unsigned),
    (np.greater, unsigned),
    (np.greater_equal, unsigned),
)
_ORDERED_PREDICATES: tuple[Binary, ...] = (
    lambda lhs, rhs: np.zeros(np.broadcast(lhs, rhs).shape, BOOL),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda lhs, rhs: np.not_equal(lhs, rhs),
    lambda lhs, rhs: np.ones(np.broadcast(lhs, rhs).shape, BOOL),
)
_UNORDERED_PREDICATES = (*_ORDERED_PREDICATES[1:7], _ORDERED_PREDICATES[0], _ORDERED_PREDICATES[7])
"""Each is `or unordered` of the ordered one: ueq, ugt, uge, ult, ule, une, uno, true."""


def _predicate(op: Operation) -> int:
    predicate = op.properties.get("predicate", op.attributes.get("predicate"))
    if not isinstance(predicate, IntegerAttr):
        raise EvaluationError(op, "has no predicate")
    return predicate.value.data


@HANDLERS.handles("arith.cmpi")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    function, view = _INTEGER_PREDICATES[_predicate(op)]
    lhs, rhs = operands
    return (function(view(lhs), view(rhs)),)


@HANDLERS.handles("arith.cmpf")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    lhs, rhs = operands
    unordered = np.isnan(lhs) | np.isnan(rhs)
    predicate = _predicate(op)
    if predicate < len(_ORDERED_PREDICATES):
        return (_ORDERED_PREDICATES[predicate](lhs, rhs) & ~unordered,)
    return (_UNORDERED_PREDICATES[predicate - len(_ORDERED_PREDICATES)](lhs, rhs) | unordered,)


@HANDLERS.handles("arith.select")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (np.where(operands[0], operands[1], operands[2]),)


@HANDLERS.handles("arith.constant")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    value, value_type = op.properties.get("value"), op.results[0].type
    if value is None:
        raise EvaluationError(op, "has no value")
    array = constant(value, value_type, frame.interpreter.float_format)
    if array is None:
        raise EvaluationError(
            op, f"has a value of type {value_type} that the reference cannot hold"
        )
    return (array,)


@HANDLERS.handles("arith.extf", "arith.truncf", "arith.sitofp")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (convert(signed(operands[0]), frame.dtype(op, op.results[0])),)


@HANDLERS.handles("arith.uitofp")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (convert(unsigned(operands[0]), frame.dtype(op, op.results[0])),)


@HANDLERS.handles("arith.extsi", "arith.trunci", "arith.index_cast")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (back_to(signed(operands[0]), frame.dtype(op, op.results[0])),)


@HANDLERS.handles("arith.extui", "arith.index_castui")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (back_to(unsigned(operands[0]), frame.dtype(op, op.results[0])),)


@HANDLERS.handles("arith.fptosi", "arith.fptoui")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    dtype = frame.dtype(op, op.results[0])
    wide = np.asarray(operands[0]).astype(np.float64)
    if op.name == "arith.fptoui" and dtype.itemsize == np.dtype(np.uint64).itemsize:
        return (wide.astype(np.uint64).view(dtype),)
    return (back_to(np.trunc(wide).astype(np.int64), dtype),)


@HANDLERS.handles("arith.bitcast")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source, result = op.operands[0], op.results[0]
    dtypes = tuple(frame.dtype(op, value) for value in (source, result))
    if frame.interpreter.float_format is FloatFormat.WIDE and any(map(is_float, dtypes)):
        raise EvaluationError(op, "reads the bits of a float that is held in f64")
    return (np.ascontiguousarray(operands[0]).view(dtypes[1]).reshape(operands[0].shape),)
