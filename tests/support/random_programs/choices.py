"""Where random programs take their choices from: a seed, or hypothesis, which shrinks them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


@dataclass(frozen=True)
class Choices:
    """A source of choices; 0 and the first of several stand for the simplest."""

    below: Callable[[int], int]
    """A number from 0 to one less than its argument."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.below(len(options))]

    def one_in(self, count: int) -> bool:
        """True once in `count` times."""
        return self.below(count) == count - 1

    def permutation(self, rank: int) -> list[int]:
        """The numbers below `rank` in a random order."""
        left = list(range(rank))
        return [left.pop(self.below(len(left))) for _ in range(rank)]


def seeded(*seed: int) -> Choices:
    """The choices that belong to `seed`, the same on every machine."""
    return Choices(random.Random("/".join(map(str, seed))).randrange)


def drawn(draw: Callable[[Any], Any]) -> Choices:
    """The choices of a hypothesis strategy."""
    return Choices(lambda end: draw(st.integers(0, end - 1)))
