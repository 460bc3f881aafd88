"""A bounded cache that makes each of its values once, whoever asks first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_Key = TypeVar("_Key", bound="Hashable")
_Value = TypeVar("_Value")


class Specialisations(Generic[_Key, _Value]):
    """Key to value, the least recently used dropped first.

    Several threads that ask for one missing value get the same: the first makes it, the others
    wait. Values of different keys are made at the same time. What cannot be made is not kept:
    everybody who waited gets the error, and the next to ask tries again.
    """

    def __init__(self, make: Callable[[_Key], _Value], capacity: int) -> None:
        """Keep at most `capacity` values, each made by `make(key)`.

        Raises:
            ValueError: `capacity` is not positive.
        """
        if capacity < 1:
            raise ValueError(f"a cache holds at least 1 specialisation, not {capacity}")
        self.capacity = capacity
        self._make = make
        self._lock = threading.Lock()
        self._futures: OrderedDict[_Key, Future[_Value]] = OrderedDict()

    def __getitem__(self, key: _Key) -> _Value:
        """The value of `key`, made if it is not there."""
        with self._lock:
            future = self._futures.get(key)
            missing = future is None
            if missing:
                future = self._futures[key] = Future[_Value]()
                if len(self._futures) > self.capacity:
                    self._futures.popitem(last=False)
            else:
                self._futures.move_to_end(key)
        return self._fulfil(key, future) if missing else future.result()

    def _fulfil(self, key: _Key, future: Future[_Value]) -> _Value:
        try:
            value = self._make(key)
        except BaseException as error:
            with self._lock:
                if self._futures.get(key) is future:
                    del self._futures[key]
            future.set_exception(error)
            raise
        future.set_result(value)
        return value

    def keys(self) -> tuple[_Key, ...]:
        """The keys whose values are there, the least recently used first."""
        with self._lock:
            return tuple(key for key, future in self._futures.items() if future.done())

    def clear(self) -> None:
        """Forget every value; those still being made only reach who waits for them."""
        with self._lock:
            self._futures.clear()
