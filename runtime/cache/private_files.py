"""Files that nobody but their user can have written: what a process runs is read from no others.

As ssh does for keys: a folder is private if it and all that leads to it belong to the user or to
root, and nobody else may write there. Of the folders on the way one may be everybody's where nobody
can replace what belongs to others (mode 1777, as /tmp). Symbolic links on the way count as what
they lead to, and themselves have to belong to the user or to root. The file itself is opened
first, never through a link and without waiting, and then judged by its descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from io import FileIO

ROOT = 0
"""Whoever is root can do anything anyway."""

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
"""As Linux follows."""


class IrregularError(OSError):
    """What stands in a file's place is not a regular file: it may block for ever or lead away."""


class NotPrivateError(OSError):
    """Somebody else could have written there; the text names what to change."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        """What does not belong to the user, or what others may write."""


def check_folder(folder: Path) -> None:
    """Check that a folder is private.

    Raises:
        NotPrivateError: it is not.
        FileNotFoundError: it, or a folder above it, does not exist.
        OSError: something in the way is not a folder, or cannot be looked at.
    """
    path, found = _followed(folder)
    if found.st_mode & _OTHERS_WRITE:
        raise _writable(path, found)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the user alone, whatever the umask.

    Raises:
        NotPrivateError: it exists and is not private, or others may write above it.
        OSError: it cannot be made.
    """
    missing: list[Path] = []
    above = _absolute(folder)
    while True:
        try:
            _followed(above)
            break
        except FileNotFoundError:
            missing.append(above)
            above = above.parent
    for path in reversed(missing):
        try:
            path.mkdir(FOLDER_MODE)
        except FileExistsError:
            continue  # Another process was faster.
        if path.stat().st_mode & FOLDER_MODE != FOLDER_MODE:
            path.chmod(FOLDER_MODE)  # The umask took a part away.
    check_folder(folder)


@contextmanager
def opened(path: Path) -> Generator[FileIO]:
    """A file of a folder that has been checked, open for reading.

    Raises:
        FileNotFoundError: it does not exist.
        IrregularError: it is a link, a folder, a pipe or the like.
        NotPrivateError: it belongs to somebody else, or others may write it.
        OSError: it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise IrregularError(f"{path} is not a regular file") from error
        raise
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise IrregularError(f"{path} is not a regular file")
        _check_owner(str(path), found)
        if found.st_mode & _OTHERS_WRITE:
            raise _writable(str(path), found)
        with open(handle, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def write(path: Path, *parts: bytes | memoryview) -> None:
    """Put a file of these bytes in the place of `path`, readable by the user alone.

    The folder has been checked. A reader sees the file of before or all of the new one.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, FILE_MODE)
            file.writelines(parts)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _followed(folder: Path) -> tuple[str, os.stat_result]:
    """Where a folder lies without links, and what it is.

    Everything on the way is looked at before what lies in it: in a folder that only the user and
    root can write, it stays what it was.

    Raises:
        NotPrivateError: something on the way can be replaced by others.
        OSError: something on the way is not a folder, or cannot be looked at.
    """
    path, links = os.sep, 0
    found = os.lstat(path)
    _check_owner(path, found)
    waiting = deque(_absolute(folder).parts[1:])
    while waiting:
        name = waiting.popleft()
        if name in ("", os.curdir):
            continue
        if name == os.pardir:
            path = os.path.dirname(path)
            found = os.lstat(path)
            continue
        if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
            raise _writable(path, found)
        inside = os.path.join(path, name)
        within = os.lstat(inside)
        _check_owner(inside, within)
        if stat.S_ISLNK(within.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{folder} has too many symbolic links")
            target = os.readlink(inside)
            waiting.extendleft(reversed(target.split(os.sep)))
            if target.startswith(os.sep):
                path, found = os.sep, os.lstat(os.sep)
            continue
        if not stat.S_ISDIR(within.st_mode):
            raise NotADirectoryError(f"{inside} is not a folder")
        path, found = inside, within
    return path, found


def _absolute(folder: Path) -> Path:
    # `..` stays: behind a link it leads elsewhere than the text says.
    return folder if folder.is_absolute() else Path.cwd() / folder


def _check_owner(path: str, found: os.stat_result) -> None:
    if found.st_uid not in (ROOT, os.geteuid()):
        raise NotPrivateError(
            path, f"{path} belongs to user {found.st_uid}, not to user {os.geteuid()}"
        )


def _writable(path: str, found: os.stat_result) -> NotPrivateError:
    mode = stat.S_IMODE(found.st_mode)
    return NotPrivateError(path, f"others may write {path} (mode {mode:04o}): chmod go-w {path}")
