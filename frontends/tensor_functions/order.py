"""What depends on the order of elements: running totals, the largest ones, and where they are.

A running total is as many sums as the length has bits, each of elements twice as far apart: its
rounding error is that of pairwise sums. The rank of an element is how many others come before it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, i32, i64
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import compared, rounded, wide_of, widened
from convir.frontends.tensor_functions.gather import gathered_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from convir.frontends.emitter import Emitter, ScalarBuilder


def running(
    emit: Emitter,
    x: SSAValue,
    axis: int,
    combine: Callable[..., Operation],
    neutral: float,
    *,
    excludes: bool,
    is_reversed: bool,
) -> SSAValue:
    """At each place, what `combine` makes of all elements of dimension `axis` up to there.

    Args:
        emit: where ops go.
        x: a tensor.
        axis: one of its dimensions, from 0.
        combine: an associative op on elements; those of f16 and bf16 are f32 until all is done.
        neutral: what it changes nothing with.
        excludes: whether the element at the place itself is left out.
        is_reversed: whether it is all elements from there on.
    """
    shape, element = shape_of(x), element_of(x)
    wide = wide_of(element) if isinstance(element, AnyFloat) else element
    ones, fill = [1] * len(shape), emit.number(neutral, wide)

    def shifted(value: SSAValue, by: int) -> SSAValue:
        """The elements `by` places before, or behind."""
        offsets, low, high = ([0] * len(shape) for _ in range(3))
        sizes = [size - by if dim == axis else size for dim, size in enumerate(shape)]
        (offsets if is_reversed else low)[axis] = by
        high[axis] = by if is_reversed else 0
        return emit.pad(emit.extract(value, offsets, sizes, ones), low, high, fill)

    total = x
    if wide != element:
        total = emit.elementwise([x], lambda b, args: widened(b, args[0], wide), wide)
    if excludes and shape[axis]:
        total = shifted(total, 1)
    by = 1
    while by < shape[axis]:
        total = emit.elementwise(
            [total, shifted(total, by)], lambda body, args: body.insert(combine(args[0], args[1]))
        )
        by *= 2
    if wide == element:
        return total
    return emit.elementwise([total], lambda b, args: rounded(b, args[0], element), element)


def _comes_before(body: ScalarBuilder, a: SSAValue, b: SSAValue, relation: str) -> SSAValue:
    """Whether `a` is more than `b`, or less; a NaN is more than all numbers, and less than none."""
    is_before = compared(body, relation, a, b)
    if not isinstance(a.type, AnyFloat):
        return is_before
    nan, number = (a, b) if relation == "gt" else (b, a)
    is_nan, is_number = compared(body, "ne", nan, nan), compared(body, "eq", number, number)
    return body.insert(arith.OrIOp(is_before, body.insert(arith.AndIOp(is_nan, is_number))))


def top(
    emit: Emitter, x: SSAValue, axis: int, count: int, *, largest: bool
) -> tuple[SSAValue, SSAValue]:
    """The first elements of dimension `axis` in order, and where they are, as i64.

    Of equal elements the one that comes first in `x` does so in the result.

    Args:
        emit: where ops go.
        x: a tensor.
        axis: one of its dimensions, from 0.
        count: how many elements, at most as many as there are.
        largest: whether the order is from the largest on, or from the smallest.
    """
    shape, relation = shape_of(x), "gt" if largest else "lt"
    order = [*(dim for dim in range(len(shape)) if dim != axis), axis]
    rows = emit.transpose(x, order)
    *outer, size = shape_of(rows)
    loops = [AffineExpr.dimension(loop) for loop in range(len(outer) + 2)]
    row, (one, other) = loops[: len(outer)], loops[len(outer) :]
    places = len(outer), len(outer) + 1

    def rank(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        here, there, total = args
        is_earlier = body.insert(arith.CmpiOp(body.index(places[1]), body.index(places[0]), "slt"))
        wins = _comes_before(body, there, here, relation)
        loses = _comes_before(body, here, there, relation)
        draws = body.insert(arith.XOrIOp(loses, body.number(1, loses.type)))
        is_first = body.insert(arith.AndIOp(is_earlier, draws))
        is_before = body.insert(arith.OrIOp(wins, is_first))
        return body.insert(arith.AddiOp(total, body.insert(arith.ExtUIOp(is_before, i32))))

    inputs = [(rows, [*row, one]), (rows, [*row, other])]
    init = emit.filled(0, (*outer, size), i32), [*row, one]
    ranks = emit.generic(inputs, init, len(outer) + 1, 1, rank)

    def place(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        wanted, found = (body.insert(arith.IndexCastOp(body.index(n), i64)) for n in places)
        number = body.insert(arith.ExtSIOp(args[0], i64))
        is_wanted = compared(body, "eq", number, wanted)
        return body.insert(arith.SelectOp(is_wanted, found, args[1]))

    init = emit.filled(0, (*outer, count), i64), [*row, one]
    indices = emit.generic([(ranks, [*row, other])], init, len(outer) + 1, 1, place)
    values = gathered_elements(emit, rows, len(outer), indices, is_inside=True)
    back = [order.index(dim) for dim in range(len(shape))]
    return emit.transpose(values, back), emit.transpose(indices, back)


def position_of_most(
    emit: Emitter, x: SSAValue, axis: int, *, largest: bool, last: bool
) -> SSAValue:
    """Where in dimension `axis` the largest element is, or the smallest, as i64, without `axis`.

    A NaN is the largest, and the smallest.

    Args:
        emit: where ops go.
        x: a tensor, with elements in that dimension.
        axis: one of its dimensions, from 0.
        largest: whether the largest element is meant.
        last: whether the last of equal ones is.
    """
    shape, element = shape_of(x), element_of(x)
    is_float = isinstance(element, AnyFloat)
    ops = (arith.MaximumfOp, arith.MaxSIOp) if largest else (arith.MinimumfOp, arith.MinSIOp)
    if is_float:
        start = -inf if largest else inf
    else:
        bound = 1 << (element.bitwidth - 1)
        start = -bound if largest else bound - 1
    most = emit.reduce(
        x, [axis], start, lambda body, args: body.insert(ops[not is_float](args[1], args[0]))
    )
    loops = [AffineExpr.dimension(loop) for loop in range(len(shape))]
    kept = [dim for dim in range(len(shape)) if dim != axis]
    out = loops[: len(kept)]
    source = [loops[-1] if dim == axis else loops[kept.index(dim)] for dim in range(len(shape))]

    def place(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        here, best, found = args
        is_found = compared(body, "eq", here, best)
        if is_float:
            is_found = body.insert(arith.OrIOp(is_found, compared(body, "ne", here, here)))
        index = body.insert(arith.IndexCastOp(body.index(len(kept)), i64))
        nearest = body.insert((arith.MaxSIOp if last else arith.MinSIOp)(index, found))
        return body.insert(arith.SelectOp(is_found, nearest, found))

    init = emit.filled(-1 if last else shape[axis], [shape[dim] for dim in kept], i64)
    return emit.generic([(x, source), (most, out)], (init, out), len(kept), 1, place)
