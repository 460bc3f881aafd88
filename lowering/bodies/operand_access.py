"""Where the elements of an operand really lie: through slices, padding and rearrangements.

A kernel's contraction may read an argument through ops that compute nothing: an extract_slice, a
pad with a constant, a transpose, the flip of a filter. They change at which index of the argument
an element is found, and implementations that can address it need no copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, TensorType
from xdsl.ir import BlockArgument, OpResult

from convir.analysis.rearrangement import rearrangement
from convir.analysis.refusal import Refusal
from convir.analysis.slices import slice_view
from convir.analysis.values.scalars import scalar_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.analysis.linear import LinearIndex
    from convir.analysis.rearrangement import Rearrangement
    from convir.analysis.slices import SliceView


@dataclass(frozen=True)
class Access:
    """An operand as elements of an argument."""

    root: BlockArgument
    index: tuple[LinearIndex, ...]
    """Per dimension of the argument: its index as a form over the loops of the reader."""
    padded: bool
    """Whether indices outside of the argument occur; they read `fill`."""
    fill: int = 0


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
    fill = pad_value(view)
    if fill is None:
        return Refusal("it pads with another value than zero or a constant integer")
    forms = [form.affine(1, -low) for form, low in zip(index, offsets, strict=True)]
    source = view.source
    if isinstance(source, OpResult):
        cut = slice_view(source.op)
        if cut is not None and _cuts_beside(cut, view):
            placed = zip(forms, cut.offsets, cut.strides, strict=True)
            forms = [form.affine(cast("int", s), cast("int", o)) for form, o, s in placed]
            source = cut.source
    if isinstance(source, OpResult):
        moved = rearrangement(source.op)
        if moved is not None and _permutes(moved, len(forms)):
            source, forms = moved.source, [form.composed(forms) for form in moved.index]
    if not isinstance(source, BlockArgument):
        return Refusal("it pads a part of an argument")
    return Access(source, tuple(forms), padded=True, fill=fill)


def pad_value(view: SliceView) -> int | None:
    """What a pad writes around its source: zero of any type, or an integer; None if neither."""
    constant = None if view.fill is None else scalar_constant(view.fill)
    if constant is None or (isinstance(constant, FloatAttr) and constant.value.data != 0):
        return None
    return int(constant.value.data)


def _cuts_beside(cut: SliceView, pad: SliceView) -> bool:
    """Whether a slice takes part of dimensions alone that the pad around it leaves as they are.

    In any other, what lies beside the slice would be read in place of the zeros.
    """
    if cut.kind != "extract_slice" or cut.dropped or None in (*cut.offsets, *cut.strides):
        return False
    sizes = zip(*(shape_of(x) for x in (cut.source, pad.source, pad.result)), strict=True)
    return all(whole == part or part == padded for whole, part, padded in sizes)


def _permutes(moved: Rearrangement, rank: int) -> bool:
    """Whether each dimension of the source is another dimension of the result: none is cut."""
    return sorted(form.bare if form.bare is not None else -1 for form in moved.index) == list(
        range(rank)
    )
