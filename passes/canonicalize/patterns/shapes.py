"""`tensor.cast` and `tensor.dim`.

rewrite:
  cast %a to its own type                  -->  %a
  cast of (cast of %a)                     -->  cast of %a, unless static sizes contradict
  cast of an empty, a splat, a fill to a static type   -->  the same with that type
  dim of a static dimension                -->  constant
  dim of an empty, a splat, a fill, a slice, an insertion  -->  the size that it was made with
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType
from xdsl.ir import OpResult
from xdsl.pattern_rewriter import RewritePattern

from convir.analysis.slices import DimOf, index_of, size_of
from convir.passes.canonicalize.patterns.uniform import reshaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Attribute, Operation
    from xdsl.pattern_rewriter import PatternRewriter


class FoldCast(RewritePattern):
    """A cast to the same type is its source; of two casts the first is skipped."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.cast`."""
        assert isinstance(op, tensor.CastOp)
        if op.source.type == op.dest.type:
            rewriter.replace(op, (), (op.source,))
            return
        if not isinstance(op.source, OpResult) or not isinstance(op.source.op, tensor.CastOp):
            return
        origin = op.source.op.source
        if origin.type == op.dest.type:
            rewriter.replace(op, (), (origin,))
        elif _compatible(origin.type, op.dest.type):
            rewriter.replace(op, tensor.CastOp(origin, cast("TensorType[Attribute]", op.dest.type)))


class CastUniformSource(RewritePattern):
    """Equal elements, or unspecified ones, are made in the static shape that is wanted."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.cast`."""
        assert isinstance(op, tensor.CastOp)
        if not isinstance(op.source, OpResult):
            return
        result_type = op.dest.type
        if not isinstance(result_type, TensorType) or not result_type.has_static_shape():
            return
        made = reshaped(op.source.op, result_type)
        if made is not None:
            rewriter.replace(op, made)


class FoldDim(RewritePattern):
    """The size of a dimension is a number, or what the tensor was made with."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.dim` of a constant dimension that exists."""
        assert isinstance(op, tensor.DimOp)
        source_type: Attribute = op.source.type
        dim = index_of(op.index)
        if not isinstance(dim, int) or not isinstance(source_type, TensorType):
            return
        if not 0 <= dim < len(source_type.get_shape()):
            return
        size = size_of(op.source, dim)
        if isinstance(size, int):
            rewriter.replace(op, _index(size))
        elif not isinstance(size, DimOf):
            rewriter.replace(op, (), (size,))
        elif size.value is not op.source:
            constant = _index(size.dim)
            rewriter.replace(op, (constant, tensor.DimOp(size.value, constant)))


def _compatible(one: Attribute, other: Attribute) -> bool:
    """True if a cast between the two types is valid."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    if len(one.get_shape()) != len(other.get_shape()):
        return False
    return all(
        a == b or DYNAMIC_INDEX in (a, b)
        for a, b in zip(one.get_shape(), other.get_shape(), strict=True)
    )


def _index(number: int) -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr.from_index_int_value(number))


PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.cast": (FoldCast(), CastUniformSource()),
    "tensor.dim": (FoldDim(),),
}
"""Operation name to the patterns that rewrite it."""
