"""`tensor.collapse_shape`, `tensor.expand_shape` and `tensor.reshape`.

    rewrite:
      reshape of %a to its own type                  -->  %a
      reshape of (reshape of %a), static             -->  %a, or one collapse or expand of %a
      collapse of (collapse of %a)                   -->  collapse of %a
      expand of (expand of %a)                       -->  expand of %a
      collapse of (expand of %a) back to its type    -->  %a
      reshape of a constant, a splat, a fill, an empty, static  -->  the same in the new shape

All of them keep the elements in row-major order, so that of a chain of static reshapes only the
first and the last shape matter. A chain stays where its ends are neither a collapse nor an expand
of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    TensorType,
)
from xdsl.ir import OpResult
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.reshapes import collapse_shape, expand_shape, groups_of
from convir.passes.canonicalize.patterns.uniform import constant, reshaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute, Operation
    from xdsl.pattern_rewriter import PatternRewriter

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Which dimensions of the larger shape each dimension of the smaller one stands for."""

AnyTensor: TypeAlias = "TensorType[Attribute]"

_RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)


def groups_between(fine: Sequence[int], coarse: Sequence[int]) -> Groups | None:
    """How static `fine` collapses to `coarse`, None if it does not or if it has no elements."""
    if 0 in fine or 0 in coarse:
        return None
    groups: list[list[int]] = []
    position = 0
    for size in coarse:
        group: list[int] = []
        product = 1
        while position < len(fine) and (product < size or not group):
            product *= fine[position]
            group.append(position)
            position += 1
        if product != size or not group:
            return None
        groups.append(group)
    rest = range(position, len(fine))
    if any(fine[dim] != 1 for dim in rest):
        return None
    if rest and groups:
        groups[-1].extend(rest)
    return tuple(tuple(group) for group in groups)


class FoldIdentityReshape(RewritePattern):
    """A reshape to the same type is its source."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match any of the three."""
        source = op.operands[0]
        if op.results[0].type != source.type or not _keeps_dims(op):
            return
        rewriter.replace(op, (), (source,))


class ReshapeUniformSource(RewritePattern):
    """Equal elements, or unspecified ones, are made in the shape that is wanted."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match any of the three, with a static result."""
        source, result_type = op.operands[0], cast("AnyTensor", op.results[0].type)
        if not isinstance(source, OpResult) or not result_type.has_static_shape():
            return
        if source.op.name == "linalg.fill" and not source.has_one_use():
            return
        made = reshaped(source.op, result_type)
        if made is not None:
            rewriter.replace(op, made)


class ReshapeConstant(RewritePattern):
    """The elements of a constant that nothing else uses move to the new shape as they are."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match any of the three, with a static result."""
        source, result_type = op.operands[0], cast("AnyTensor", op.results[0].type)
        if not isinstance(source, OpResult) or not isinstance(source.op, ConstantOp):
            return
        dense = source.op.value
        if not isinstance(dense, DenseIntOrFPElementsAttr) or not result_type.has_static_shape():
            return
        if source.has_one_use():
            rewriter.replace(op, constant(dense.data.data, result_type))


class ComposeStaticReshapes(RewritePattern):
    """Of a chain of static reshapes only the ends matter."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match collapse and expand of either."""
        first = _reshape_below(op)
        if first is None:
            return
        source = first.operands[0]
        source_type = cast("AnyTensor", source.type)
        result_type = cast("AnyTensor", op.results[0].type)
        if not (source_type.has_static_shape() and result_type.has_static_shape()):
            return
        if source_type == result_type:
            rewriter.replace(op, (), (source,))
            return
        before, after = source_type.get_shape(), result_type.get_shape()
        if len(after) <= len(before) and (groups := groups_between(before, after)) is not None:
            rewriter.replace(op, collapse_shape(source, groups, result_type))
        elif len(after) > len(before) and (groups := groups_between(after, before)) is not None:
            rewriter.replace(op, expand_shape(source, groups, result_type))


class ComposeDynamicReshapes(RewritePattern):
    """Two reshapes in one direction are one, whatever the sizes; a collapse undoes its expand."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match a collapse of a collapse or an expand, and an expand of an expand."""
        first = _reshape_below(op)
        if first is None:
            return
        source, result_type = first.operands[0], cast("AnyTensor", op.results[0].type)
        match first, op:
            case tensor.CollapseShapeOp(), tensor.CollapseShapeOp():
                groups = _composed(fine=groups_of(first), coarse=groups_of(op))
                rewriter.replace(op, collapse_shape(source, groups, result_type))
            case tensor.ExpandShapeOp(), tensor.ExpandShapeOp():
                groups = _composed(fine=groups_of(op), coarse=groups_of(first))
                expanded = expand_shape(source, groups, result_type, op.dynamic_output_shape)
                rewriter.replace(op, expanded)
            case tensor.ExpandShapeOp(), tensor.CollapseShapeOp():
                if groups_of(first) == groups_of(op) and source.type == result_type:
                    rewriter.replace(op, (), (source,))
            case _:
                return


def _reshape_below(op: Operation) -> tensor.CollapseShapeOp | tensor.ExpandShapeOp | None:
    source = op.operands[0]
    return source.op if isinstance(source, OpResult) and isinstance(source.op, _RESHAPES) else None


def _keeps_dims(op: Operation) -> bool:
    """True if equal types mean equal shapes: no two dynamic dimensions may trade sizes."""
    shape = cast("AnyTensor", op.results[0].type).get_shape()
    if isinstance(op, _RESHAPES) and all(len(group) == 1 for group in groups_of(op)):
        return True
    dynamic = shape.count(DYNAMIC_INDEX)
    return dynamic == 0 or (dynamic == 1 and 0 not in shape)


def _composed(fine: Groups, coarse: Groups) -> Groups:
    """The groups of two collapses, the finer first."""
    return tuple(tuple(dim for group in outer for dim in fine[group]) for outer in coarse)


_PATTERNS: tuple[RewritePattern, ...] = (
    FoldIdentityReshape(),
    ReshapeUniformSource(),
    ReshapeConstant(),
)
_COMPOSING: tuple[RewritePattern, ...] = (ComposeStaticReshapes(), ComposeDynamicReshapes())

PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.collapse_shape": _PATTERNS + _COMPOSING,
    "tensor.expand_shape": _PATTERNS + _COMPOSING,
    "tensor.reshape": _PATTERNS,
}
"""Operation name to the patterns that rewrite it."""
