"""Records from files: the user's first, then what is shipped.

Files are read once for as long as they stay the same. One that is not there costs a look at its
folder; one that is corrupt counts as absent, with a warning.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from convir.lowering.selection.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.lowering.selection.records.record import Key, Machine

_log = logging.getLogger(__name__)

SUFFIX = ".jsonl"
_KEPT_FILES = 16
"""Files whose records stay in memory."""


def shipped_file(machine: Machine) -> Path:
    """Where the records that are shipped for a machine lie, if there are any."""
    return Path(__file__).with_name(machine.slug + SUFFIX)


def records_of(machine: Machine, files: Sequence[str | Path] = ()) -> list[Mapping[Key, Record]]:
    """The records of every file that has some: `files` in their order, then what is shipped."""
    tables = [_table(Path(file)) for file in (*files, shipped_file(machine))]
    return [table for table in tables if table]


def find(tables: Sequence[Mapping[Key, Record]], key: Key) -> Record | None:
    """The first record of a kernel on a machine."""
    return next((table[key] for table in tables if key in table), None)


def read_records(file: Path) -> tuple[Record, ...]:
    """The records of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is not a record.
    """
    text = file.read_text(encoding="utf-8")
    return tuple(Record.parse(line) for line in text.splitlines() if line)


def _table(file: Path) -> Mapping[Key, Record]:
    try:
        found = file.stat()
    except OSError:
        return {}
    stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return _known(file, stamp) if S_ISREG(found.st_mode) else {}


@lru_cache(_KEPT_FILES)
def _known(file: Path, stamp: tuple[int, ...]) -> Mapping[Key, Record]:
    del stamp  # another file, whose records are other ones
    try:
        return {record.key: record for record in read_records(file)}
    except (OSError, ValueError) as error:
        _log.warning("tuning records: %s cannot be used, predictions decide: %s", file, error)
        return {}
