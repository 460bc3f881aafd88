"""The bounded cache: every value is made once, whoever races for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from convir.runtime.specialisations import Specialisations

pytestmark = pytest.mark.fast

THREADS = 8


def test_racing_threads_get_one_value() -> None:
    made: list[int] = []
    both_started = threading.Barrier(2)

    def make(key: int) -> object:
        made.append(key)
        both_started.wait(10)
        return object()

    cache = Specialisations(make, 4)
    with ThreadPoolExecutor(THREADS) as pool:
        asked = [pool.submit(cache.__getitem__, number % 2) for number in range(THREADS)]
        values = {number % 2: future.result(10) for number, future in enumerate(asked)}
        assert all(future.result(10) is values[n % 2] for n, future in enumerate(asked))
    assert sorted(made) == [0, 1]


def test_an_error_reaches_everybody_who_waits_and_is_not_kept() -> None:
    started, waiting = threading.Event(), threading.Event()
    attempts: list[int] = []

    def make(key: int) -> int:
        attempts.append(key)
        started.set()
        waiting.wait(10)
        if len(attempts) == 1:
            raise ValueError("no")
        return key

    cache = Specialisations(make, 4)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.__getitem__, 7)
        assert started.wait(10)
        second = pool.submit(cache.__getitem__, 7)
        assert cache.keys() == ()
        waiting.set()
        for future in (first, second):
            error = future.exception(10)
            assert isinstance(error, ValueError) or future.result() == 7
    assert cache[7] == 7
    assert cache.keys() == (7,)


def test_the_least_recently_used_goes_first() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    cache = Specialisations(make, 2)
    assert [cache[key] for key in "abacab"] == list("ABACAB")
    assert made == ["a", "b", "c", "b"]
    assert cache.keys() == ("a", "b")
    cache.clear()
    assert cache.keys() == ()


def test_what_is_dropped_while_it_is_made_still_arrives() -> None:
    started, release = threading.Event(), threading.Event()

    def make(key: int) -> int:
        if key == 0:
            started.set()
            release.wait(10)
        return key

    cache = Specialisations(make, 1)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.__getitem__, 0)
        assert started.wait(10)
        assert cache[1] == 1
        release.set()
        assert slow.result(10) == 0
    assert cache.keys() == (1,)


def test_a_cache_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Specialisations(str, 0)
