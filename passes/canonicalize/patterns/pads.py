"""`tensor.pad`, unless it is marked `nofold`.

rewrite:
  pad %a by nothing, to its own type                 -->  %a
  pad of a splat or fill with its own element, static  -->  the same, larger
  pad with %c of (pad %a with %c), static            -->  pad %a with %c
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.ir import OpResult, SSAValue
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.slices import SliceView, slice_view
from convir.passes.canonicalize.patterns.uniform import bytes_of, element_of, reshaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute, Operation
    from xdsl.pattern_rewriter import PatternRewriter


class FoldEmptyPad(RewritePattern):
    """Padding by nothing is the source."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.pad`."""
        assert isinstance(op, tensor.PadOp)
        if op.nofold is not None:
            return
        amounts = (*op.static_low.get_values(), *op.static_high.get_values())
        if not any(amounts) and op.source.type == op.result.type:
            rewriter.replace(op, (), (op.source,))


class GrowUniformSource(RewritePattern):
    """Equal elements padded with one more of them are made in the size that is wanted."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.pad`."""
        view = _foldable(op)
        if view is None or not isinstance(view.source, OpResult):
            return
        element = element_of(view.source)
        if element is None or element != _padding(view):
            return
        result_type = cast("TensorType[Attribute]", op.results[0].type)
        made = reshaped(view.source.op, result_type) if result_type.has_static_shape() else None
        if made is not None:
            rewriter.replace(op, made)


class ComposePads(RewritePattern):
    """Padding what is padded with the same scalar is padding once, by both amounts."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.pad`."""
        view = _foldable(op)
        assert isinstance(op, tensor.PadOp)
        if view is None or not isinstance(view.source, OpResult):
            return
        inner_op = view.source.op
        inner = _foldable(inner_op)
        if inner is None or not isinstance(inner_op, tensor.PadOp):
            return
        padding = _padding(view)
        if padding is None or padding != _padding(inner) or _dynamic(op) or _dynamic(inner_op):
            return
        low = _sums(inner_op.static_low.get_values(), op.static_low.get_values())
        high = _sums(inner_op.static_high.get_values(), op.static_high.get_values())
        rewriter.replace(
            op,
            tensor.PadOp(
                inner.source,
                (),
                (),
                op.detach_region(op.region),
                low,
                high,
                op.result.type,
            ),
        )


def _foldable(op: Operation) -> SliceView | None:
    if not isinstance(op, tensor.PadOp) or op.nofold is not None:
        return None
    return slice_view(op)


def _padding(view: SliceView) -> SSAValue | bytes | None:
    """The scalar around the source, comparable with `element_of`."""
    scalar = view.fill
    if isinstance(scalar, OpResult) and isinstance(scalar.op, arith.ConstantOp):
        return bytes_of(scalar.op.value)
    return scalar


def _dynamic(op: tensor.PadOp) -> bool:
    return bool(op.low or op.high)


def _sums(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.pad": (FoldEmptyPad(), GrowUniformSource(), ComposePads()),
}
"""Operation name to the patterns that rewrite it."""
