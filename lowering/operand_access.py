"""Where the elements of an operand really lie: through slices, padding and rearrangements.

A kernel's contraction may read an argument through ops that compute nothing: an extract_slice, a
pad with zeros, a transpose, the flip of a filter. They change at which index of the argument an
element is found, and implementations that can address it need no copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import BlockArgument, Operation, OpResult

from convir.dialects.linear import LinearIndex, linear_map
from convir.dialects.refusal import Refusal
from convir.dialects.slices import slice_view
from convir.dialects.structured import structured
from convir.dialects.zeros import is_zero

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.dialects.slices import SliceView
    from convir.dialects.structured import Structured


@dataclass(frozen=True)
class Access:
    """An operand as elements of an argument."""

    root: BlockArgument
    index: tuple[LinearIndex, ...]
    """Per dimension of the argument: its index as a form over the loops of the reader."""
    padded: bool
    """Whether indices outside of the argument occur; they read zeros."""


@dataclass(frozen=True)
class Rearrangement:
    """An op whose result holds elements of `source`, each at another index."""

    source: SSAValue
    index: tuple[LinearIndex, ...]
    """Per dimension of the source: its index as a form over the dimensions of the result."""


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a ranked tensor."""
    return cast("TensorType[Attribute]", value.type).get_shape()


def access_of(value: SSAValue, index: Sequence[LinearIndex]) -> Access | Refusal:
    """Follow `value`, which is read at `index`, to an argument of the kernel."""
    if isinstance(value, BlockArgument):
        value_type = value.type
        if not isinstance(value_type, TensorType) or DYNAMIC_INDEX in value_type.get_shape():
            return Refusal("a size is dynamic")
        return Access(value, tuple(index), padded=False)
    op = cast("OpResult", value).op
    found = rearrangement(op)
    if found is not None:
        return access_of(found.source, [form.composed(index) for form in found.index])
    view = slice_view(op)
    if view is None or view.dropped or view.kind == "insert_slice":
        return Refusal("an input is computed in the kernel")
    if None in (*view.offsets, *view.strides):
        return Refusal("a slice is dynamic")
    offsets = cast("tuple[int, ...]", view.offsets)
    if view.kind == "pad":
        return _through_pad(view, offsets, index)
    strides = cast("tuple[int, ...]", view.strides)
    forms = [
        form.affine(stride, offset)
        for form, stride, offset in zip(index, strides, offsets, strict=True)
    ]
    return access_of(view.source, forms)


def _through_pad(
    view: SliceView, offsets: Sequence[int], index: Sequence[LinearIndex]
) -> Access | Refusal:
    if view.fill is None or not is_zero(view.fill):
        return Refusal("it pads with another value than zero")
    forms = [form.affine(1, -low) for form, low in zip(index, offsets, strict=True)]
    source = view.source
    if isinstance(source, OpResult):
        moved = rearrangement(source.op)
        if moved is not None and _permutes(moved, len(forms)):
            source, forms = moved.source, [form.composed(forms) for form in moved.index]
    if not isinstance(source, BlockArgument):
        return Refusal("it pads a part of an argument")
    return Access(source, tuple(forms), padded=True)


def _permutes(moved: Rearrangement, rank: int) -> bool:
    """Whether each dimension of the source is another dimension of the result: none is cut."""
    return sorted(form.bare if form.bare is not None else -1 for form in moved.index) == list(
        range(rank)
    )


def rearrangement(op: Operation) -> Rearrangement | None:
    """`op` as a rearrangement; None if it computes anything, or not every element.

    A generic that yields its input through a linear map, or an element that it extracts at
    indices which are linear in its own: a transpose, a filter flip.
    """
    view = structured(op)
    if view is None or len(view.inits) != 1 or set(view.iterators) - {"parallel"}:
        return None
    out = linear_map(view.init_maps[0])
    if out is None or [form.bare for form in out] != list(range(len(view.iterators))):
        return None
    terminator = view.body.last_op
    if terminator is None or len(terminator.operands) != 1:
        return None
    yielded = terminator.operands[0]
    if isinstance(yielded, BlockArgument):
        return _of_input(view, yielded)
    extract = cast("OpResult", yielded).op
    if not isinstance(extract, tensor.ExtractOp) or extract.parent is not view.body:
        return None
    forms = [_index_form(index) for index in extract.indices]
    if None in forms:
        return None
    return Rearrangement(extract.tensor, tuple(cast("list[LinearIndex]", forms)))


def _of_input(view: Structured, argument: BlockArgument) -> Rearrangement | None:
    if argument.index >= len(view.inputs):
        return None
    source = view.inputs[argument.index]
    forms = linear_map(view.maps[argument.index])
    if forms is None or not isinstance(source.type, TensorType):
        return None
    return Rearrangement(source, forms)


def _index_form(value: SSAValue) -> LinearIndex | None:
    """An index computed from `linalg.index` and constants by sums and differences."""
    if not isinstance(value, OpResult):
        return None
    match value.op:
        case IndexOp() as index:
            return LinearIndex(((index.dim.value.data, 1),))
        case arith.ConstantOp(value=IntegerAttr() as constant):
            return LinearIndex((), constant.value.data)
        case arith.AddiOp() | arith.SubiOp() as op:
            lhs, rhs = _index_form(op.lhs), _index_form(op.rhs)
            if lhs is None or rhs is None:
                return None
            return lhs.plus(rhs.affine(-1, 0) if isinstance(op, arith.SubiOp) else rhs)
        case _:
            return None
