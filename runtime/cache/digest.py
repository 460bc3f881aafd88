"""Digests of large contents, on all cores: SHA-256 of the SHA-256 of every piece.

Fast enough that a file is read again whenever its content matters. Nothing else says whether a file
has changed: its times can be set or are too coarse, and a program that maps a file into its memory
changes them late, or never.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from convir.runtime.cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PIECE_BYTES = 1 << 20
"""What one thread digests at a time; it stays in a second-level cache between both of its reads."""

DIGEST_BYTES = 32
"""The length of a digest."""

_MIN_SHARED_PIECES = 4
"""Starting threads takes as long as digesting so many."""


def digest_of(content: bytes | memoryview) -> bytes:
    """The digest of `content`."""
    view = memoryview(content)

    def reader() -> Callable[[int], memoryview]:
        return lambda begin: view[begin : begin + PIECE_BYTES]

    return _joined(len(content), reader)


def digest_of_file(path: Path, threads: int | None = None) -> str:
    """The digest, in hexadecimal, of what a file holds: all of it is read, each time.

    Args:
        path: of the file.
        threads: how many read it at once; None for as many as there are cores.

    Raises:
        OSError: it cannot be read, or is not a regular file: a pipe has no end.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(f"'{path}' is not a regular file")
    with open(path, "rb", buffering=0) as file:
        handle, size = file.fileno(), os.fstat(file.fileno()).st_size

        def reader() -> Callable[[int], memoryview]:
            memory = memoryview(bytearray(min(size, PIECE_BYTES)))
            return lambda begin: memory[: os.preadv(handle, [memory], begin)]

        return _joined(size, reader, threads).hex()


def _joined(
    size: int, reader: Callable[[], Callable[[int], memoryview]], most: int | None = None
) -> bytes:
    """The digest of `size` bytes; `reader` gives what reads the piece at a byte, for one thread,
    of `most` at most."""
    begins = range(0, size, PIECE_BYTES)
    threads = min(most or available_cores(), len(begins))
    threads = threads if len(begins) >= _MIN_SHARED_PIECES else 1
    digests = [b""] * len(begins)

    def work(first: int) -> None:
        read = reader()
        for number in range(first, len(begins), threads):
            digests[number] = hashlib.sha256(read(begins[number])).digest()

    if threads == 1:
        work(0)
    else:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (most need none)

        with ThreadPoolExecutor(threads - 1) as pool:
            others = [pool.submit(work, first) for first in range(1, threads)]
            work(0)
            for other in others:
                other.result()
    return hashlib.sha256(size.to_bytes(8, "little") + b"".join(digests)).digest()
