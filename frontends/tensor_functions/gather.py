"""Elements of a tensor at indices that a table has, or that are computed.

A negative index counts from the end of its dimension. What is read at a computed index that lies
outside is NaN; of integers, which have none, it is the nearest element.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, IndexType
from xdsl.ir.affine import AffineExpr

from convir.frontends.elements import MEMORY, constant
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.emitter import Emitter, ScalarBuilder


@dataclass(frozen=True)
class Lookup:
    """Indices of one dimension, which a tensor of signed integers has."""

    indices: SSAValue
    loops: Sequence[int]
    """The loop of each dimension of `indices`."""
    is_inside: bool
    """Whether all are known to be 0 or more, and less than the size of the dimension."""


def table(emit: Emitter, values: Array) -> SSAValue:
    """A constant that no file holds."""
    return emit.insert(constant(values, MEMORY, None))


def looked_up(
    emit: Emitter, x: SSAValue, sizes: Sequence[int], sources: Sequence[int | Lookup]
) -> SSAValue:
    """A tensor of elements of `x`.

    Args:
        emit: where ops go.
        x: a tensor.
        sizes: of the result, whose dimensions are the loops.
        sources: the index of each dimension of `x`: the number of a loop, or a `Lookup`.
    """
    element, rank = element_of(x), len(sizes)
    if not prod(sizes):
        return emit.empty(sizes, element)
    lookups = [source for source in sources if isinstance(source, Lookup)]
    tables = [(one.indices, [AffineExpr.dimension(loop) for loop in one.loops]) for one in lookups]

    def read(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        given = iter(args)
        indices: list[SSAValue] = []
        inside: SSAValue | None = None
        for source, size in zip(sources, shape_of(x), strict=True):
            if isinstance(source, int):
                indices.append(body.index(source))
                continue
            index, is_inside = next(given), None
            if not source.is_inside:
                index, is_inside = _within(body, index, size)
            indices.append(body.insert(arith.IndexCastOp(index, IndexType())))
            if is_inside is not None:
                both = inside and body.insert(arith.AndIOp(inside, is_inside))
                inside = both or is_inside
        found = body.insert(tensor.ExtractOp(x, indices, element))
        if inside is None or not isinstance(element, AnyFloat):
            return found
        return body.insert(arith.SelectOp(inside, found, body.number(nan, element)))

    loops = [AffineExpr.dimension(loop) for loop in range(rank)]
    return emit.generic(tables, (emit.empty(sizes, element), loops), rank, 0, read)


def from_start(body: ScalarBuilder, index: SSAValue, size: int) -> SSAValue:
    """An index that counts from the start of a dimension, of one that may count from its end."""
    turned = body.insert(arith.AddiOp(index, body.number(size, index.type)))
    is_negative = compared(body, "lt", index, body.number(0, index.type))
    return body.insert(arith.SelectOp(is_negative, turned, index))


def _within(body: ScalarBuilder, index: SSAValue, size: int) -> tuple[SSAValue, SSAValue]:
    """The nearest index of a dimension, and whether that is the one that is asked for."""
    index = from_start(body, index, size)
    least, most = body.number(0, index.type), body.number(size - 1, index.type)
    nearest = body.insert(arith.MinSIOp(body.insert(arith.MaxSIOp(index, least)), most))
    return nearest, compared(body, "eq", index, nearest)


def gathered(emit: Emitter, x: SSAValue, axis: int, indices: SSAValue | Array) -> SSAValue:
    """`x` with its dimension `axis` at `indices`, whose dimensions take the place of that one.

    Args:
        emit: where ops go.
        x: a tensor.
        axis: one of its dimensions, from 0.
        indices: signed integers: computed, or a table, whose indices lie inside.
    """
    shape = shape_of(x)
    if not isinstance(indices, np.ndarray):
        sizes, first = shape_of(indices), axis
        source = Lookup(indices, range(first, first + len(sizes)), is_inside=False)
        return _at_lookup(emit, x, axis, sizes, source)
    known = np.where(indices < 0, indices + shape[axis], indices).astype(np.int64)
    whole = (*shape[:axis], *known.shape, *shape[axis + 1 :])
    if not known.size:
        return emit.empty(whole, element_of(x))
    steps = np.unique(np.diff(known.reshape(-1)))
    if not steps.size or (len(steps) == 1 and steps[0] != 0):
        step = int(steps[0]) if steps.size else 1
        part = strided(emit, x, axis, int(known.flat[0]), known.size, step)
        return emit.reshape(part, whole)
    source = Lookup(table(emit, known), range(axis, axis + known.ndim), is_inside=True)
    return _at_lookup(emit, x, axis, known.shape, source)


def _at_lookup(
    emit: Emitter, x: SSAValue, axis: int, sizes: Sequence[int], source: Lookup
) -> SSAValue:
    """`x` with dimension `axis` looked up; the dimensions of the indices have `sizes`."""
    shape = shape_of(x)
    behind = range(axis + len(sizes), len(shape) - 1 + len(sizes))
    whole = (*shape[:axis], *sizes, *shape[axis + 1 :])
    return looked_up(emit, x, whole, [*range(axis), source, *behind])


def repeated(emit: Emitter, x: SSAValue, counts: Sequence[int]) -> SSAValue:
    """`x` with each element along dimension `i` `counts[i]` times."""
    sizes = [size * count for size, count in zip(shape_of(x), counts, strict=True)]
    if not prod(sizes):
        return emit.empty(sizes, element_of(x))
    loops = [AffineExpr.dimension(loop) for loop in range(len(sizes))]
    read = [
        loop if count == 1 else loop // count for loop, count in zip(loops, counts, strict=True)
    ]
    into = (emit.empty(sizes, element_of(x)), loops)
    return emit.generic([(x, read)], into, len(sizes), 0, lambda _body, args: args[0])


def strided(emit: Emitter, x: SSAValue, axis: int, start: int, count: int, step: int) -> SSAValue:
    """`x` with `count` elements of dimension `axis`, from `start` on, `step` apart: any but 0."""
    shape = shape_of(x)
    sizes = [count if dim == axis else size for dim, size in enumerate(shape)]
    if not prod(sizes):
        return emit.empty(sizes, element_of(x))
    if step > 0 or count == 1:
        offsets, steps = [0] * len(shape), [1] * len(shape)
        offsets[axis], steps[axis] = start, max(step, 1)
        return emit.extract(x, offsets, sizes, steps)

    def read(body: ScalarBuilder, _args: Sequence[SSAValue]) -> SSAValue:
        indices = [body.index(dim) for dim in range(len(shape))]
        index = indices[axis]
        steps = body.insert(arith.MuliOp(index, body.number(-step, index.type)))
        indices[axis] = body.insert(arith.SubiOp(body.number(start, index.type), steps))
        return body.insert(tensor.ExtractOp(x, indices, element_of(x)))

    loops = [AffineExpr.dimension(loop) for loop in range(len(shape))]
    return emit.generic([], (emit.empty(sizes, element_of(x)), loops), len(shape), 0, read)


def gathered_elements(
    emit: Emitter, x: SSAValue, axis: int, indices: SSAValue, *, is_inside: bool
) -> SSAValue:
    """At each place of `indices`, the element of `x` there, but for its index of `axis`.

    Args:
        emit: where ops go.
        x: a tensor.
        axis: one of its dimensions, from 0.
        indices: signed integers, in a tensor that is no larger beside `axis`.
        is_inside: whether they are known to lie inside.
    """
    sizes = shape_of(indices)
    sources: list[int | Lookup] = list(range(len(sizes)))
    sources[axis] = Lookup(indices, range(len(sizes)), is_inside)
    return looked_up(emit, x, sizes, sources)


def components(emit: Emitter, indices: SSAValue) -> list[SSAValue]:
    """The tensors that lie side by side along the last dimension of `indices`."""
    *sizes, count = shape_of(indices)
    ones = [1] * (len(sizes) + 1)
    return [
        emit.reshape(emit.extract(indices, [*([0] * len(sizes)), i], [*sizes, 1], ones), sizes)
        for i in range(count)
    ]


def gathered_nd(
    emit: Emitter, x: SSAValue, indices: SSAValue, batch: int, *, is_inside: bool
) -> SSAValue:
    """What `x` has at the indices along the last dimension of `indices`.

    Args:
        emit: where ops go.
        x: a tensor.
        indices: signed integers; each row of them is of the dimensions of `x` behind `batch`.
        batch: how many first dimensions both share.
        is_inside: whether they are known to lie inside.
    """
    *places, depth = shape_of(indices)
    rest = shape_of(x)[batch + depth :]
    lookups = [Lookup(one, range(len(places)), is_inside) for one in components(emit, indices)]
    behind = range(len(places), len(places) + len(rest))
    return looked_up(emit, x, (*places, *rest), [*range(batch), *lookups, *behind])
