"""Work that several processes share."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def spread(
    work: Callable[[_Item], _Result], items: Sequence[_Item], processes: int
) -> Iterator[_Result]:
    """What `work` gives for each item, in order, by so many processes."""
    # Processes that are forked off one that uses a GPU cannot use NVRTC.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, max(1, len(items))), mp_context=context) as pool:
        yield from pool.map(work, items)
