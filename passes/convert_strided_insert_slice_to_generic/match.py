"""What an insertion or a pad scatters, dimension by dimension, and who is beside it.

Everything here reads `convir.analysis.slices.SliceView`; a pad around a scatter counts as one
scatter with more room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from xdsl.dialects import tensor
from xdsl.ir import OpResult, SSAValue

from convir.analysis.contraction import contraction_dims
from convir.analysis.refusal import Refusal
from convir.analysis.slices import size_of, slice_view
from convir.analysis.structured import structured
from convir.analysis.values.scalars import scalar_constant
from convir.analysis.values.zeros import fill_of

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from convir.analysis.slices import Mixed, Size, SliceView
    from convir.analysis.values.scalars import Constant

_RESHAPES: Final = (tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.CastOp)
"""What may stand between a scatter and what reads or computes it without moving an element."""

_MAX_RESHAPES: Final = 16
"""Longer chains of reshapes are not followed."""


@dataclass(frozen=True)
class ScatterDim:
    """One dimension of the scattered tensor."""

    offset: Mixed
    """The position of the first source element."""
    size: Size
    """How many source elements there are."""
    stride: Mixed
    """The distance of one source element from the next, at least 1."""
    extent: Size
    """The size of the scattered tensor."""
    in_source: bool
    """False where the source lacks the dimension, and `size` is 1."""
    covers: bool
    """True if the source provably fills the dimension, position by position."""


def scatter_dims(view: SliceView) -> tuple[ScatterDim, ...]:
    """What each dimension of an insertion or a pad does."""
    return tuple(
        ScatterDim(
            offset=view.mixed_offsets[dim],
            size=size,
            stride=1 if size == 1 else view.mixed_strides[dim],
            extent=extent,
            in_source=dim not in view.dropped,
            covers=view.covers(dim) or extent == 1,
        )
        for dim, (size, extent) in enumerate(
            (view.mixed_sizes[dim], size_of(view.result, dim)) for dim in range(view.rank)
        )
    )


def hole_of(view: SliceView) -> SSAValue | Constant | None:
    """The scalar that every hole holds; None if the destination's elements show in them."""
    if view.dest is not None:
        return fill_of(view.dest)
    constant = None if view.fill is None else scalar_constant(view.fill)
    return view.fill if constant is None else constant


def scatter_view(op: Operation) -> SliceView | None:
    """The insertion or pad `op`; a pad around a strided insertion of its own is that insertion."""
    view = slice_view(op)
    if view is None or view.kind != "pad":
        return view
    inner = _padded_scatter(view)
    if inner is None:
        return view
    offsets: list[Mixed] = []
    for low, offset in zip(view.mixed_offsets, inner.mixed_offsets, strict=True):
        if low == 0 or offset == 0:
            offsets.append(offset if low == 0 else low)
        elif isinstance(low, int) and isinstance(offset, int):
            offsets.append(low + offset)
        else:
            return view
    return replace(
        inner, op=op, kind="pad", dest=None, fill=view.fill, mixed_offsets=tuple(offsets)
    )


def pad_around(op: Operation) -> SliceView | None:
    """The scatter of the pad that includes the insertion `op`, if one does."""
    result = op.results[0]
    if not result.has_one_use():
        return None
    view = scatter_view(next(iter(result.uses)).operation)
    return None if view is None or view.kind != "pad" or view.source is result else view


def _padded_scatter(pad: SliceView) -> SliceView | None:
    """The strided insertion that `pad` alone reads, if its holes hold what the pad adds."""
    if not isinstance(pad.source, OpResult) or not pad.source.has_one_use():
        return None
    inner = slice_view(pad.source.op)
    if inner is None or inner.kind != "insert_slice" or not inner.strided:
        return None
    hole = hole_of(inner)
    return inner if hole is not None and hole == hole_of(pad) else None


def feeds_contraction(value: SSAValue) -> bool:
    """True if a contraction reads `value` as a factor, itself or reshaped."""
    values = [value]
    for _ in range(_MAX_RESHAPES):
        if not values:
            return False
        current = values.pop()
        for use in current.uses:
            if isinstance(use.operation, _RESHAPES):
                values.append(use.operation.results[0])
                continue
            dims = contraction_dims(use.operation)
            if not isinstance(dims, Refusal) and current in (dims.lhs.value, dims.rhs.value):
                return True
    return False


def is_stored_by_producer(view: SliceView) -> bool:
    """True if one linalg op computes the source for this scatter alone."""
    value = view.source
    for _ in range(_MAX_RESHAPES):
        if not isinstance(value, OpResult) or not value.has_one_use():
            return False
        if not isinstance(value.op, _RESHAPES):
            return structured(value.op) is not None
        value = value.op.operands[0]
    return False
