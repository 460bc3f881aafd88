"""`tensor.extract_slice` and `tensor.insert_slice`.

rewrite: extract_slice %a, all of it, same type    -->  %a
         insert_slice %a into %b, all of it        -->  %a
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.pattern_rewriter import RewritePattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Operation, SSAValue
    from xdsl.pattern_rewriter import PatternRewriter


def _covers(op: tensor.ExtractSliceOp | tensor.InsertSliceOp, whole: SSAValue) -> bool:
    """True if the slice is every element of `whole`, whose shape is static."""
    whole_type = whole.type
    return (
        isinstance(whole_type, TensorType)
        and whole_type.has_static_shape()
        and op.static_sizes.get_values() == whole_type.get_shape()
        and all(offset == 0 for offset in op.static_offsets.get_values())
        and all(stride == 1 for stride in op.static_strides.get_values())
    )


@dataclass(frozen=True)
class FoldWholeExtractSlice(RewritePattern):
    """An extract_slice of everything is its source."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.extract_slice`."""
        if not isinstance(op, tensor.ExtractSliceOp) or op.result.type != op.source.type:
            return
        if _covers(op, op.source):
            rewriter.replace(op, (), (op.source,))


@dataclass(frozen=True)
class FoldWholeInsertSlice(RewritePattern):
    """An insert_slice over everything is its source."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match `tensor.insert_slice`."""
        if not isinstance(op, tensor.InsertSliceOp) or op.source.type != op.dest.type:
            return
        if _covers(op, op.dest):
            rewriter.replace(op, (), (op.source,))


PATTERNS: Mapping[str, tuple[RewritePattern, ...]] = {
    "tensor.extract_slice": (FoldWholeExtractSlice(),),
    "tensor.insert_slice": (FoldWholeInsertSlice(),),
}
"""Operation name to the patterns that rewrite it."""
