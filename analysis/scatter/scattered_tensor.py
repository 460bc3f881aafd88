"""Tensors that are zero except where a dense tensor was scattered into them.

A scatter starts at a `tensor.insert_slice` into zeros or a `tensor.pad` with zeros. Further
insertions, pads, extractions and reshapes of it are followed, and so are elementwise ops with
f(0) = 0, transpositions and casts among them. Whatever IR spells the zero-stuffing, its reader
sees one dense source and where each dimension's elements lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult

from convir.analysis.refusal import Refusal
from convir.analysis.reshapes import groups_of
from convir.analysis.scatter.elementwise import Elementwise, elementwise
from convir.analysis.scatter.placement import (
    Digits,
    Placement,
    covers,
    place,
    product,
    read,
    simplified,
    split,
    uncropped,
)
from convir.analysis.slices import SliceView, ranked, size_of, sizes_of, slice_view
from convir.analysis.structured import structured
from convir.analysis.values.scalars import constant_of, number_of
from convir.analysis.values.zeros import is_zero

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from convir.analysis.slices import Size

# Ops between the scatter and its reader that are followed.
_MAX_PATH: Final = 32


@dataclass(frozen=True)
class LostScatter(Refusal):
    """A scatter that was found, and that some op on the way makes impossible to follow."""

    path: tuple[Operation, ...]
    """The ops from the scatter itself to the last one that could be followed."""

    @property
    def op(self) -> Operation:
        """The insertion or pad that scatters."""
        return _origin(self.path)


@dataclass(frozen=True)
class Applied:
    """The dense result of an elementwise op with f(0) = 0 on a scatter's elements."""

    step: Elementwise
    scatter: Scatter


@dataclass(frozen=True)
class Scatter:
    """A dense `source`, and where its elements lie in a tensor that is zero elsewhere.

    In row-major order, the source's elements are those of the digits of `dims`, each digit of
    `source_size` elements of which `size` are placed.
    """

    source: SSAValue | Applied
    source_sizes: tuple[Size, ...]
    """The sizes of the source's dimensions; where its type is open, as its insertion has them."""
    dims: tuple[Digits, ...]
    """The placements of each dimension of the tensor."""
    path: tuple[Operation, ...]
    """The ops from the scatter itself to the one that defines the tensor."""

    @property
    def op(self) -> Operation:
        """The insertion or pad that scatters."""
        return _origin(self.path)

    @property
    def placements(self) -> Digits:
        """The placements of all dimensions, in row-major order."""
        return tuple(placement for digits in self.dims for placement in digits)

    @property
    def strided(self) -> bool:
        """True if there are gaps between elements of the source."""
        return any(placement.stride != 1 for placement in self.placements)

    def covers(self, dim: int) -> bool:
        """True if dimension `dim` provably has no gap."""
        return covers(self.dims[dim])


def scatter_of(value: SSAValue) -> Scatter | Refusal:
    """The scatter that defines the tensor `value`, or why there is none that is understood."""
    return _scatter_of(value, _MAX_PATH)


def _scatter_of(value: SSAValue, depth: int) -> Scatter | Refusal:
    if depth <= 0 or not isinstance(value, OpResult) or not isinstance(value.type, TensorType):
        return Refusal("it is not scattered into zeros")
    match value.op:
        case tensor.InsertSliceOp() | tensor.PadOp():
            return _of_insertion(value.op, depth)
        case tensor.ExtractSliceOp(source=source):
            return _of_extraction(value.op, _scatter_of(source, depth - 1))
        case tensor.CollapseShapeOp(src=source):
            return _of_collapse(value.op, _scatter_of(source, depth - 1))
        case tensor.ExpandShapeOp(src=source):
            return _of_expansion(value.op, _scatter_of(source, depth - 1))
        case _:
            return _of_elementwise(value.op, depth)


def _lost(inner: Scatter, reason: str) -> Refusal:
    return LostScatter(reason, inner.path)


def _origin(path: tuple[Operation, ...]) -> Operation:
    """The first strided insertion on the way, or where the way begins."""
    views = (slice_view(op) for op in path)
    strided = (
        view.op for view in views if view is not None and view.dest is not None and view.strided
    )
    return next(strided, path[0])


def _of_insertion(op: Operation, depth: int) -> Scatter | Refusal:
    view = slice_view(op)
    if view is None:
        return Refusal(f"the offsets, sizes and strides of its {op.name} do not fit its types")
    return _placed(view, depth)


def _placed(view: SliceView, depth: int) -> Scatter | Refusal:
    """The scatter that an insertion makes of its source, which may be a scatter itself."""
    if not _into_zeros(view):
        where = "padded with" if view.dest is None else "inserted into"
        return Refusal(f"it is not {where} zeros")
    if 0 in view.mixed_sizes:
        return Refusal("nothing is inserted")
    inner = _scatter_of(view.source, depth - 1)
    if isinstance(inner, Refusal):
        inner = _dense(view)
    dims: list[Digits] = []
    for dim in range(view.rank):
        small = view.small_dim(dim)
        extent = size_of(view.large, dim)
        digits = () if small is None else inner.dims[small]
        offset, stride = view.mixed_offsets[dim], view.mixed_strides[dim]
        if view.covers(dim):
            dims.append(digits)
            continue
        placed = place(digits, offset, stride, extent)
        if placed is None:
            return Refusal(f"dimension {dim} is scattered twice in a way that does not compose")
        dims.append(simplified(placed))
    return replace(inner, dims=tuple(dims), path=(*inner.path, view.op))


