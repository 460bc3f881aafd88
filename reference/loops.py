"""The iteration space of a structured op, and operands seen from it.

An operand's view has one axis per loop: a strided window onto the operand for the loops that its
indexing map uses, of size 1 for the others. `d1 + d5`, `2*d1 + 3*d5` and `4 - d2` are strides;
only `mod` and `floordiv` cost a gather. A range of some loops is a slice of the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from convir.analysis.linear import linear_map
from convir.reference.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.ir import Operation
    from xdsl.ir.affine import AffineMap

    from convir.analysis.linear import LinearIndex
    from convir.reference.dtypes import Array


@dataclass(frozen=True)
class LoopRange:
    """A box of the iteration space: the loops from `starts` up to `stops`."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]

    @staticmethod
    def full(bounds: Sequence[int]) -> LoopRange:
        """The whole iteration space of loops with these bounds."""
        return LoopRange((0,) * len(bounds), tuple(bounds))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many iterations of each loop are in the box."""
        return tuple(b - a for a, b in zip(self.starts, self.stops, strict=True))

    def index(self, loop: int) -> Array:
        """The values of one loop, as an array over the loops: `linalg.index`."""
        shape = [1] * len(self.starts)
        shape[loop] = -1
        return np.arange(self.starts[loop], self.stops[loop], dtype=np.int64).reshape(shape)

    def narrowed(self, loop: int, start: int, stop: int) -> LoopRange:
        """The same box with `loop` from `start` to `stop`."""
        starts, stops = list(self.starts), list(self.stops)
        starts[loop], stops[loop] = start, stop
        return LoopRange(tuple(starts), tuple(stops))

    def of(self, view: Array) -> Array:
        """The part of a view over all loops that lies in the box."""
        window = (
            slice(None) if size == 1 else slice(start, stop)
            for size, start, stop in zip(view.shape, self.starts, self.stops, strict=True)
        )
        return view[(*window, ...)]

    def steps(self, loop: int, step: int) -> Iterator[LoopRange]:
        """The box cut into slices of at most `step` iterations of `loop`, in order."""
        for start in range(self.starts[loop], self.stops[loop], step):
            yield self.narrowed(loop, start, min(start + step, self.stops[loop]))


def loop_bounds(
    op: Operation, maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]], num_loops: int
) -> tuple[int, ...]:
    """The trip count of each loop, read off the dimensions that a loop indexes alone.

    Raises:
        EvaluationError: two operands disagree on a loop, or a loop never stands alone.
    """
    bounds: list[int | None] = [None] * num_loops
    for indexing_map, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(indexing_map.results, shape, strict=True):
            if not isinstance(expr, AffineDimExpr):
                continue
            known = bounds[expr.position]
            if known is not None and known != size:
                raise EvaluationError(op, f"has a loop d{expr.position} of both {known} and {size}")
            bounds[expr.position] = size
    found = tuple(bound for bound in bounds if bound is not None)
    if len(found) != num_loops:
        raise EvaluationError(op, f"has no bound for the loop d{bounds.index(None)}")
    return found


def loop_view(
    op: Operation,
    array: Array,
    indexing_map: AffineMap,
    bounds: Sequence[int],
    *,
    writeable: bool = False,
) -> Array:
    """`array` as an array over the loops, which are not empty, through `indexing_map`.

    It is a window onto `array`, written through if `writeable`, unless the map takes a remainder
    or a quotient: then it is a copy.

    Raises:
        EvaluationError: some iteration indexes outside `array`, or a copy would be written.
    """
    num_loops = len(bounds)
    linear = linear_map(indexing_map)
    if linear is None:
        if writeable:
            raise EvaluationError(op, "writes through a map that is not linear")
        return _gathered(op, array, indexing_map, bounds)
    strides = [0] * num_loops
    used = [False] * num_loops
    for dim, index in enumerate(linear):
        _require_inside(op, index, bounds, array.shape[dim], dim)
        for loop, coefficient in index.terms:
            strides[loop] += coefficient * array.strides[dim]
            used[loop] = True
    origin = array[(*(slice(index.constant, None) for index in linear), ...)]
    shape = [bound if use else 1 for bound, use in zip(bounds, used, strict=True)]
    return np.lib.stride_tricks.as_strided(origin, shape, strides, writeable=writeable)


def boxes(box: LoopRange, limit: int, order: Sequence[int]) -> Iterator[LoopRange]:
    """Cut `box` into boxes of at most `limit` iterations, along the loops of `order` in turn."""
    sizes = box.sizes
    total = prod(sizes)
    if total <= limit or not order:
        yield box
        return
    loop = order[0]
    inner = total // sizes[loop]
    for part in box.steps(loop, max(1, limit // inner)):
        yield from boxes(part, limit, order[1:])


def _require_inside(
    op: Operation, index: LinearIndex, bounds: Sequence[int], size: int, dim: int
) -> None:
    ends = [coefficient * (bounds[loop] - 1) for loop, coefficient in index.terms]
    low = index.constant + sum(end for end in ends if end < 0)
    high = index.constant + sum(end for end in ends if end > 0)
    if low < 0 or high >= size:
        raise EvaluationError(op, f"indexes {low} to {high} of a dimension #{dim} of size {size}")


def evaluate_affine(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[Array]) -> Array:
    """An affine expression of index arrays, which broadcast against each other."""
    if isinstance(expr, AffineConstantExpr):
        return np.array(expr.value, np.int64)
    if isinstance(expr, AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, AffineSymExpr):
        return symbols[expr.position]
    if not isinstance(expr, AffineBinaryOpExpr):
        raise TypeError(f"{expr} is not an affine expression")
    lhs = evaluate_affine(expr.lhs, dims, symbols)
    rhs = evaluate_affine(expr.rhs, dims, symbols)
    match expr.kind:
        case AffineBinaryOpKind.Add:
            return lhs + rhs
        case AffineBinaryOpKind.Mul:
            return lhs * rhs
        case AffineBinaryOpKind.Mod:
            return np.remainder(lhs, rhs)
        case AffineBinaryOpKind.FloorDiv:
            return np.floor_divide(lhs, rhs)
        case AffineBinaryOpKind.CeilDiv:
            return -np.floor_divide(-lhs, rhs)


def _gathered(op: Operation, array: Array, indexing_map: AffineMap, bounds: Sequence[int]) -> Array:
    loops = LoopRange.full(bounds)
    dims = [loops.index(loop) for loop in range(len(bounds))]
    indices = tuple(evaluate_affine(expr, dims, ()) for expr in indexing_map.results)
    for dim, (index, size) in enumerate(zip(indices, array.shape, strict=True)):
        if np.min(index) < 0 or np.max(index) >= size:
            raise EvaluationError(op, f"indexes outside a dimension #{dim} of size {size}")
    return array[indices]
