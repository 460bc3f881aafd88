"""Multiply-add nests as matrix products: strided windows, then BLAS.

A nest `out += cast(a) * cast(b)` has loops of four kinds, by which operands they index:

    batch  a, b and out      m  a and out      n  b and out      k  a and b, or a reduction

Whatever the layout, the grouping and the windows, it is then a batch of (m, k) x (k, n) products
of the operands' loop views, computed and accumulated in the type of the body's addition. The
copies that BLAS needs (im2col, for a window) are cut to the interpreter's workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import OpResult

from convir.reference.dtypes import (
    BOOL,
    FLOAT64,
    Array,
    DType,
    convert,
    is_float,
    is_narrow_float,
)
from convir.reference.loops import LoopRange, loop_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.ir import BlockArgument, Operation, SSAValue

    from convir.reference.ops.nest import Nest

VALUE_PRESERVING_CASTS = frozenset({"arith.extf", "arith.extsi"})
_ADDITIONS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}
_EXACT_INTEGERS_IN_F64 = 1 << 53


@dataclass(frozen=True)
class MultiplyAdd:
    """A body `yield out + cast(lhs) * cast(rhs)`: which inputs are multiplied, in which op."""

    lhs: int
    rhs: int
    """Positions among the inputs; the same one for a sum of squares."""
    multiplication: Operation
    addition: Operation


def multiply_add(nest: Nest) -> MultiplyAdd | None:
    """The product that `nest` sums, or None if its body is any other."""
    if len(nest.inits) != 1 or not nest.reduction_loops:
        return None
    addition = _producer(nest.yielded[0])
    (accumulator,) = nest.init_arguments
    if addition is None or addition.name not in _ADDITIONS:
        return None
    added = [operand for operand in addition.operands if operand is not accumulator]
    if len(added) != 1 or accumulator.has_more_than_one_use():
        return None
    multiplication = _producer(added[0])
    if multiplication is None or multiplication.name != _ADDITIONS[addition.name]:
        return None
    factors = [_input_behind(operand, nest.input_arguments) for operand in multiplication.operands]
    lhs, rhs = factors
    if lhs is None or rhs is None:
        return None
    # NumPy adds booleans by `or`, and extends them to 1, not to -1.
    if BOOL in {array.dtype for array in (nest.inits[0], nest.inputs[lhs], nest.inputs[rhs])}:
        return None
    return MultiplyAdd(lhs, rhs, multiplication, addition)


def _producer(value: SSAValue) -> Operation | None:
    return value.op if isinstance(value, OpResult) else None


def _input_behind(value: SSAValue, arguments: Sequence[BlockArgument]) -> int | None:
    producer = _producer(value)
    while producer is not None and producer.name in VALUE_PRESERVING_CASTS:
        value = producer.operands[0]
        producer = _producer(value)
    return next((i for i, argument in enumerate(arguments) if argument is value), None)


def is_blas_shaped(nest: Nest, dtype: DType) -> bool:
    """Whether the sum may be left to BLAS: not if every step rounds to a 16-bit float."""
    return not is_narrow_float(dtype) and nest.is_reduction


def accumulate_products(nest: Nest, plan: MultiplyAdd, result: Array) -> None:
    """Add the products of `nest` to `result`, which holds the init."""
    (target,) = nest.writable((result,))
    lhs, rhs = (_operand(nest, position, result.dtype) for position in (plan.lhs, plan.rhs))
    limit = max(1, nest.frame.interpreter.workspace_bytes // result.dtype.itemsize)
    for box in _cut(nest.loops, (lhs, rhs, target), limit):
        part = box.of(target)
        part += _product(box.of(lhs), box.of(rhs), part, box).astype(result.dtype, copy=False)


def _operand(nest: Nest, position: int, dtype: DType) -> Array:
    """An input over the loops, in the type that is multiplied in."""
    array = convert(nest.inputs[position], dtype)
    return loop_view(nest.op, array, nest.maps[position], nest.bounds)


def _cut(box: LoopRange, operands: Sequence[Array], limit: int) -> Iterator[LoopRange]:
    """Boxes of which no operand's part has more than `limit` elements, cut outermost loop first."""
    for view in operands:
        size = box.of(view).size
        if size <= limit:
            continue
        loop = next(
            d for d, (n, m) in enumerate(zip(view.shape, box.sizes, strict=True)) if min(n, m) > 1
        )
        for part in box.steps(loop, max(1, box.sizes[loop] * limit // size)):
            yield from _cut(part, operands, limit)
        return
    yield box


def _product(lhs: Array, rhs: Array, target: Array, box: LoopRange) -> Array:
    """The sum of lhs * rhs over the loops that `target` lacks, as an array over the loops."""
    loops = [loop for loop, size in enumerate(box.sizes) if size > 1]
    out = [loop for loop in loops if target.shape[loop] > 1]
    batch = [loop for loop in out if (lhs.shape[loop] > 1) == (rhs.shape[loop] > 1)]
    rows = [loop for loop in out if loop not in batch and lhs.shape[loop] > 1]
    columns = [loop for loop in out if loop not in batch and rhs.shape[loop] > 1]
    summed = [loop for loop in loops if loop not in out]
    left = _matrices(lhs, box, batch, rows, summed)
    right = _matrices(rhs, box, batch, summed, columns)
    product = _multiply(left, right)
    order = [*batch, *rows, *columns]
    sizes = [box.sizes[loop] for loop in order]
    absent = [loop for loop in range(len(box.sizes)) if loop not in order]
    spread = product.reshape(*sizes, *([1] * len(absent)))
    return spread.transpose(np.argsort([*order, *absent]))


def _matrices(
    view: Array, box: LoopRange, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Array:
    """The part of an operand as (batch, rows, columns), laid out as BLAS wants it."""
    sizes = box.sizes
    order = [*batch, *rows, *columns]
    absent = [loop for loop in range(view.ndim) if loop not in order]
    full = [sizes[loop] if loop in order else 1 for loop in range(view.ndim)]
    moved = np.broadcast_to(view, full).transpose(*order, *absent)
    shape = [prod(sizes[loop] for loop in group) for group in (batch, rows, columns)]
    matrices = moved.reshape(shape)
    return matrices if _has_blas_strides(matrices) else np.ascontiguousarray(matrices)


def _has_blas_strides(matrices: Array) -> bool:
    item = matrices.itemsize
    row, column = matrices.strides[-2:]
    by_rows = column == item and row >= item * matrices.shape[-1]
    by_columns = row == item and column >= item * matrices.shape[-2]
    return by_rows or by_columns


def _multiply(lhs: Array, rhs: Array) -> Array:
    """`lhs @ rhs`; integers by way of f64 where no sum can be inexact, as BLAS has no integers."""
    if is_float(lhs.dtype) or lhs.size == 0 or rhs.size == 0:
        return np.matmul(lhs, rhs)
    largest = float(_magnitude(lhs)) * float(_magnitude(rhs)) * lhs.shape[-1]
    if largest >= _EXACT_INTEGERS_IN_F64:
        return np.matmul(lhs, rhs)
    return np.matmul(lhs.astype(FLOAT64), rhs.astype(FLOAT64)).astype(np.int64)


def _magnitude(values: Array) -> int:
    return max(int(values.max()), -int(values.min()))
