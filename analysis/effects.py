"""What an operation does besides computing its results, answered once per operation class.

Most classes say so for good (`Pure`, no effect trait at all), and asking an operation's traits one
by one costs more than the rest of a pass; what depends on the operation itself is asked each time.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    NoMemoryEffect,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from xdsl.ir import Operation

_NO_EFFECTS = frozenset[EffectInstance]()
_READS = frozenset((MemoryEffectKind.READ,))
_HARMLESS = frozenset((MemoryEffectKind.READ, MemoryEffectKind.ALLOC))


class _Kind(Enum):
    """What an operation's class alone says of its effects."""

    NONE = auto()
    """Never an effect."""
    NESTED = auto()
    """Those of the operations in its regions, and no other."""
    VARIES = auto()
    """The operation must be asked; without an effect trait anything may happen."""


class Effects:
    """Effects of operations; one object per pass, as a class may gain traits between passes."""

    def __init__(self) -> None:
        self._kinds: dict[type[Operation], _Kind] = {}
        self._pinned: dict[type[Operation], bool] = {}
        self._traits: dict[type[Operation], tuple[MemoryEffect, ...]] = {}

    def is_pure(self, op: Operation) -> bool:
        """True if `op` is known to do nothing but compute its results from its operands."""
        if self._kind(type(op)) is _Kind.NONE:
            return True
        effects = self._effects(op)
        return effects is not None and not effects

    def only_reads(self, op: Operation) -> bool:
        """True if `op` is known to do nothing to memory but read it."""
        effects = self._effects(op)
        return effects is not None and all(effect.kind in _READS for effect in effects)

    def may_write(self, op: Operation) -> bool:
        """True unless `op` itself, its regions aside, is known to change nothing in memory."""
        kind = self._kind(type(op))
        if kind is _Kind.NONE or kind is _Kind.NESTED:
            return False
        effects = self._effects(op)
        return effects is None or any(effect.kind not in _HARMLESS for effect in effects)

    def removable_if_unused(self, op: Operation) -> bool:
        """True if nobody could tell that `op` is gone once its results have no uses.

        Reads may go, and so may allocations of values that `op` or its regions define.
        """
        op_class = type(op)
        pinned = self._pinned.get(op_class)
        if pinned is None:
            pinned = self._pinned[op_class] = _is_pinned(op_class)
        if pinned:
            return False
        if self._kind(op_class) is _Kind.NONE:
            return True
        effects = self._effects(op)
        return effects is not None and all(
            effect.kind is MemoryEffectKind.READ
            or (
                effect.kind is MemoryEffectKind.ALLOC
                and isinstance(effect.value, SSAValue)
                and op.is_ancestor(effect.value.owner)
            )
            for effect in effects
        )

    def is_dead(self, op: Operation) -> bool:
        """True if no result of `op` is used and nobody could tell that it is gone."""
        for result in op.results:
            if result.first_use is not None:
                return False
        return self.removable_if_unused(op)

    def _effects(self, op: Operation) -> AbstractSet[EffectInstance] | None:
        """What xDSL's `get_effects` says of `op`; None if nothing is known."""
        op_class = type(op)
        if self._kind(op_class) is _Kind.NONE:
            return _NO_EFFECTS
        traits = self._traits.get(op_class)
        if traits is None:
            traits = self._traits[op_class] = tuple(op_class.get_traits_of_type(MemoryEffect))
        if not traits:
            return None
        effects = set[EffectInstance]()
        for trait in traits:
            is_nested = isinstance(trait, RecursiveMemoryEffect)
            found = self._inside(op) if is_nested else trait.get_effects(op)
            if found is None:
                return None
            effects |= found
        return effects

    def _inside(self, op: Operation) -> AbstractSet[EffectInstance] | None:
        """The effects of the operations in the regions of `op`."""
        effects = set[EffectInstance]()
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    found = self._effects(inner)
                    if found is None:
                        return None
                    effects |= found
        return effects

    def _kind(self, op_class: type[Operation]) -> _Kind:
        kind = self._kinds.get(op_class)
        if kind is None:
            kind = self._kinds[op_class] = _kind_of(op_class)
        return kind


def _kind_of(op_class: type[Operation]) -> _Kind:
    traits = op_class.get_traits_of_type(MemoryEffect)
    if not traits:
        return _Kind.VARIES
    if all(isinstance(trait, NoMemoryEffect) for trait in traits):
        return _Kind.NONE
    if all(isinstance(trait, NoMemoryEffect | RecursiveMemoryEffect) for trait in traits):
        return _Kind.NESTED
    return _Kind.VARIES


def _is_pinned(op_class: type[Operation]) -> bool:
    """True for terminators and symbols, which stay whether used or not."""
    return op_class.has_trait(IsTerminator, value_if_unregistered=False) or op_class.has_trait(
        SymbolOpInterface, value_if_unregistered=False
    )
