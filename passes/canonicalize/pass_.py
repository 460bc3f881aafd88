"""`canonicalize`: bring every operation into its simplest equivalent form.

    rewrite: a canonicalization pattern, a folder, a constant-foldable operation  -->  its result
             an operation whose results are unused                                 -->  (nothing)
             an operation that computes what an earlier one does                   -->  that one

Patterns are those of `convir.passes.canonicalize.patterns` and those that xDSL's operations carry.
All are exact: floats keep every rounding (`extf(truncf x)` stays), integers wrap as their type
does. Patterns and `cse` take turns until neither finds anything, so that one run is as good as two:
equal operands are what many patterns look for. Each is linear in the number of operations.

Preconditions: those of each pattern, in its docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass

from convir.passes.canonicalize.greedy import GreedyRewriter
from convir.passes.canonicalize.patterns import rules_of
from convir.passes.cse import CommonSubexpressions
from convir.passes.manager.fixpoint import leaves_unchanged

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Apply all patterns and folders, and merge what is equal, until nothing changes."""

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        rewriter = GreedyRewriter(ctx, rules_of)
        changed = rewriter.rewrite(op)
        # Nothing is dead after a rewrite.
        while CommonSubexpressions().merge(op):
            changed = True
            if not rewriter.rewrite(op):
                break
        if not changed:
            leaves_unchanged(op)
