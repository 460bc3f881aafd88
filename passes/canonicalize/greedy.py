"""A greedy rewrite driver: apply patterns until none fires, in time linear in the operations.

Patterns are looked up by the class of an operation, so that their number costs nothing; the
worklist holds only operations that something has changed near, so that a second look at the whole
module, which makes sure of the fixpoint, finds nothing to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.folder import Folder
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from convir.analysis.effects import Effects
from convir.dialects.verification import GRAPH_REGION_DIALECTS
from convir.passes.dce import eliminate_dead_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.context import Context
    from xdsl.ir import SSAValue

    from convir.passes.canonicalize.patterns import OpRules

MAX_SWEEPS = 10
"""Looks at the whole module, after which a set of patterns that never settles is left as it is."""


class GreedyRewriter:
    """Applies patterns and folders below one operation until nothing changes."""

    def __init__(self, ctx: Context, rules_of: Callable[[type[Operation]], OpRules]) -> None:
        """Rewrite with `rules_of(op_class)`, asked once for each class that occurs."""
        self._folder = Folder(ctx)
        self._rules_of = rules_of
        self._rules: dict[type[Operation], OpRules] = {}
        self._effects = Effects()
        self._stack: list[Operation] = []
        self._waiting: set[Operation] = set()

    def rewrite(self, root: Operation) -> bool:
        """Rewrite what is below `root`; returns whether anything changed."""
        changed = False
        for number in range(MAX_SWEEPS):
            swept = self._sweep(root)
            # Where no value is computed from itself and nothing branches, a sweep that changes
            # nothing has met all that is dead.
            if swept or (number == 0 and any(map(_hides_dead_ops, root.walk()))):
                swept |= eliminate_dead_code(root, self._effects)
            if not swept:
                break
            changed = True
        return changed

    def _sweep(self, root: Operation) -> bool:
        """Look at every operation once, and again at those that a rewrite may have changed."""
        stack = self._stack
        stack += root.walk(reverse=True, region_first=True)
        stack.pop()  # The root.
        changed = False
        if not stack:
            return changed
        waiting = self._waiting
        waiting.update(stack)
        rewriter = self._new_rewriter(stack[-1])
        while stack:
            op = stack.pop()
            if op not in waiting:
                continue
            waiting.remove(op)
            rewriter.has_done_action = False
            self._rewrite_op(op, rewriter)
            changed |= rewriter.has_done_action
        return changed

    def _rewrite_op(self, op: Operation, rewriter: PatternRewriter) -> None:
        if self._effects.is_dead(op):
            rewriter.erase(op)
            return
        rules = self._rules.get(type(op))
        if rules is None:
            rules = self._rules[type(op)] = self._rules_of(type(op))
        if rules.folds and (folded := self._folder.try_fold(op)) is not None:
            values, constants = folded
            rewriter.replace(op, constants, values)
            return
        if not rules.patterns:
            return
        rewriter.insertion_point = InsertPoint.before(op)
        rewriter.name_hint = None
        for pattern in rules.patterns:
            pattern.match_and_rewrite(op, rewriter)
            if rewriter.has_done_action:
                return

    def _new_rewriter(self, first: Operation) -> PatternRewriter:
        rewriter = PatternRewriter(first)
        rewriter.operation_insertion_handler = [self._push]
        rewriter.operation_modification_handler = [self._push]
        rewriter.operation_replacement_handler = [self._push_users]
        rewriter.operation_removal_handler = [self._forget]
        return rewriter

    def _push(self, op: Operation) -> None:
        if op not in self._waiting:
            self._waiting.add(op)
            self._stack.append(op)

    def _push_users(self, op: Operation, new_results: Sequence[SSAValue | None]) -> None:
        """Users of a replaced operation see another producer; so do users of what replaces it."""
        for result in op.results:
            for use in result.uses:
                self._push(use.operation)

    def _forget(self, op: Operation) -> None:
        """Drop an operation about to go, and look at what it used: that may be dead, or single."""
        if not op.regions:
            self._push_operands(op)
            self._waiting.discard(op)
            return
        going = tuple(op.walk())
        for nested in going:
            self._push_operands(nested)
        self._waiting.difference_update(going)

    def _push_operands(self, op: Operation) -> None:
        for operand in op.operands:
            owner = operand.owner
            if isinstance(owner, Operation):
                self._push(owner)


def _hides_dead_ops(op: Operation) -> bool:
    """Whether an op in the regions of `op` may be dead though its results are used: by one that is
    computed from them and they from it, or in a block that nothing reaches."""
    for region in op.regions:
        if region.first_block is not region.last_block:
            return True
    orders = op.name.partition(".")[0] not in GRAPH_REGION_DIALECTS
    if not op.regions or (orders and not isinstance(op, UnregisteredOp)):
        return False
    return any(
        inner.operands for region in op.regions for block in region.blocks for inner in block.ops
    )
