"""Gemm and MatMul: contractions with linalg's maps, batch dimensions broadcast without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import rounded, scaled, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

    Operand = tuple[SSAValue, Sequence[AffineExpr]]


def _multiply_add(call: Call, operands: Sequence[Operand], out: Sequence[int]) -> SSAValue:
    """The sum of products over the last loop; `out` are the sizes of the other ones.

    Of f16 and bf16 it is f32, which nothing rounded yet.
    """
    wide = wide_of(element_of(operands[0][0]))
    rank = len(out)

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        left, right = (widened(scalars, arg, wide) for arg in args[:2])
        return scalars.insert(arith.AddfOp(args[2], scalars.insert(arith.MulfOp(left, right))))

    init = call.emit.filled(0, out, wide)
    identity = [AffineExpr.dimension(loop) for loop in range(rank)]
    return call.emit.generic(operands, (init, identity), rank, 1, body)


def _gemm(call: Call) -> Sequence[SSAValue]:
    a, b = call.floats(0, 1)
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
    product = _multiply_add(call, [(a, ordered[0]), (b, ordered[1])], (m, n))
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    summands = [call.floats(0, 2)[1]] if call.has(2) and beta != 0 else []
    element, wide = element_of(a), element_of(product)
    if wide == element and alpha == 1 and not summands:
        return [product]

    def finished(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = scaled(body, args[0], alpha)
        for summand in args[1:]:
            term = scaled(body, widened(body, summand, wide), beta)
            total = body.insert(arith.AddfOp(total, term))
        return rounded(body, total, element)

    result = call.emit.elementwise([product, *summands], finished, element)
    return [call.shaped(result, (m, n), "its result")]


def _matmul(call: Call) -> Sequence[SSAValue]:
    """NumPy's matmul: vectors are given a dimension, and batch dimensions broadcast."""
    a, b = call.floats(0, 1)
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
    product = call.converted(_multiply_add(call, operands, (*batch, m, n)), element_of(a))
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
