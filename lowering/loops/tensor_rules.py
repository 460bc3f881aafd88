"""How an element of the result of each tensor op is computed: the rules of the evaluator."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.slices import slice_view
from convir.analysis.values.zeros import constant_fill_of
from convir.lowering.loops.evaluate import Evaluator, Rule, static_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects import tensor
    from xdsl.ir import Block, Operation, SSAValue

    from convir.analysis.slices import SliceView
    from convir.lowering.loops.indices import Condition, Index


def _constant(ev: Evaluator, op: Operation, _indices: list[Index]) -> SSAValue:
    scalar = constant_fill_of(op.results[0])
    if scalar is None:
        raise PassFailedException("a dense constant inside a kernel must be a splat")
    return ev.constant(scalar)


def _empty(ev: Evaluator, op: Operation, _indices: list[Index]) -> SSAValue:
    # Whoever reads an uninitialised element has no claim on its value.
    return ev.zero(cast("tensor.EmptyOp", op).tensor.type.element_type)


def _splat(ev: Evaluator, op: Operation, _indices: list[Index]) -> SSAValue:
    return ev.scalar(cast("tensor.SplatOp", op).input)


def _cast(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    return ev.element(op.operands[0], indices)


def _extract_slice(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    view = _static_view(op)
    kept = iter(indices)
    source: list[Index] = []
    for dim, (offset, stride) in enumerate(zip(view.offsets, view.strides, strict=True)):
        index = 0 if dim in view.dropped else next(kept)
        source.append(ev.at.add(ev.at.mul(index, cast("int", stride)), cast("int", offset)))
    return ev.element(view.source, source)


def _insert_slice(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    view = _static_view(op)
    dest = view.dest
    assert dest is not None
    inside, source = slice_position(ev, view, indices)
    return ev.choose(
        ev.at.all(inside),
        lambda: ev.element(view.source, source),
        lambda: ev.element(dest, indices),
    )


def slice_position(
    ev: Evaluator, view: SliceView, indices: Sequence[Index]
) -> tuple[list[Condition], list[Index]]:
    """Where `indices` of a destination lie in its slice: whether inside, and at which index."""
    assert view.dest is not None
    inside: list[Condition] = []
    source: list[Index] = []
    for dim, (index, size) in enumerate(zip(indices, static_shape(view.dest), strict=True)):
        offset, count, stride = (
            cast("int", values[dim]) for values in (view.offsets, view.sizes, view.strides)
        )
        relative = ev.at.sub(index, offset)
        if offset > 0:
            inside.append(ev.at.at_least(relative, 0))
        if count * stride < size - offset:
            inside.append(ev.at.less(relative, count * stride))
        if stride > 1:
            inside.append(ev.at.equal(ev.at.mod(relative, stride), 0))
        if dim not in view.dropped:
            source.append(ev.at.div(relative, stride))
    return inside, source


def _pad(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    pad = cast("tensor.PadOp", op)
    if pad.low or pad.high:
        raise PassFailedException("a tensor.pad by dynamic amounts has no loops")
    inside: list[Condition] = []
    source: list[Index] = []
    low = pad.static_low.get_values()
    high = pad.static_high.get_values()
    for index, before, after, size in zip(
        indices, low, high, static_shape(pad.source), strict=True
    ):
        relative = ev.at.sub(index, before)
        if before > 0:
            inside.append(ev.at.at_least(relative, 0))
        if after > 0:
            inside.append(ev.at.less(relative, size))
        source.append(relative)
    return ev.choose(
        ev.at.all(inside),
        lambda: ev.element(pad.source, source),
        lambda: _yielded(ev, pad.region.block, indices),
    )


def _yielded(ev: Evaluator, block: Block, indices: Sequence[Index]) -> SSAValue:
    """What the body of a pad yields at `indices`, which are its arguments."""
    terminator = block.last_op
    assert terminator is not None
    yielded = ev.region_scalar(
        terminator.operands[0], block, {}, lambda argument: ev.index_value(indices[argument.index])
    )
    return ev.data(yielded)


def _from_elements(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    position = ev.at.linearize(indices, static_shape(op.results[0]))
    return _element_of(ev, op.operands, position, 0)


def _element_of(
    ev: Evaluator, elements: Sequence[SSAValue], position: Index, first: int
) -> SSAValue:
    """The element at `position`, of which `elements` hold those from number `first` on."""
    if len(elements) == 1:
        return ev.scalar(elements[0])
    middle = len(elements) // 2
    return ev.choose(
        ev.at.less(position, first + middle),
        lambda: _element_of(ev, elements[:middle], position, first),
        lambda: _element_of(ev, elements[middle:], position, first + middle),
    )


def _insert(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    insert = cast("tensor.InsertOp", op)
    here = [
        ev.at.same(index, ev.scalar(wanted))
        for index, wanted in zip(indices, insert.indices, strict=True)
    ]
    return ev.choose(
        ev.at.all(here),
        lambda: ev.scalar(insert.scalar),
        lambda: ev.element(insert.dest, indices),
    )


def _reshape(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    """Dense reshapes keep the row-major position inside each group of dimensions."""
    reshape = cast("tensor.ExpandShapeOp | tensor.CollapseShapeOp", op)
    groups = [[dim.value.data for dim in group] for group in reshape.reassociation]
    source, result = static_shape(reshape.src), static_shape(reshape.result)
    if op.name == "tensor.expand_shape":
        return ev.element(
            reshape.src,
            [ev.at.linearize([indices[d] for d in g], [result[d] for d in g]) for g in groups],
        )
    if not groups:
        return ev.element(reshape.src, [0] * len(source))  # A single element, whatever its rank.
    expanded: list[Index] = []
    for index, group in zip(indices, groups, strict=True):
        expanded += ev.at.delinearize(index, [source[d] for d in group])
    return ev.element(reshape.src, expanded)


def _concat(ev: Evaluator, op: Operation, indices: list[Index]) -> SSAValue:
    concat = cast("tensor.ConcatOp", op)
    dim = concat.dim.value.data
    sizes = [static_shape(value)[dim] for value in concat.inputs]
    ends = list(accumulate(sizes))
    return _concat_of(ev, list(zip(concat.inputs, ends, strict=True)), dim, indices, 0)


def _concat_of(
    ev: Evaluator,
    parts: Sequence[tuple[SSAValue, int]],
    dim: int,
    indices: list[Index],
    begin: int,
) -> SSAValue:
    """The element at `indices`, which lies in one of `parts`; each has the index of its end, and
    the first begins at `begin`, which `indices` count from."""
    if len(parts) == 1:
        return ev.element(parts[0][0], indices)
    middle = len(parts) // 2
    first, rest = parts[:middle], parts[middle:]
    end = first[-1][1]
    size = end - begin
    shifted = [*indices[:dim], ev.at.sub(indices[dim], size), *indices[dim + 1 :]]
    return ev.choose(
        ev.at.less(indices[dim], size),
        lambda: _concat_of(ev, first, dim, indices, begin),
        lambda: _concat_of(ev, rest, dim, shifted, end),
    )


def _static_view(op: Operation) -> SliceView:
    view = slice_view(op)
    assert view is not None
    if None in (*view.offsets, *view.sizes, *view.strides):
        raise PassFailedException(
            f"a {op.name} with dynamic offsets, sizes or strides has no loops"
        )
    if not isinstance(view.source.type, TensorType):
        raise PassFailedException(f"{op.name} of {view.source.type} has no loops")
    return view


RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "tensor.cast": _cast,
    "tensor.collapse_shape": _reshape,
    "tensor.concat": _concat,
    "tensor.empty": _empty,
    "tensor.expand_shape": _reshape,
    "tensor.extract_slice": _extract_slice,
    "tensor.from_elements": _from_elements,
    "tensor.insert": _insert,
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "tensor.splat": _splat,
}
