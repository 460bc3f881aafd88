"""`fixpoint(a,b)`: passes in turn until none of them has anything left to do.

One pass may make work for another that stands before it, as where `canonicalize` brings a pad next
to the contraction that reads it. A pass is left out while the module is still as that pass left it,
since every pass is idempotent; so the last look of each pass at the module changes nothing, and a
second run of the whole changes nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_
from threading import local
from typing import TYPE_CHECKING, Final

from xdsl.passes import ModulePass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

MAX_ROUNDS: Final = 32
"""Rounds after which passes that never settle are left as they are."""


@dataclass(frozen=True)
class FixpointPass(ModulePass):
    """Runs passes in turn until none of them changes the module."""

    name = "fixpoint"

    passes: tuple[ModulePass, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run over the whole module."""
        for one in unrolled((self,), op):
            one.apply(ctx, op)

    def __str__(self) -> str:
        return f"{self.name}({','.join(map(str, self.passes))})"


def unrolled(passes: Sequence[ModulePass], module: ModuleOp) -> Iterator[ModulePass]:
    """`passes`, each fixpoint as the passes that it takes to get there.

    The caller applies each to `module` before it asks for the next.
    """
    for one in passes:
        if isinstance(one, FixpointPass):
            yield from _Turns(module).until_settled(one.passes)
        else:
            yield one


class _Told(local):
    """What the pass that runs in a thread has said."""

    unchanged: ModuleOp | None = None


_TOLD = _Told()


def leaves_unchanged(module: ModuleOp) -> None:
    """Say that the pass that runs has changed nothing in `module`, which saves a look at it."""
    _TOLD.unchanged = module


@dataclass
class _Turns:
    """Which passes have left a module as it is."""

    module: ModuleOp
    settled: set[ModulePass] = field(default_factory=set[ModulePass])
    """The passes that have nothing to do: they ran, and nothing changed since."""
    parts: list[object] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = parts_of(self.module)

    def until_settled(self, passes: tuple[ModulePass, ...]) -> Iterator[ModulePass]:
        """The passes to apply, those of a nested fixpoint before what follows it."""
        for _ in range(MAX_ROUNDS):
            done = True
            for one in passes:
                if one in self.settled:
                    continue
                done = False
                if isinstance(one, FixpointPass):
                    yield from self.until_settled(one.passes)
                else:
                    _TOLD.unchanged = None
                    yield one
                    self._look()
                self.settled.add(one)
            if done:
                return

    def _look(self) -> None:
        """Forget who had settled if the module has changed."""
        if _TOLD.unchanged is self.module:
            return
        parts = parts_of(self.module)
        if not are_the_same(parts, self.parts):
            self.settled.clear()
        self.parts = parts


def parts_of(module: ModuleOp) -> list[object]:
    """All that a module is made of, in its order: no rewrite leaves the same objects behind."""
    parts: list[object] = []
    pending: list[Operation] = [module]
    while pending:
        op = pending.pop()
        # Whoever changes an operand or a successor gives the op another tuple.
        parts += (op, op._operands, op._successors)  # pyright: ignore[reportPrivateUsage]
        if op.properties:
            parts += op.properties
            parts += op.properties.values()
        if op.attributes:
            parts += op.attributes
            parts += op.attributes.values()
        for result in op.results:
            parts.append(result._type)  # pyright: ignore[reportPrivateUsage]  (as above)
        for region in op.regions:
            parts.append(region)
            for block in region.blocks:
                parts.append(block)
                for argument in block.args:
                    parts += (argument, argument.type)
                pending += block.ops
    return parts


def are_the_same(some: list[object], others: list[object]) -> bool:
    """Whether nothing was rewritten between two looks at what a module is made of."""
    return len(some) == len(others) and all(map(is_, some, others))
