"""`tensor.extract_slice` and `tensor.insert_slice`.

    rewrite:
      extract_slice %a, all of it                        -->  %a
      extract_slice of (extract_slice %a)                -->  extract_slice %a
      extract_slice of (insert_slice %s into %d)         -->  extract_slice %s, or %s, inside it
                                                         -->  extract_slice %d, outside of it,
                                                              and of up to 31 more below it
      extract_slice of (pad %a), inside %a               -->  extract_slice %a
      extract_slice of a splat, a fill, an empty         -->  the same, smaller
      insert_slice %s into %d, all of it                 -->  %s
      insert_slice %s into %d, %s has no element         -->  %d
      insert_slice of a splat into the same splat        -->  the splat
      insert_slice of (extract_slice %d) back into %d    -->  %d
      insert_slice %s into (insert_slice %t into %d),
        which overwrites all of %t                       -->  insert_slice %s into %d

Regions are compared dimension by dimension; where a number is dynamic, only an equal one helps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import OpResult, SSAValue
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.slices import SliceView, numbers, slice_view
from convir.passes.canonicalize.patterns.overlap import disjoint, same, within
from convir.passes.canonicalize.patterns.uniform import element_of, reshaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation
    from xdsl.pattern_rewriter import PatternRewriter


class SimplifyExtractSlice(RewritePattern):
    """A slice of what is whole, uniform, sliced or inserted is something simpler."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract_slice`; one view serves all of its rewrites."""
        view = slice_view(op)
        assert isinstance(op, tensor.ExtractSliceOp)
        if view is None:
            return
        if _is_whole(view):
            rewriter.replace(op, (), (view.source,))
            return
        if not isinstance(view.source, OpResult):
            return
        origin = view.source.op
        smaller = reshaped(origin, op.result.type, op.sizes)
        if smaller is not None:
            rewriter.replace(op, smaller)
            return
        below = slice_view(origin)
        if below is None:
            return
        simpler = (
            _composed(view, below)
            if below.kind == "extract_slice"
            else _beside_insertions(view, below)
        )
        if isinstance(simpler, SSAValue):
            rewriter.replace(op, (), (simpler,))
        elif simpler is not None:
            rewriter.replace(op, simpler)


class SimplifyInsertSlice(RewritePattern):
    """An insertion that writes everything, or nothing new, or over another insertion."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.insert_slice`; one view serves all of its rewrites."""
        view = slice_view(op)
        if view is None or view.dest is None:
            return
        if _is_whole(view):
            rewriter.replace(op, (), (view.source,))
        elif _is_vain(view, view.dest):
            rewriter.replace(op, (), (view.dest,))
        else:
            below = slice_view(_definer(view.dest))
            if below is not None and below.dest is not None and within(below, view) is not None:
                op.operands[_DEST] = below.dest
                rewriter.notify_op_modified(op)


def _is_whole(view: SliceView) -> bool:
    """True if the slice is all of the large tensor."""
    return view.small.type == view.large.type and all(view.covers(dim) for dim in range(view.rank))


def _is_vain(view: SliceView, dest: SSAValue) -> bool:
    """True if inserting changes nothing."""
    if 0 in view.mixed_sizes:
        return True
    element = element_of(dest)
    if element is not None and element == element_of(view.source):
        return True
    origin = _definer(view.source)
    if not isinstance(origin, tensor.ExtractSliceOp) or origin.source is not dest:
        return False
    extraction = slice_view(origin)
    return extraction is not None and same(view, extraction)


def _composed(outer: SliceView, inner: SliceView) -> Operation | None:
    """One slice for a slice of a slice, if offsets and strides are static."""
    if not (_is_placed(outer) and _is_placed(inner)):
        return None
    sizes = iter(_sizes(outer.op))
    kept = iter(_places(outer))
    places: list[tuple[int, SSAValue | int, int]] = []
    for dim, (offset, stride) in enumerate(_places(inner)):
        if dim in inner.dropped:
            places.append((offset, 1, stride))
            continue
        first, step = next(kept)
        places.append((offset + stride * first, next(sizes), stride * step))
    return _extract(inner.source, places, outer.result.type)


def _beside_insertions(view: SliceView, insertion: SliceView) -> Operation | SSAValue | None:
    """What a slice of an insertion or a pad reads, if it is of one side only.

    Insertions are looked through until one is not beside the slice; where more than MAX_INSERTIONS
    are, nothing is said.
    """
    source: SSAValue | None = None
    below: SliceView | None = insertion
    for _ in range(MAX_INSERTIONS):
        if below is None or below.kind == "extract_slice":
            break
        if same(view, below) and below.source.type == view.result.type:
            return below.source
        if below.dest is None or not disjoint(view, below):
            inside = _inside(view, below)
            if inside is not None:
                return inside
            break
        source = below.dest
        below = slice_view(_definer(source))
    else:
        return None
    return None if source is None else _with_source(view.op, source)


def _inside(view: SliceView, insertion: SliceView) -> Operation | None:
    """A slice of what is inserted, if the slice of the result lies in it."""
    places = None if insertion.dropped else within(view, insertion)
    if places is None:
        return None
    sized = zip(places, _sizes(view.op), strict=True)
    moved = [(offset, size, stride) for (offset, stride), size in sized]
    return _extract(insertion.source, moved, view.result.type)


MAX_INSERTIONS = 32
"""A slice looks through so many insertions: all slices of a long concatenation, each through all of
it, would take the square of its length."""

_DEST = 1
"""The position of an insertion's destination among its operands."""


def _definer(value: SSAValue) -> Operation | None:
    return value.op if isinstance(value, OpResult) else None


def _is_placed(view: SliceView) -> bool:
    """True if offsets and strides are static."""
    return None not in view.offsets and None not in view.strides


def _places(view: SliceView) -> Iterable[tuple[int, int]]:
    """Offset and stride, where all are static."""
    offsets, strides = cast("tuple[int, ...]", view.offsets), cast("tuple[int, ...]", view.strides)
    return zip(offsets, strides, strict=True)


def _sizes(op: Operation) -> list[SSAValue | int]:
    """The sizes of a slice as its operands and attributes have them."""
    assert isinstance(op, tensor.ExtractSliceOp)
    static = numbers(op.static_sizes)
    if DYNAMIC_INDEX not in static:
        return list(static)
    dynamic = iter(op.sizes)
    return [next(dynamic) if size == DYNAMIC_INDEX else size for size in static]


def _extract(
    source: SSAValue, places: Sequence[tuple[int, SSAValue | int, int]], result_type: Attribute
) -> tensor.ExtractSliceOp:
    offsets, sizes, strides = zip(*places, strict=True) if places else ((), (), ())
    return tensor.ExtractSliceOp(source, offsets, sizes, strides, result_type)


def _with_source(op: Operation, source: SSAValue) -> Operation:
    return type(op).create(
        operands=(source, *op.operands[1:]),
        result_types=op.result_types,
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )


PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.extract_slice": (SimplifyExtractSlice(),),
    "tensor.insert_slice": (SimplifyInsertSlice(),),
}
"""Operation name to the patterns that rewrite it."""
