"""Which bytes of an arena are taken at which times.

A segment tree over the times: every node holds the bytes that are taken at all of its times, and
those that are taken at any of them, as runs that neither overlap nor touch. Since pieces are put
one on another, few runs remain, and a gap is found without looking at every piece.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from heapq import merge
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass
class _Runs:
    """Runs of bytes, in order."""

    begins: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])

    def add(self, begin: int, end: int) -> None:
        """Take the bytes from `begin` to `end`."""
        first = bisect_left(self.ends, begin)
        last = bisect_right(self.begins, end)
        if first < last:
            begin, end = min(begin, self.begins[first]), max(end, self.ends[last - 1])
        self.begins[first:last] = [begin]
        self.ends[first:last] = [end]


@dataclass
class OccupiedMemory:
    """The pieces of an arena that lives for some `times`."""

    times: int
    _always: dict[int, _Runs] = field(default_factory=lambda: defaultdict[int, _Runs](_Runs))
    """By node, the root being 1: what is taken at all of its times, as far as no node above says.
    """
    _sometimes: dict[int, _Runs] = field(default_factory=lambda: defaultdict[int, _Runs](_Runs))

    def take(self, size: int, first: int, last: int) -> int:
        """Take `size` bytes at the times `first` to `last`, at the lowest offset that is free all
        the time; returns it."""
        covering = list(self._covering(first, last))
        above = {node >> up for node in covering for up in range(1, node.bit_length())}
        taken = [self._sometimes[node] for node in covering]
        taken += [self._always[node] for node in above]
        offset = self._lowest_gap(taken, size)
        for node in covering:
            self._always[node].add(offset, offset + size)
        for node in (*covering, *above):
            self._sometimes[node].add(offset, offset + size)
        return offset

    def _covering(self, first: int, last: int) -> Iterator[int]:
        """The fewest nodes that have all the times from `first` to `last`, and no other."""
        low, high = first + self._leaves, last + self._leaves + 1
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low, high = low >> 1, high >> 1

    @property
    def _leaves(self) -> int:
        return 1 << max(0, self.times - 1).bit_length()

    @staticmethod
    def _lowest_gap(taken: Iterable[_Runs], size: int) -> int:
        offset = 0
        for begin, end in merge(*(zip(x.begins, x.ends, strict=True) for x in taken if x.begins)):
            if begin - offset >= size:
                break
            offset = max(offset, end)
        return offset
