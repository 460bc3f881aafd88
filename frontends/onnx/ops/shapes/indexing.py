"""Elements at indices: Gather, GatherElements, GatherND, ScatterElements, ScatterND."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i1, i32, i64

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.tensor_functions.gather import (
    gathered,
    gathered_elements,
    gathered_nd,
    table,
)
from convir.frontends.tensor_functions.scatter import (
    REDUCTIONS,
    scattered_elements,
    scattered_nd,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.onnx.call import Call

INDICES, UPDATES = 1, 2


def _gather(call: Call) -> Sequence[SSAValue]:
    x, axis = call.input(0), _axis(call)
    known = call.constant(INDICES)
    if known is not None:
        return [gathered(call.emit, x, axis, checked(call, known, shape_of(x)[axis]))]
    indices = _computed(call)
    _check_size(call, shape_of(x)[axis], indices)
    return [gathered(call.emit, x, axis, indices)]


def _gather_elements(call: Call) -> Sequence[SSAValue]:
    x, axis = call.input(0), _axis(call)
    indices, is_known = _indices(call, [shape_of(x)[axis]])
    _check_beside(call, shape_of(x), shape_of(indices), axis)
    return [gathered_elements(call.emit, x, axis, indices, is_inside=is_known)]


def _gather_nd(call: Call) -> Sequence[SSAValue]:
    x, batch = call.input(0), int(call.attribute("batch_dims", 0))
    have = shape_of(x)
    places = _places(call, have, batch)
    indices, is_known = _indices(call, have[batch : batch + places[-1]])
    if have[:batch] != places[:batch]:
        raise call.error(f"{list(have)} and its indices {list(places)} differ in their batches")
    return [gathered_nd(call.emit, x, indices, batch, is_inside=is_known)]


def _places(call: Call, have: Sequence[int], batch: int = 0) -> tuple[int, ...]:
    """The shape of indices of several dimensions, whose last one says of how many."""
    known = call.constant(INDICES)
    places = shape_of(call.input(INDICES)) if known is None else known.shape
    if not places or not 0 <= batch < min(len(places), len(have)):
        raise call.error(f"its indices {list(places)} are not of {list(have)} behind {batch} axes")
    if batch + places[-1] > len(have):
        raise call.error(f"its indices {list(places)} are of more axes than {list(have)} has")
    return places


def _check_beside(call: Call, have: Sequence[int], wanted: Sequence[int], axis: int) -> None:
    """Refuse indices of another rank, or of more places beside `axis`, than there are."""
    fits = len(have) == len(wanted) and all(
        dim == axis or size <= have[dim] for dim, size in enumerate(wanted)
    )
    if not fits:
        raise call.error(f"its indices {list(wanted)} do not fit {list(have)} beside axis {axis}")


def _axis(call: Call) -> int:
    return call.axis(int(call.attribute("axis", 0)), len(shape_of(call.input(0))))


def _indices(call: Call, sizes: Sequence[int]) -> tuple[SSAValue, bool]:
    """Indices of dimensions of `sizes`, and whether they are known to be inside; those are not
    negative. Where there are several dimensions, each is the last one's own element."""
    known = call.constant(INDICES)
    if known is not None:
        each = np.asarray(sizes if len(sizes) > 1 else sizes[0] if sizes else 1)
        return table(call.emit, checked(call, known, each)), True
    indices = _computed(call)
    for size in sizes:
        _check_size(call, size, indices)
    return indices, False


def _computed(call: Call) -> SSAValue:
    indices = call.input(INDICES)
    if element_of(indices) not in (i32, i64):
        raise call.error(f"its indices are of {element_of(indices)}, not of i32 or i64")
    return indices


def _check_size(call: Call, size: int, indices: SSAValue) -> None:
    if not size and all(shape_of(indices)):
        raise call.error("a dimension of size 0 has no elements at any index")


def checked(call: Call, indices: Array, size: int | Array) -> Array:
    """Indices of a dimension of a size, counted from its start.

    Raises:
        OnnxError: they are no such indices.
    """
    if indices.dtype.kind != "i":
        raise call.error(f"its indices are of {indices.dtype}, not of int32 or int64")
    wrong = (indices < -size) | (indices >= size)
    if wrong.any():
        index = indices[wrong][0]
        bound = np.broadcast_to(size, indices.shape)[wrong][0]
        raise call.error(f"the index {index} is not in a dimension of size {bound}")
    return np.where(indices < 0, indices + size, indices).astype(np.int64)


def _scatter_elements(call: Call) -> Sequence[SSAValue]:
    x, updates = call.alike(0, UPDATES)
    axis, reduction = _axis(call), _reduction(call, x)
    indices, _ = _indices(call, [shape_of(x)[axis]])
    have, wanted = shape_of(x), shape_of(indices)
    call.shaped(updates, wanted, "its updates")
    _check_beside(call, have, wanted, axis)
    return [scattered_elements(call.emit, x, axis, indices, updates, reduction)]


def _reduction(call: Call, x: SSAValue) -> str:
    reduction = call.choice("reduction", "none", REDUCTIONS)
    if reduction != "none" and element_of(x) == i1:
        raise call.error(f"the reduction '{reduction}' is not supported on elements of type i1")
    return reduction


def _scatter_nd(call: Call) -> Sequence[SSAValue]:
    x, updates = call.alike(0, UPDATES)
    reduction = _reduction(call, x)
    have = shape_of(x)
    *places, depth = _places(call, have)
    call.shaped(updates, (*places, *have[depth:]), "its updates")
    known = call.constant(INDICES)
    if known is not None:
        indices = checked(call, known, np.array(have[:depth]))
        return [scattered_nd(call.emit, x, indices, updates, reduction)]
    return [scattered_nd(call.emit, x, _computed(call), updates, reduction)]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
