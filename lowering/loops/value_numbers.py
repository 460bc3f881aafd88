"""Values that were computed already, by what they compute: no element is computed twice.

Producers are inlined where they are read, so a value that two ops read would be computed twice,
and a chain of such values exponentially often. All ops of a kernel's loops are pure but the
stores, which come last, so that what stands before in the same or an outer block can be reused.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

    from xdsl.builder import Builder
    from xdsl.ir import Operation, SSAValue

Key: TypeAlias = "tuple[Hashable, ...]"


@dataclass
class ValueNumbers:
    """What was computed, by key, in the block that is being built and in those around it."""

    _scopes: list[dict[Key, SSAValue]] = field(
        default_factory=lambda: list[dict[Key, "SSAValue"]]([{}])
    )

    @contextmanager
    def scope(self) -> Generator[None]:
        """A block inside the current one: what it computes is forgotten at its end."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def find(self, key: Key) -> SSAValue | None:
        """The value of `key`, if it was computed in a block that encloses this one."""
        return next((scope[key] for scope in reversed(self._scopes) if key in scope), None)

    def add(self, key: Key, value: SSAValue) -> SSAValue:
        """Remember `value`, computed in the current block; returns it."""
        self._scopes[-1][key] = value
        return value

    def emit(self, builder: Builder, op: Operation, meaning: Hashable = None) -> SSAValue:
        """The first result of the pure op `op`, or of one like it that was inserted before.

        Args:
            builder: where it is inserted.
            op: the op.
            meaning: what else the two must have in common, beside all that the ops say.
        """
        if op.regions:
            builder.insert(op)
            return op.results[0]
        key = (
            op.name,
            tuple(op.operands),
            tuple(sorted(op.properties.items(), key=lambda item: item[0])),
            tuple(sorted(op.attributes.items(), key=lambda item: item[0])),
            tuple(op.result_types),
            meaning,
        )
        known = self.find(key)
        if known is not None:
            op.erase()
            return known
        builder.insert(op)
        return self.add(key, op.results[0])