def _into_zeros(view: SliceView) -> bool:
    if view.dest is not None:
        return is_zero(view.dest)
    return view.fill is not None and is_zero(view.fill)


def _dense(view: SliceView) -> Scatter:
    """What an insertion inserts as a scatter of itself, without gaps."""
    kept = [size for dim, size in enumerate(view.mixed_sizes) if dim not in view.dropped]
    sizes = tuple(
        size if isinstance(size, int) else kept[dim]
        for dim, size in enumerate(sizes_of(view.source))
    )
    return Scatter(view.source, sizes, tuple((Placement.whole(size),) for size in sizes), ())


def _of_extraction(op: Operation, inner: Scatter | Refusal) -> Scatter | Refusal:
    view = slice_view(op)
    if isinstance(inner, Refusal):
        return inner
    if view is None:
        return _lost(inner, f"the offsets, sizes and strides of a {op.name} do not fit its types")
    dims: list[Digits] = []
    dropped: Digits = ()
    for dim, digits in enumerate(inner.dims):
        seen = read(digits, view.mixed_offsets[dim], view.mixed_strides[dim], view.mixed_sizes[dim])
        if seen is None:
            return _lost(
                inner, f"what its extract_slice reads of dimension {dim} is nothing, or not known"
            )
        if dim in view.dropped:
            dropped = (*dropped, *seen)
            continue
        dims.append(simplified((*dropped, *seen)))
        dropped = ()
    if dropped and not dims:
        return _lost(inner, "its extract_slice drops every dimension")
    if dropped:
        dims[-1] = simplified((*dims[-1], *dropped))
    return replace(inner, dims=tuple(dims), path=(*inner.path, op))


def _of_collapse(op: tensor.CollapseShapeOp, inner: Scatter | Refusal) -> Scatter | Refusal:
    if isinstance(inner, Refusal):
        return inner
    if not op.reassociation and any(simplified(digits) for digits in inner.dims):
        return _lost(inner, "its collapse_shape drops every dimension")
    dims: list[Digits] = []
    for group in groups_of(op):
        digits = tuple(placement for dim in group for placement in inner.dims[dim])
        dims.append(simplified(digits))
    return replace(inner, dims=tuple(dims), path=(*inner.path, op))


def _of_expansion(op: tensor.ExpandShapeOp, inner: Scatter | Refusal) -> Scatter | Refusal:
    if isinstance(inner, Refusal):
        return inner
    dims: list[Digits] = [()] * len(ranked(op.result).get_shape()) if not inner.dims else []
    for digits, group in zip(inner.dims, groups_of(op), strict=True):
        if len(group) == 1:
            dims.append(digits)
            continue
        parts = split(digits, [size_of(op.result, dim) for dim in group])
        if parts is None:
            return _lost(inner, "its expand_shape divides a dimension between scattered elements")
        dims.extend(simplified(part) for part in parts)
    return replace(inner, dims=tuple(dims), path=(*inner.path, op))


def _of_elementwise(op: Operation, depth: int) -> Scatter | Refusal:
    """An op with f(0) = 0 on a scatter is the scatter of the op on the elements."""
    view = structured(op)
    if view is None or any(iterator != "parallel" for iterator in view.iterators):
        return Refusal("it is not scattered into zeros")
    if any(isinstance(inner, tensor.ExtractOp) for inner in view.body.ops):
        return _of_generic(op, depth)
    tensors = [value for value in view.inputs if isinstance(value.type, TensorType)]
    if len(tensors) != 1:
        return Refusal("it is not scattered into zeros")
    (operand,) = tensors
    inner = _scatter_of(operand, depth - 1)
    if isinstance(inner, Refusal):
        return inner
    zero = constant_of(0, view.body.args[view.inputs.index(operand)].type)
    if zero is None:
        return _lost(inner, f"{op.name} works on neither floats nor integers")
    step = elementwise(op, operand, inner.dims, zero)
    if isinstance(step, Refusal):
        return _lost(inner, step.reason)
    if number_of(step.hole) != 0:
        return _lost(inner, f"{op.name} turns its zeros into {number_of(step.hole)}")
    dims = tuple(tuple(uncropped(p) for p in digits) for digits in step.result)
    sizes: list[Size] = []
    for digits in dims:
        size = product([placement.size for placement in digits])
        if size is None:
            return _lost(inner, f"{op.name} works on a dimension of several dynamic sizes")
        sizes.append(size)
    return Scatter(Applied(step, inner), tuple(sizes), dims, (*inner.path, op))


def _of_generic(op: Operation, depth: int) -> Scatter | Refusal:
    """A scatter that is spelled out by index arithmetic."""
    # It evaluates the arithmetic with NumPy, which no other reader of a scatter has to load.
    from convir.analysis.scatter.generic import scatter_generic  # noqa: PLC0415

    view = scatter_generic(op)
    return view if isinstance(view, Refusal) else _placed(view, depth)


def narrowed(scatter: Scatter, dim: int, digits: Digits) -> Scatter:
    """The scatter with the placements of dimension `dim` replaced."""
    dims = tuple(digits if i == dim else old for i, old in enumerate(scatter.dims))
    return replace(scatter, dims=dims)
