"""The elements of constants that were read of a file, kept by their digests while a program is
compiled: whoever knows a digest knows the elements, wherever they came from."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Generator

    Array: TypeAlias = Any
    """Of NumPy, which nothing here imports."""


class _Held:
    """What is kept, for as long as somebody asks for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._askers = 0
        self.arrays: dict[str, Array] = {}

    def enter(self) -> None:
        with self._lock:
            self._askers += 1

    def leave(self) -> None:
        with self._lock:
            self._askers -= 1
            if self._askers == 0:
                self.arrays.clear()

    @property
    def is_asked_for(self) -> bool:
        return self._askers > 0


_HELD = _Held()


@contextmanager
def holding_elements() -> Generator[None]:
    """Keep what is held within the block, until the last such block of all threads ends."""
    _HELD.enter()
    try:
        yield
    finally:
        _HELD.leave()


def hold(digest: str, array: Array) -> None:
    """Keep an array that nobody writes to, whose elements have this SHA-256 digest."""
    if _HELD.is_asked_for:
        _HELD.arrays[digest] = array


def held(digest: str) -> Array | None:
    """The elements with a digest, as the file had them, if they are kept."""
    return _HELD.arrays.get(digest)
