"""`tensor.extract_slice` and `tensor.insert_slice`.

    rewrite:
      extract_slice %a, all of it                        -->  %a
      extract_slice of (extract_slice %a)                -->  extract_slice %a
      extract_slice of (insert_slice %s into %d)         -->  extract_slice %s, or %s, inside it
                                                         -->  extract_slice %d, outside of it
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

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import OpResult
from xdsl.pattern_rewriter import RewritePattern

from convir.dialects.slices import SliceView, slice_view
from convir.passes.canonicalization.overlap import disjoint, same, within
from convir.passes.canonicalization.uniform import element_of, reshaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue
    from xdsl.pattern_rewriter import PatternRewriter


@dataclass(frozen=True)
class FoldWholeSlice(RewritePattern):
    """A slice that is everything is what it slices, or what it inserts."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract_slice` and `tensor.insert_slice`."""
        view = slice_view(op)
        if view is None or view.small.type != view.large.type:
            return
        if all(view.covers(dim) for dim in range(view.rank)):
            rewriter.replace(op, (), (view.source,))


@dataclass(frozen=True)
class ShrinkUniformSource(RewritePattern):
    """A slice of equal elements, or of unspecified ones, is made in its own size."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract_slice`."""
        if not isinstance(op, tensor.ExtractSliceOp) or not isinstance(op.source, OpResult):
            return
        smaller = reshaped(op.source.op, op.result.type, op.sizes)
        if smaller is not None:
            rewriter.replace(op, smaller)


@dataclass(frozen=True)
class ComposeExtractSlices(RewritePattern):
    """A slice of a slice is one slice; offsets and strides are static."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract_slice`."""
        outer = _extraction(op)
        inner = None if outer is None else _extraction(_definer(outer.source))
        if outer is None or inner is None:
            return
        sizes = iter(_sizes(outer.op))
        places: list[tuple[int, SSAValue | int, int]] = []
        kept = iter(_places(outer))
        for dim, place in enumerate(_places(inner)):
            offset, stride = place
            if dim in inner.dropped:
                places.append((offset, 1, stride))
                continue
            first, step = next(kept)
            places.append((offset + stride * first, next(sizes), stride * step))
        rewriter.replace(op, _extract(inner.source, places, op.results[0].type))


@dataclass(frozen=True)
class ExtractBesideInsertion(RewritePattern):
    """A slice of a tensor with something inserted reads the one or the other, where it can tell."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract_slice`."""
        view = slice_view(op)
        if view is None or view.kind != "extract_slice":
            return
        insertion = slice_view(_definer(view.source))
        if insertion is None or insertion.kind == "extract_slice":
            return
        result_type = op.results[0].type
        if same(view, insertion) and insertion.source.type == result_type:
            rewriter.replace(op, (), (insertion.source,))
        elif insertion.dest is not None and disjoint(view, insertion):
            rewriter.replace(op, _with_source(op, insertion.dest))
        elif not insertion.dropped and (places := within(view, insertion)) is not None:
            sized = zip(places, _sizes(op), strict=True)
            moved = [(offset, size, stride) for (offset, stride), size in sized]
            rewriter.replace(op, _extract(insertion.source, moved, result_type))


@dataclass(frozen=True)
class FoldVainInsertion(RewritePattern):
    """An insertion that changes nothing is its destination."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.insert_slice`."""
        view = slice_view(op)
        if view is None or view.dest is None:
            return
        if 0 in view.mixed_sizes or _is_same_element(view.source, view.dest):
            rewriter.replace(op, (), (view.dest,))
            return
        origin = slice_view(_definer(view.source))
        if origin is None or origin.kind != "extract_slice" or origin.source is not view.dest:
            return
        if same(view, origin):
            rewriter.replace(op, (), (view.dest,))


@dataclass(frozen=True)
class SkipOverwrittenInsertion(RewritePattern):
    """What is overwritten at once need not be inserted."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.insert_slice`."""
        if not isinstance(op, tensor.InsertSliceOp):
            return
        view = slice_view(op)
        below = slice_view(_definer(op.dest))
        if view is None or below is None or below.dest is None:
            return
        if within(below, view) is not None:
            op.operands[_DEST] = below.dest
            rewriter.notify_op_modified(op)


_DEST = 1
"""The position of an insertion's destination among its operands."""


def _definer(value: SSAValue) -> Operation | None:
    return value.op if isinstance(value, OpResult) else None


def _extraction(op: Operation | None) -> SliceView | None:
    """The view of an extraction with static offsets and strides."""
    view = slice_view(op) if isinstance(op, tensor.ExtractSliceOp) else None
    if view is None or None in view.offsets or None in view.strides:
        return None
    return view


def _places(view: SliceView) -> Iterable[tuple[int, int]]:
    """Offset and stride, where all are static."""
    offsets, strides = cast("tuple[int, ...]", view.offsets), cast("tuple[int, ...]", view.strides)
    return zip(offsets, strides, strict=True)


def _sizes(op: Operation) -> list[SSAValue | int]:
    """The sizes of a slice as its operands and attributes have them."""
    assert isinstance(op, tensor.ExtractSliceOp)
    dynamic = iter(op.sizes)
    return [
        next(dynamic) if size == DYNAMIC_INDEX else size for size in op.static_sizes.get_values()
    ]


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


def _is_same_element(source: SSAValue, dest: SSAValue) -> bool:
    element = element_of(dest)
    return element is not None and element == element_of(source)


PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.extract_slice": (
        FoldWholeSlice(),
        ShrinkUniformSource(),
        ComposeExtractSlices(),
        ExtractBesideInsertion(),
    ),
    "tensor.insert_slice": (
        FoldWholeSlice(),
        FoldVainInsertion(),
        SkipOverwrittenInsertion(),
    ),
}
"""Operation name to the patterns that rewrite it."""
