"""The pass API: a pass of one's own, run between convir's, with its decisions as data.

    python examples/pass_api.py

The pass removes a `tensor.insert_slice` that overwrites its whole destination:

    rewrite:  %r = tensor.insert_slice %s into %d [all of %d]  -->  %s

It refuses, with the reason, where some element of the destination survives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from convir.analysis.refusal import Refusal
from convir.analysis.slices import SliceView, slice_view
from convir.passes import run
from convir.passes.manager import remarks

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

SOURCE = """
func.func @two_inserts(%s: tensor<2x4xf32>, %d: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32>
  %whole = tensor.insert_slice %s into %d[0, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<2x4xf32>
  %holes = tensor.insert_slice %whole into %zeros[0, 0] [2, 4] [2, 1]
      : tensor<2x4xf32> into tensor<4x4xf32>
  return %holes : tensor<4x4xf32>
}
"""


def whole_destination(op: Operation) -> SliceView | Refusal:
    """The view of the insertion `op` if it overwrites its destination; else why it does not."""
    view = slice_view(op)
    if view is None or view.kind != "insert_slice":
        return Refusal("not a tensor.insert_slice")
    if view.dropped:
        return Refusal("the source has a lower rank than the destination")
    for dim in range(view.rank):
        if not view.covers(dim):
            return Refusal(f"elements of the destination survive along dimension {dim}")
    return view


@dataclass(frozen=True)
class _ForwardSource(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if op.name != "tensor.insert_slice":
            return
        match whole_destination(op):
            case Refusal(reason):
                remarks.refused(DropWholeInsertSlice.name, op, reason)
            case view:
                remarks.fired(DropWholeInsertSlice.name, op, "its source is all of its result")
                rewriter.replace(op, new_ops=(), new_results=(view.source,))


@dataclass(frozen=True)
class DropWholeInsertSlice(ModulePass):
    """Replace an insertion that overwrites its whole destination by its source."""

    name = "drop-whole-insert-slice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Apply the rewrite to every insertion of `op`."""
        PatternRewriteWalker(_ForwardSource()).rewrite_module(op)


def main() -> None:
    """Run the pass, then clean up, and print the module and what was decided on the way."""
    result = run(SOURCE, (DropWholeInsertSlice(), "canonicalize,dce"))
    print(result.module)
    for remark in result.remarks:
        verb = "rewrote" if remark.fired else "left"
        print(f"{remark.pass_name} {verb} {remark.op} at {remark.location}: {remark.reason}")


if __name__ == "__main__":
    main()
