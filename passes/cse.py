"""`cse`: compute what is the same once.

    rewrite: %0 = op %a, %b          -->  %0 = op %a, %b
             %1 = op %a, %b               (uses of %1 read %0)

Two operations are the same if they have the same name, operands (in either order where the
operation is commutative), result types, attributes, properties and regions, and the first dominates
the second without leaving an operation that is isolated from above. The operation has no effect; or
it only reads, both stand in one block, and nothing between them may write. Operations that are
dead go first; what is replaced leaves no others, as what replaces it reads the same values.

Linear in the size of the module: one map for the whole walk, whose entries a scope takes back as it
closes; one key per operation, built and hashed once; regions are only compared, through a key
of their own, between operations that are otherwise the same.

Preconditions: as said; an op whose effects are not known is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove

from convir.analysis.effects import Effects
from convir.analysis.structural_keys import StructuralKeys
from convir.passes.dce import eliminate_dead_code

if TYPE_CHECKING:
    from collections.abc import Hashable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, Operation, Region, SSAValue


_WIDE: Final = 64
"""Operands from which on those of an operation are replaced together: xDSL copies all of them for
each that is replaced, and what ends a function may read all that it computes."""


@dataclass(frozen=True)
class _Known:
    """An operation seen earlier in a scope that is still open."""

    op: Operation
    writes: int
    """How many operations that may write had been seen by then."""


class CommonSubexpressions:
    """One walk over what is below a root, replacing each operation that an earlier one computes."""

    def __init__(self) -> None:
        self._effects = Effects()
        self._keys = StructuralKeys()
        self._isolated: dict[type[Operation], bool] = {}
        self._known: dict[Hashable, _Known] = {}
        self._added: list[tuple[Hashable, _Known | None]] = []
        self._writes = 0
        self._changed = False
        self._same: dict[SSAValue, SSAValue] = {}
        self._waiting: dict[Operation, None] = {}
        """Wide operations further on in the block, some of whose operands are keys of `_same`."""

    def simplify(self, root: Operation) -> bool:
        """Simplify the regions of `root`, outermost scope empty; returns whether any op went."""
        dead = eliminate_dead_code(root, self._effects)
        return self.merge(root) or dead

    def merge(self, root: Operation) -> bool:
        """As `simplify`, where nothing is dead."""
        self._simplify_regions(root)
        for op in {value.owner: None for value in self._same}:
            cast("Operation", op).erase()
        return self._changed

    def _simplify_regions(self, op: Operation) -> None:
        if not self._is_isolated(type(op)):
            for region in op.regions:
                self._simplify_region(region)
            return
        outside, self._known = self._known, {}
        for region in op.regions:
            self._simplify_region(region)
        self._known = outside

    def _simplify_region(self, region: Region) -> None:
        """The entry block dominates the others; of those none is taken to dominate another."""
        entry = region.first_block
        if entry is None:
            return
        entry_scope = len(self._added)
        self._simplify_block(entry)
        block = entry.next_block
        while block is not None:
            scope = len(self._added)
            self._simplify_block(block)
            self._close(scope)
            block = block.next_block
        self._close(entry_scope)

    def _simplify_block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            following = op.next_op
            if op in self._waiting:
                self._replace_operands(op)
            if op.regions:
                self._simplify_regions(op)
            self._simplify_op(op)
            op = following
        # In a graph region, what reads a value may stand before it.
        for late in [op for op in self._waiting if op.parent is block]:
            self._replace_operands(late)

    def _simplify_op(self, op: Operation) -> None:
        if self._effects.may_write(op):
            self._writes += 1
            return
        pure = self._effects.is_pure(op)
        if not (pure or self._effects.only_reads(op)) or not op.results:
            return
        key = self._key(op)
        existing = self._known.get(key)
        if existing is not None and (
            pure or (existing.writes == self._writes and existing.op.parent is op.parent)
        ):
            self._replace(op, existing.op)
            return
        self._remember(key, _Known(op, self._writes))

    def _key(self, op: Operation) -> Hashable:
        """The key of `op`; regions enter it only if an operation in scope is otherwise the same."""
        key = self._keys.without_regions(op)
        if not op.regions:
            return key
        first = self._known.get(key)
        if first is None:
            return key
        first_in_full = (key, self._keys.of_regions(first.op))
        if first_in_full not in self._known:
            self._remember(first_in_full, first)
        return (key, self._keys.of_regions(op))

    def _remember(self, key: Hashable, known: _Known) -> None:
        self._added.append((key, self._known.get(key)))
        self._known[key] = known

    def _close(self, scope: int) -> None:
        """Take back every entry added since the scope opened, last first."""
        while len(self._added) > scope:
            key, previous = self._added.pop()
            if previous is None:
                del self._known[key]
            else:
                self._known[key] = previous

    def _replace(self, op: Operation, existing: Operation) -> None:
        self._changed = True
        for result, same in zip(op.results, existing.results, strict=True):
            for use in tuple(result.uses):
                user = use.operation
                if len(user.operands) < _WIDE or user.parent is not op.parent:
                    user.operands[use.index] = same
                else:
                    self._same[result] = same
                    self._waiting[user] = None
            if same.name_hint is None:
                same.name_hint = result.name_hint
        op.detach()
        if all(result.first_use is None for result in op.results):
            op.erase()

    def _replace_operands(self, op: Operation) -> None:
        del self._waiting[op]
        op.operands = [self._same.get(operand, operand) for operand in op.operands]

    def _is_isolated(self, op_class: type[Operation]) -> bool:
        isolated = self._isolated.get(op_class)
        if isolated is None:
            isolated = op_class.has_trait(IsolatedFromAbove, value_if_unregistered=True)
            self._isolated[op_class] = isolated
        return isolated


@dataclass(frozen=True)
class CsePass(ModulePass):
    """Replace operations by earlier ones that compute the same."""

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        CommonSubexpressions().simplify(op)
