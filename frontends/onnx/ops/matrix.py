"""Gemm, MatMul and Einsum: contractions, whose batch dimensions broadcast without copies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import rounded, scaled, widened
from convir.frontends.tensor_functions.contraction import einsum, multiply_add

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.dialects.builtin import AnyFloat
    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

    Operand = tuple[SSAValue, Sequence[AffineExpr]]


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
    product = multiply_add(call.emit, [(a, ordered[0]), (b, ordered[1])], (m, n))
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
    a, b = call.floats(0, 1)
    return [matrix_product(call, a, b, element_of(a))]


def matrix_product(call: Call, a: SSAValue, b: SSAValue, element: AnyFloat) -> SSAValue:
    """NumPy's matmul, rounded to `element`: vectors are given a dimension, and batch dimensions
    broadcast.

    Raises:
        OnnxError: the operands of the node do not fit.
    """
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
    product = call.converted(multiply_add(call.emit, operands, (*batch, m, n)), element)
    kept = (*batch, *([] if is_row else [m]), *([] if is_column else [n]))
    return call.emit.reshape(product, kept)


def _over_batch(
    call: Call, value: SSAValue, batch: Sequence[int], matrix: Sequence[AffineExpr]
) -> Operand:
    """An operand and its map; a batch dimension of 1 that is shared is dropped."""
    sizes = shape_of(value)[:-2]
    first = len(batch) - len(sizes)
    kept = [dim for dim, size in enumerate(sizes) if size == batch[first + dim]]
    value = call.emit.reshape(value, [*(sizes[dim] for dim in kept), *shape_of(value)[-2:]])
    return value, [*(AffineExpr.dimension(first + dim) for dim in kept), *matrix]


_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
"""The labels of an operand, and where dimensions without labels are."""


def _einsum(call: Call) -> Sequence[SSAValue]:
    operands = call.alike(*range(len(call.node.inputs)))
    equation = str(call.attribute("equation")).replace(" ", "")
    given, arrow, wanted = equation.partition("->")
    terms = given.split(",")
    if len(terms) != len(operands) or not all(map(_TERM.fullmatch, [*terms, wanted])):
        raise call.error(f"'{equation}' is no equation of {len(operands)} operands")
    labels = [
        _labels(call, term, len(shape_of(operand)))
        for term, operand in zip(terms, operands, strict=True)
    ]
    every = [label for operand in labels for label in operand]
    # Dimensions without a label count from the last one, which is "0".
    unnamed = sorted({label for label in every if label.isdigit()}, key=int, reverse=True)
    if arrow:
        before, dots, after = wanted.partition("...")
        output = [*before, *(unnamed if dots else []), *after]
    else:
        output = [*unnamed, *sorted(x for x in set(every) if every.count(x) == 1 and x.isalpha())]
    if len(set(output)) < len(output):
        raise call.error(f"'{equation}' names a dimension of its result twice")
    return [einsum(call.emit, operands, labels, output)]


def _labels(call: Call, term: str, rank: int) -> list[str]:
    """The label of each dimension of an operand; a number, from the last one, if it has none."""
    before, dots, after = term.partition("...")
    rest = rank - len(before) - len(after)
    if rest < 0 or (rest and not dots):
        raise call.error(f"'{term}' are not the labels of {rank} dimensions")
    return [*before, *(str(number) for number in reversed(range(rest))), *after]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
