"""Locks of files in the cache: of all threads and processes that want an entry, one makes it.

A lock is a file beside the entry that its holder has locked (`flock`) and removes at the end. The
system gives back what a process held that died. A lock says nothing of the entry: whoever gets it
looks again whether the entry is there.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from convir.runtime.cache import private_files

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_log = logging.getLogger(__name__)


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold the lock `path`, once nobody else does.

    Where it cannot be made, a read-only folder say, nobody waits: work may be done twice.
    """
    try:
        private_files.make_folder(path.parent)
        handle = _locked(path)
    except OSError as error:
        _log.info("cache: no lock %s: %s", path, error)
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        # A child that was forked meanwhile holds the file too: closing it would not be enough.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _locked(path: Path) -> int:
    """The file at `path`, which this caller has locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        handle = os.open(path, flags, private_files.FILE_MODE)
        try:
            os.fchmod(handle, private_files.FILE_MODE)  # The umask took a part away.
            fcntl.flock(handle, fcntl.LOCK_EX)
            # The holder before has removed what it locked: the next file counts.
            if _is_at(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
