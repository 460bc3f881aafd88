"""`dce`: remove operations whose results nobody needs, and blocks that nothing reaches.

    rewrite: %0 = pure_op …          -->  (nothing)
             (no live use of %0)

An operation is live if it is a terminator, a symbol, or has an effect that outlives it, and stands
in a reachable block of a live operation; or if a live operation uses one of its results. The rest
goes, cycles included. Block arguments and functions stay, used or not.

One mark and one sweep: linear in the number of operations, operands and blocks.

Preconditions: an op whose effects are not known is live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, OpResult
from xdsl.passes import ModulePass

from convir.analysis.effects import Effects

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Region


@dataclass
class Liveness:
    """Which operations below one operation are live, found in one walk along uses."""

    effects: Effects
    live: set[Operation] = field(default_factory=set[Operation])
    reachable: set[Block] = field(default_factory=set[Block])
    _pending: list[Operation] = field(default_factory=list[Operation])

    def mark(self, root: Operation) -> None:
        """Take `root` as live, and mark everything in its regions that then is."""
        self._mark_op(root)
        while self._pending:
            op = self._pending.pop()
            for operand in op.operands:
                if isinstance(operand, OpResult):
                    self._mark_op(operand.op)
            for region in op.regions:
                self._mark_region(region)

    def _mark_op(self, op: Operation) -> None:
        if op not in self.live:
            self.live.add(op)
            self._pending.append(op)

    def _mark_region(self, region: Region) -> None:
        entry = region.first_block
        if entry is None:
            return
        blocks = [entry]
        self.reachable.add(entry)
        while blocks:
            block = blocks.pop()
            for op in block.ops:
                if not self.effects.removable_if_unused(op):
                    self._mark_op(op)
            if block.last_op is None:
                continue
            for successor in block.last_op.successors:
                if successor not in self.reachable:
                    self.reachable.add(successor)
                    blocks.append(successor)


def eliminate_dead_code(root: Operation, effects: Effects | None = None) -> bool:
    """Erase what is dead below `root`.

    Returns:
        Whether anything was erased.
    """
    liveness = Liveness(effects if effects is not None else Effects())
    liveness.mark(root)
    return _sweep(root, liveness)


def _sweep(root: Operation, liveness: Liveness) -> bool:
    """Erase bottom-up, so that a value's uses are gone before the value is."""
    changed = False
    pending = [root]
    while pending:
        for region in pending.pop().regions:
            for block in reversed(region.blocks):
                if block not in liveness.reachable:
                    region.erase_block(block, safe_erase=False)
                    changed = True
                    continue
                for op in reversed(block.ops):
                    if op not in liveness.live:
                        block.erase_op(op, safe_erase=False)
                        changed = True
                    elif op.regions:
                        pending.append(op)
    return changed


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Remove dead operations and unreachable blocks."""

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        eliminate_dead_code(op)
