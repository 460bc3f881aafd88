"""Gemm and MatMul: contractions with linalg's maps, batch dimensions broadcast without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import rounded, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

    Operand = tuple[SSAValue, Sequence[AffineExpr]]


def multiply_add(
    call: Call, operands: Sequence[Operand], out: Sequence[int], num_reduction: int
) -> SSAValue:
    """The sum of products over the last loops; `out` are the sizes of the first ones.

    f16 and bf16 are widened, summed in f32 and rounded once.
    """
    element = element_of(operands[0][0])
    if not isinstance(element, AnyFloat) or element_of(operands[1][0]) != element:
        types = " and ".join(str(element_of(value)) for value, _ in operands)
        raise call.error(f"is not supported on elements of type {types}")
    wide = wide_of(element)
    rank = len(out)

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        left, right = (widened(scalars, arg, wide) for arg in args[:2])
        return scalars.insert(arith.AddfOp(args[2], scalars.insert(arith.MulfOp(left, right))))

    init = call.emit.filled(0, out, wide)
    identity = [AffineExpr.dimension(loop) for loop in range(rank)]
    total = call.emit.generic(operands, (init, identity), rank, num_reduction, body)
    if wide == element:
        return total
    return call.emit.elementwise(
        [total], lambda scalars, args: rounded(scalars, args[0], element), element
    )


def _gemm(call: Call) -> Sequence[SSAValue]:
    a, b = call.input(0), call.input(1)
    for operand in (a, b):
        if len(shape_of(operand)) != 2:
            raise call.error(f"its operands are matrices, not {operand.type}")
    call.attribute("broadcast", 1)  # Old versions ask for what later ones always do.
    flipped = [bool(call.attribute(name, 0)) for name in ("transA", "transB")]
    m, k = shape_of(a)[::-1] if flipped[0] else shape_of(a)
    k_of_b, n = shape_of(b)[::-1] if flipped[1] else shape_of(b)
    if k != k_of_b:
        raise call.error(f"its operands have {k} columns and {k_of_b} rows")
    row, column, depth = (AffineExpr.dimension(loop) for loop in range(3))
    maps = [[row, depth], [depth, column]]
    ordered = [exprs[::-1] if flip else exprs for exprs, flip in zip(maps, flipped, strict=True)]
    product = multiply_add(call, [(a, ordered[0]), (b, ordered[1])], (m, n), 1)
    product = _scaled(call, product, float(call.attribute("alpha", 1.0)))
    beta = float(call.attribute("beta", 1.0))
    if not call.has(2) or beta == 0:
        return [product]
    summand = _scaled(call, call.input(2), beta)
    return [
        call.emit.elementwise(
            [product, summand], lambda body, args: body.insert(arith.AddfOp(args[0], args[1]))
        )
    ]


def _scaled(call: Call, value: SSAValue, factor: float) -> SSAValue:
    if factor == 1:
        return value
    return call.emit.elementwise(
        [value],
        lambda body, args: body.insert(arith.MulfOp(args[0], body.number(factor, args[0].type))),
    )


def _matmul(call: Call) -> Sequence[SSAValue]:
    """NumPy's matmul: vectors are given a dimension, and batch dimensions broadcast."""
    a, b = call.input(0), call.input(1)
    if not shape_of(a) or not shape_of(b):
        raise call.error("a scalar has no matrix product")
    is_row, is_column = len(shape_of(a)) == 1, len(shape_of(b)) == 1
    a = call.emit.reshape(a, (1, *shape_of(a))) if is_row else a
    b = call.emit.reshape(b, (*shape_of(b), 1)) if is_column else b
    (m, k), (k_of_b, n) = shape_of(a)[-2:], shape_of(b)[-2:]
    if k != k_of_b:
        raise call.error(f"its operands have {k} columns and {k_of_b} rows")
    batch = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    row, column, depth = (AffineExpr.dimension(len(batch) + loop) for loop in range(3))
    operands = [
        _over_batch(call, a, batch, (row, depth)),
        _over_batch(call, b, batch, (depth, column)),
    ]
    product = multiply_add(call, operands, (*batch, m, n), 1)
    kept = (*batch, *([] if is_row else [m]), *([] if is_column else [n]))
    return [call.emit.reshape(product, kept)]


def _over_batch(
    call: Call, value: SSAValue, batch: Sequence[int], matrix: Sequence[AffineExpr]
) -> Operand:
    """An operand and its map; a batch dimension of 1 that is shared is dropped."""
    sizes = shape_of(value)[:-2]
    first = len(batch) - len(sizes)
    kept = [dim for dim, size in enumerate(sizes) if size == batch[first + dim]]
    value = call.emit.reshape(value, [*(sizes[dim] for dim in kept), *shape_of(value)[-2:]])
    return value, [*(AffineExpr.dimension(first + dim) for dim in kept), *matrix]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
}
