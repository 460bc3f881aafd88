"""The few ops of some classes among all of a module.

Most ops of a network are scalar arithmetic in the bodies of others; no pass on tensors has anything
to do with those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriteWalker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from xdsl.ir import Block, Region

T = TypeVar("T", bound=Operation)


def of_kinds(ops: Iterable[Operation], *kinds: type[T]) -> Iterator[T]:
    """Those of `ops` that are of one of the classes, each class asked once."""
    known: dict[type[Operation], bool] = {}
    for op in ops:
        is_one = known.get(type(op))
        if is_one is None:
            is_one = known[type(op)] = isinstance(op, kinds)
        if is_one:
            yield cast("T", op)


@dataclass(eq=False, repr=False)
class WalkerOfKinds(PatternRewriteWalker):
    """A walker for a pattern that has nothing to do with ops of other classes."""

    kinds: tuple[type[Operation], ...] = (Operation,)
    """What the pattern matches."""

    def _populate_worklist(self, op: Operation | Region | Block) -> None:
        # A stack: what is pushed last comes first.
        ops = op.walk(reverse=not self.walk_reverse, region_first=not self.walk_regions_first)
        for each in of_kinds(ops, *self.kinds):
            self._worklist.push(each)
