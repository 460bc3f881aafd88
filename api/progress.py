"""How far a compilation is: a line on a terminal, or whatever a caller does with it."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Told: TypeAlias = Callable[[str], None]

PATIENCE_S = 2.0
"""What is shorter than this, nobody needs to be told of."""
_REFRESH_S = 0.5
_CLEAR = "\r\x1b[K"
"""Erases a line of a terminal."""


@contextmanager
def telling(progress: bool | Told) -> Generator[Told]:
    """What is told each step of a compilation, as text.

    Args:
        progress: whether a line on a terminal shows the step; or what is told itself.
    """
    if callable(progress):
        yield progress
    elif progress and sys.stderr is not None and sys.stderr.isatty():
        with _Line(sys.stderr).shown() as line:
            yield line
    else:
        yield _ignore


def _ignore(step: str) -> None:
    del step


class _Line:
    """A line that says the last step and the seconds so far, and is erased at the end."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._step = ""
        self._begin = time.monotonic()
        self._ended = threading.Event()

    def __call__(self, step: str) -> None:
        self._step = step

    @contextmanager
    def shown(self) -> Generator[_Line]:
        """Show it from `PATIENCE_S` on, until the block ends."""
        thread = threading.Thread(target=self._show, name="convir-progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _show(self) -> None:
        if self._ended.wait(PATIENCE_S):
            return
        while True:
            seconds = time.monotonic() - self._begin
            self._terminal.write(f"{_CLEAR}compiling: {self._step}, {seconds:.0f} s")
            self._terminal.flush()
            if self._ended.wait(_REFRESH_S):
                self._terminal.write(_CLEAR)
                self._terminal.flush()
                return
