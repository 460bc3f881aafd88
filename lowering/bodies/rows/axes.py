"""The axes of a kernel's tensors: which dimensions are one, and which are several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Dim: TypeAlias = "tuple[int, ...]"
"""The axes that a dimension is made of, the outermost first; none of one of size 1."""


@dataclass
class Axes:
    """Axes by number. One may be found to be another, or two, the outer and the inner part of it;
    what is neither is a *leaf*."""

    _sizes: list[int] = field(default_factory=list[int])
    _is: list[tuple[int, ...]] = field(default_factory=list["tuple[int, ...]"])
    """What each axis was found to be; itself if it is a leaf."""

    @property
    def are_apart(self) -> bool:
        """Whether an axis was found to be two."""
        return any(len(found) > 1 for found in self._is)

    def of_shape(self, shape: Sequence[int]) -> tuple[Dim, ...]:
        """Dimensions of new axes."""
        return tuple(() if size == 1 else (self._new(size),) for size in shape)

    def size(self, axis: int) -> int:
        """How long an axis is."""
        return self._sizes[axis]

    def leaves(self, dim: Dim) -> list[int]:
        """What a dimension is made of."""
        found: list[int] = []
        for axis in dim:
            found += [axis] if self._is[axis] == (axis,) else self.leaves(self._is[axis])
        return found

    def unify(self, a: Dim, b: Dim) -> bool:
        """Note that two dimensions are one; False if they cannot be."""
        first, second = self.leaves(a), self.leaves(b)
        while first and second:
            x, y = first[0], second[0]
            if x == y or self._sizes[x] == self._sizes[y]:
                if x != y:
                    self._is[x] = (y,)
                del first[0], second[0]
            elif self._sizes[x] > self._sizes[y]:
                if not self._take_apart(first, self._sizes[y]):
                    return False
            elif not self._take_apart(second, self._sizes[x]):
                return False
        return not first and not second

    def reshaped(self, dims: Sequence[Dim], shape: Sequence[int]) -> tuple[Dim, ...] | None:
        """The dimensions of `shape`, which has the elements of `dims` in their order; None if one
        of them has an axis in part."""
        rest = [axis for dim in dims for axis in self.leaves(dim)]
        found: list[Dim] = []
        for wanted in shape:
            dim: list[int] = []
            left = wanted
            while left > 1:
                if not rest or (self._sizes[rest[0]] > left and not self._take_apart(rest, left)):
                    return None
                if left % self._sizes[rest[0]]:
                    return None
                left //= self._sizes[rest[0]]
                dim.append(rest.pop(0))
            found.append(tuple(dim))
        return None if rest else tuple(found)

    def _new(self, size: int) -> int:
        self._sizes.append(size)
        self._is.append((len(self._is),))
        return len(self._is) - 1

    def _take_apart(self, leaves: list[int], outer: int) -> bool:
        """Make the first of some leaves two, the outer one of that size; False if that does not
        divide it."""
        axis = leaves[0]
        if self._sizes[axis] % outer:
            return False
        self._is[axis] = (self._new(outer), self._new(self._sizes[axis] // outer))
        leaves[:1] = self._is[axis]
        return True
