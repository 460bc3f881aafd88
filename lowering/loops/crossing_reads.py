"""Which way the elements of a kernel lie that reads along one dimension and writes along another.

A transposed copy that goes along its result reads an element of each cache line and comes back for
the next one when the line has left the cache. Where `crossing_dim` names a dimension, loops go
over blocks of it, inside of the last dimension: each line that they touch is used as a whole.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from convir.analysis.linear import LinearIndex
from convir.analysis.rearrangement import rearrangement
from convir.analysis.slices import slice_view
from convir.analysis.structured import structured
from convir.lowering.bodies.operand_access import shape_of
from convir.lowering.loops.evaluate import static_shape
from convir.lowering.loops.pointwise import is_pointwise

if TYPE_CHECKING:
    from collections.abc import Iterator

_Forms: TypeAlias = tuple[LinearIndex | None, ...]
"""Per dimension of a value its index over the dimensions of the result, without constants; None
where nothing is known."""

MIN_SIZE = 8
"""Of both dimensions: with fewer neighbours a line is used up at once."""
MIN_ELEMENTS = 2048
"""Less stays in the cache however it is read."""


def crossing_dim(value: SSAValue) -> int | None:
    """The dimension of `value` along which most of what it is computed from lies, if that is not
    the last one; None where that is the last one, or does not matter.

    Args:
        value: a tensor of a kernel's body, of a static shape.
    """
    shape = static_shape(value)
    last = len(shape) - 1
    if prod(shape) < MIN_ELEMENTS:
        return None
    elements: Counter[int] = Counter()
    for argument, forms in _arguments(
        value, tuple(LinearIndex(((d, 1),)) for d in range(last + 1))
    ):
        along = _neighbours(argument, forms)
        if along is not None and 2 * prod(shape_of(argument)) >= prod(shape):
            elements[along] += 1
    if not elements:
        return None
    (dim, _), *_ = elements.most_common(1)
    return dim if dim != last and min(shape[dim], shape[last]) >= MIN_SIZE else None


def _neighbours(argument: SSAValue, forms: _Forms) -> int | None:
    """The dimension of the result along which neighbours are neighbours in `argument`."""
    for size, form in reversed(list(zip(shape_of(argument), forms, strict=True))):
        if size > 1:
            return None if form is None else form.bare
    return None


def _arguments(value: SSAValue, forms: _Forms) -> Iterator[tuple[SSAValue, _Forms]]:
    """The arguments that elements of `value` are computed from, and where they are read."""
    pending = [(value, forms)]
    seen: set[tuple[SSAValue, _Forms]] = set()
    while pending:
        read = pending.pop()
        if read in seen or not isinstance(read[0].type, TensorType):
            continue
        seen.add(read)
        if isinstance(read[0], BlockArgument):
            yield read
        elif isinstance(read[0].owner, Operation):
            pending += _sources(read[0].owner, read[1])


def _sources(op: Operation, forms: _Forms) -> list[tuple[SSAValue, _Forms]]:
    """What an element of the result of `op` is computed from, without what a reduction reads."""
    moved, view = rearrangement(op), structured(op)
    if moved is not None:
        return [(moved.source, tuple(_composed(form, forms) for form in moved.index))]
    if view is not None:
        if set(view.iterators) - {"parallel"}:
            return []
        reads = zip(view.inputs, view.forms, strict=False)
        return [(x, tuple(_composed(f, forms) for f in read)) for x, read in reads if read]
    if is_pointwise(op) or op.name in ("tensor.cast", "tensor.concat"):
        return [(operand, forms) for operand in op.operands]
    match op:
        case tensor.CollapseShapeOp():
            return [(op.src, _collapsed(op, forms))]
        case tensor.ExpandShapeOp():
            return [(op.src, _expanded(op, forms))]
        case _:
            piece = slice_view(op)
    if piece is None or piece.dropped or piece.kind == "insert_slice":
        return []
    return [(piece.source, forms)]


def _composed(form: LinearIndex, forms: _Forms) -> LinearIndex | None:
    known = [forms[loop] for loop in form.loops]
    if None in known:
        return None
    filled = [LinearIndex(()) if each is None else each for each in forms]
    return LinearIndex(form.composed(filled).terms)


def _collapsed(op: tensor.CollapseShapeOp, forms: _Forms) -> _Forms:
    """Neighbours along joined dimensions are neighbours along the last of them."""
    shape = shape_of(op.src)
    found: list[LinearIndex | None] = [None] * len(shape)
    for group, form in zip(op.reassociation.data, forms, strict=True):
        longer = [i.value.data for i in group.data if shape[i.value.data] != 1]
        if longer:
            found[longer[-1]] = form
    return tuple(found)


def _expanded(op: tensor.ExpandShapeOp, forms: _Forms) -> _Forms:
    shape = shape_of(op.result)
    found: list[LinearIndex | None] = []
    for group in op.reassociation.data:
        longer = [i.value.data for i in group.data if shape[i.value.data] != 1]
        found.append(forms[longer[-1]] if longer else None)
    return tuple(found)
