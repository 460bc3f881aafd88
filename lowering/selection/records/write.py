"""Records to a file: whole or not at all, beside what others put there meanwhile."""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from convir.lowering.selection.records.read import read_records

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from convir.lowering.selection.records.record import Key, Record

_log = logging.getLogger(__name__)

_ASIDE = ".corrupt"


def save(file: Path, records: Sequence[Record]) -> None:
    """Put `records` into a file, in the place of what it says of the same kernels.

    Readers see all of it or nothing; processes that save at once wait for each other. A file that
    is corrupt is put aside.

    Raises:
        OSError: the folder cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(file.parent):
        merged = _kept(file) | {record.key: record for record in records}
        ordered = sorted(merged.values(), key=lambda r: (r.machine.slug, r.problem, r.signature))
        text = "".join(f"{record.line()}\n" for record in ordered)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _kept(file: Path) -> dict[Key, Record]:
    try:
        return {record.key: record for record in read_records(file)}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        aside = file.with_name(file.name + _ASIDE)
        _log.warning("tuning records: %s is corrupt, now %s: %s", file, aside.name, error)
        file.replace(aside)
        return {}


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """No other process is inside with the same folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
