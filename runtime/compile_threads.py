"""Threads that compile kernels while another one lowers their program."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from convir.runtime.cores import available_cores

if TYPE_CHECKING:
    from typing import Self

SWITCH_SECONDS = 1e-4
"""How long a thread that comes back from a compiler or from a file waits for Python while another
thread lowers a program. For a module it comes back some sixty times; Python's own interval is 5
ms."""


class CompileThreads(ThreadPoolExecutor):
    """One for each core, and short switch intervals, until a block ends; what has not begun by then
    is dropped."""

    def __init__(self, name: str) -> None:
        super().__init__(available_cores(), name)

    def __enter__(self) -> Self:
        _SWITCHING.enter()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.shutdown(cancel_futures=True)
        finally:
            _SWITCHING.leave()


class _Switching:
    """Short switch intervals, for as long as somebody compiles kernels."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._interval = 0.0

    def enter(self) -> None:
        with self._lock:
            if self._count == 0:
                self._interval = sys.getswitchinterval()
                sys.setswitchinterval(min(self._interval, SWITCH_SECONDS))
            self._count += 1

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                sys.setswitchinterval(self._interval)


_SWITCHING = _Switching()
