"""A tensor with other elements at indices that a table has, or that are computed.

Each element of the result finds the update that is its own: through a table of updates where all
is known, or by looking at each. Of updates of one place the last one counts, or all are combined.
A computed index that lies outside has no place, and its update none either.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, IndexType, i64
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import cast_scalar, compared, rounded, wide_of, widened
from convir.frontends.tensor_functions.gather import components, from_start, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.emitter import Emitter, ScalarBuilder

NO_UPDATE = -1
"""In a table of updates: the place keeps its element."""

_COMBINED: Mapping[str, tuple[Callable[..., Operation], Callable[..., Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
    "mul": (arith.MulfOp, arith.MuliOp),
}
"""The op on floats, and on signed integers."""

REDUCTIONS = ("none", *_COMBINED)
"""What becomes of an element and its update."""


def scattered_nd(
    emit: Emitter, x: SSAValue, indices: SSAValue | Array, updates: SSAValue, reduction: str
) -> SSAValue:
    """`x` with the rows of `updates` at the indices along the last dimension of `indices`.

    Args:
        emit: where ops go.
        x: a tensor.
        indices: signed integers, of the first dimensions of `x`: computed, or a table of those that
            lie inside, from the start.
        updates: the other dimensions of `indices`, and then the rest of those of `x`.
        reduction: one of `REDUCTIONS`.
    """
    shape = shape_of(x)
    depth = indices.shape[-1] if isinstance(indices, np.ndarray) else shape_of(indices)[-1]
    heads, rest = shape[:depth], shape[depth:]
    count = prod(shape_of(updates)) // prod(rest) if prod(rest) else 0
    if not count or not prod(shape):
        return x
    rows = emit.reshape(updates, (count, *rest))
    flat = emit.reshape(x, (prod(heads), *rest))
    if reduction == "none":
        if isinstance(indices, np.ndarray):
            owners = table(emit, _owners(indices.reshape(count, depth), heads))
        else:
            owners = _computed_owners(emit, _places(emit, indices, heads), prod(heads))
        result = _updated(emit, flat, owners, rows)
    else:
        if isinstance(indices, np.ndarray):
            known = np.ravel_multi_index(tuple(indices.reshape(count, depth).T), heads)
            places = table(emit, known.astype(np.int64))
        else:
            places = _places(emit, indices, heads)
        result = _combined(emit, flat, places, rows, reduction)
    return emit.reshape(result, shape)


def _owners(indices: Array, heads: Sequence[int]) -> Array:
    """The last update of each place of dimensions `heads`, of updates x dimensions indices."""
    owners = np.full(prod(heads), NO_UPDATE, np.int64)
    places = np.ravel_multi_index(tuple(indices.T), tuple(heads)) if heads else np.zeros(1, int)
    owners[places] = np.arange(len(indices))
    return owners


def _places(emit: Emitter, indices: SSAValue, heads: Sequence[int]) -> SSAValue:
    """Where each row of indices lies in row-major order of `heads`, in one list; -1 outside."""
    each = components(emit, indices)

    def linear(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = body.number(0, i64)
        outside = body.number(NO_UPDATE, i64)
        wrong: SSAValue | None = None
        for arg, size in zip(args, heads, strict=True):
            index = from_start(body, cast_scalar(body, arg, i64), size)
            for relation, bound in (("lt", 0), ("ge", size)):
                is_wrong = compared(body, relation, index, body.number(bound, i64))
                wrong = body.insert(arith.OrIOp(wrong, is_wrong)) if wrong else is_wrong
            scaled = body.insert(arith.MuliOp(total, body.number(size, i64)))
            total = body.insert(arith.AddiOp(scaled, index))
        return body.insert(arith.SelectOp(wrong, outside, total)) if wrong else total

    places = emit.elementwise(each, linear, i64)
    return emit.reshape(places, [prod(shape_of(places))])


def _computed_owners(emit: Emitter, places: SSAValue, count: int) -> SSAValue:
    """The last update of each of `count` places."""
    place, update = AffineExpr.dimension(0), AffineExpr.dimension(1)

    def later(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        here, number = (body.insert(arith.IndexCastOp(body.index(i), i64)) for i in range(2))
        is_own = compared(body, "eq", args[0], here)
        own = body.insert(arith.SelectOp(is_own, number, body.number(NO_UPDATE, i64)))
        return body.insert(arith.MaxSIOp(args[1], own))

    init = emit.filled(NO_UPDATE, [count], i64)
    return emit.generic([(places, [update])], (init, [place]), 1, 1, later)


def _updated(emit: Emitter, x: SSAValue, owners: SSAValue, rows: SSAValue) -> SSAValue:
    """The rows of `x`, or of `rows` where they have an owner."""
    shape, element = shape_of(x), element_of(x)
    loops = [AffineExpr.dimension(loop) for loop in range(len(shape))]

    def choose(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        kept, owner = args[:2]
        none = body.number(0, i64)
        is_new = compared(body, "ge", owner, none)
        row = body.insert(arith.IndexCastOp(body.insert(arith.MaxSIOp(owner, none)), IndexType()))
        behind = [body.index(loop) for loop in range(1, len(shape))]
        update = body.insert(tensor.ExtractOp(rows, [row, *behind], element))
        return body.insert(arith.SelectOp(is_new, update, kept))

    inputs = [(x, loops), (owners, loops[:1])]
    return emit.generic(inputs, (emit.empty(shape, element), loops), len(shape), 0, choose)


def _combined(
    emit: Emitter, x: SSAValue, places: SSAValue, rows: SSAValue, reduction: str
) -> SSAValue:
    """The rows of `x`, each with all of `rows` whose place it is."""
    rank = len(shape_of(x))
    loops = [AffineExpr.dimension(loop) for loop in range(rank + 1)]
    inputs = [(places, loops[rank:]), (rows, [loops[rank], *loops[1:rank]])]

    def is_own(body: ScalarBuilder, place: SSAValue) -> SSAValue:
        here = body.insert(arith.IndexCastOp(body.index(0), i64))
        return compared(body, "eq", place, here)

    return _reduced(emit, x, inputs, is_own, reduction)


def scattered_elements(
    emit: Emitter, x: SSAValue, axis: int, indices: SSAValue, updates: SSAValue, reduction: str
) -> SSAValue:
    """`x` with each of `updates` where that has it, but for its index of `axis`.

    Args:
        emit: where ops go.
        x: a tensor.
        axis: one of its dimensions, from 0.
        indices: signed integers of the shape of `updates`, which is no larger beside `axis`.
        updates: a tensor.
        reduction: one of `REDUCTIONS`.
    """
    shape, part = shape_of(x), list(shape_of(indices))
    if not prod(part) or not prod(shape):
        return x
    size, part[axis] = shape[axis], shape[axis]
    whole, rank = x, len(shape)
    x = emit.extract(x, [0] * rank, part, [1] * rank)
    loops = [AffineExpr.dimension(loop) for loop in range(rank + 1)]
    source = [loops[rank] if dim == axis else loops[dim] for dim in range(rank)]

    def is_own(body: ScalarBuilder, index: SSAValue) -> SSAValue:
        here = body.insert(arith.IndexCastOp(body.index(axis), index.type))
        return compared(body, "eq", from_start(body, index, size), here)

    result = _reduced(emit, x, [(indices, source), (updates, source)], is_own, reduction)
    return result if tuple(part) == shape else emit.insert_into(result, whole, [0] * rank)


def _reduced(
    emit: Emitter,
    x: SSAValue,
    inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
    is_own: Callable[[ScalarBuilder, SSAValue], SSAValue],
    reduction: str,
) -> SSAValue:
    """The elements of `x`, each with those updates of the last loop that are its own."""
    element, rank = element_of(x), len(shape_of(x))
    is_float = isinstance(element, AnyFloat)
    wide = wide_of(element) if is_float and reduction in ("add", "mul") else element

    def update(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        place, value, total = args
        value = widened(body, value, wide)
        if reduction != "none":
            on_floats, on_integers = _COMBINED[reduction]
            value = body.insert((on_floats if is_float else on_integers)(total, value))
        return body.insert(arith.SelectOp(is_own(body, place), value, total))

    if wide != element:
        x = emit.elementwise([x], lambda body, args: widened(body, args[0], wide), wide)
    loops = [AffineExpr.dimension(loop) for loop in range(rank)]
    result = emit.generic(inputs, (x, loops), rank, 1, update)
    if wide == element:
        return result
    return emit.elementwise([result], lambda body, args: rounded(body, args[0], element), element)
