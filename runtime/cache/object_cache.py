"""Object code on disk, shared by processes: content-addressed, atomic, self-checking, bounded.

An entry is a file named after its key and the version of its layout: installations of several
versions may share a folder. It holds a header with the digest of the payload. A writer makes a
temporary file and renames it over the entry, so a reader sees a whole entry or none, and two
processes that race write the same bytes. An entry whose digest is wrong, or that is not a regular
file, is a miss with a warning, and the next store replaces it.

What others could have written is not read (`private_files`): entries are code that will run.

Reading an entry marks it as used. Now and then a store looks at how much there is, and removes
what was not used for longest until the folder is back within its limit.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from convir.runtime.cache import locks, private_files
from convir.runtime.cache.digest import DIGEST_BYTES, digest_of
from convir.runtime.cache.private_files import IrregularError, NotPrivateError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from io import FileIO

_log = logging.getLogger(__name__)

FOLDER_VARIABLE = "CONVIR_CACHE_DIR"
"""Names the cache folder; without it, `convir` in the XDG cache folder is used."""

LIMIT_BYTES = 512 << 20
"""How much a folder may hold, in bytes."""

STORES_BETWEEN_LOOKS = 64
"""How many entries a process stores between two looks at the size of the folder."""

_KEPT_SHARE = 0.75
"""Of the limit, after entries were removed: the next look should find nothing to do."""

_VERSION = 3
"""Of the layout of an entry."""

_MAGIC = f"convir object {_VERSION}\n".encode().ljust(32)
"""With the digest behind it a cache line, so that a mapped payload begins with one."""


def cache_folder() -> Path:
    """The folder that caches live in, which need not exist: of the user who has no home, one
    beside temporary files."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "convir"
    try:
        return Path("~/.cache/convir").expanduser()
    except RuntimeError:
        return Path(os.environ.get("TMPDIR") or "/tmp") / f"convir-{os.geteuid()}"


def user_records() -> Path:
    """The file of the tuning records that were measured on this machine, which need not exist."""
    return cache_folder() / "records.jsonl"


def private_records() -> tuple[str, ...]:
    """The file of `user_records`, unless it is not there or others could have written it."""
    file = user_records()
    try:
        private_files.check_folder(file.parent)
        with private_files.opened(file):
            return (str(file),)
    except NotPrivateError as error:
        warn_not_private(error)
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning("tuning records: %s cannot be used: %s", file, error)
    return ()


@dataclass
class ObjectCache:
    """A folder of entries; a folder that cannot be used costs one warning and nothing else."""

    folder: Path
    """Where the entries live."""
    limit_bytes: int = LIMIT_BYTES
    """How much they may take."""
    _warned: bool = field(default=False, init=False)
    _stores: int = field(default=0, init=False)

    def path(self, key: str) -> Path:
        """The file of the entry `key`, a hexadecimal digest."""
        return self.folder / key[:2] / f"{key[2:]}.{_VERSION}"

    def load(self, key: str) -> bytes | None:
        """The payload stored under `key`, or None if there is none or it is damaged."""
        found = self._load(key, lambda file: file.read())
        return None if found is None else bytes(found)

    def mapped(self, key: str) -> memoryview | None:
        """As `load`, but the payload is mapped into memory, not copied there: nobody writes to the
        file of an entry once it has its name."""
        return self._load(key, lambda file: mmap(file.fileno(), 0, access=ACCESS_READ))

    def _load(self, key: str, read: Callable[[FileIO], bytes | mmap]) -> memoryview | None:
        path = self.path(key)
        try:
            private_files.check_folder(path.parent)
            with private_files.opened(path) as file:
                if os.fstat(file.fileno()).st_size > self.limit_bytes:
                    return None
                content = memoryview(read(file))
                with suppress(OSError):  # who may not mark an entry may still read it
                    os.utime(file.fileno())
        except FileNotFoundError:
            return None
        except IrregularError as error:
            _log.warning("object cache: %s, compiling again", error)
            return None
        except ValueError:  # no memory can be mapped to an empty file
            content = memoryview(b"")
        except NotPrivateError as error:
            warn_not_private(error)
            return None
        except OSError as error:
            self._warn_once(error)
            return None
        begin = len(_MAGIC) + DIGEST_BYTES
        payload = content[begin:]
        if bytes(content[:begin]) != _MAGIC + digest_of(payload):
            _log.warning("object cache: %s is corrupt, compiling again", path)
            return None
        return payload

    def lock(self, key: str) -> AbstractContextManager[None]:
        """Held by one thread of all processes at a time: the one that makes the entry `key`."""
        path = self.path(key)
        return locks.held(path.with_name(f"{path.name}.lock"))

    def store(self, key: str, payload: bytes, digest: bytes | None = None) -> None:
        """Keep `payload`, whose digest need not be computed if it is given, under `key`, replacing
        what was there."""
        path = self.path(key)
        try:
            private_files.make_folder(path.parent)
            head = _MAGIC + (digest_of(payload) if digest is None else digest)
            private_files.write(path, head, payload)
        except NotPrivateError as error:
            warn_not_private(error)
            return
        except OSError as error:
            self._warn_once(error)
            return
        if self._stores % STORES_BETWEEN_LOOKS == 0:
            self.prune()
        self._stores += 1

    def prune(self) -> None:
        """Remove what was not used for longest, if the folder holds more than its limit."""
        found = list(self._entries())
        total = sum(stat.st_size for stat, _ in found)
        if total <= self.limit_bytes:
            return
        _log.info("object cache: %s holds %d bytes, more than its limit", self.folder, total)
        for stat, path in sorted(found, key=lambda entry: entry[0].st_mtime_ns):
            if total <= self.limit_bytes * _KEPT_SHARE:
                return
            # Another process may have removed it, or put a new one there: both are well.
            with suppress(OSError):
                path.unlink()
            total -= stat.st_size

    def _entries(self) -> Generator[tuple[os.stat_result, Path]]:
        """Every file below the folder, those that writers died over included."""
        for path in self.folder.glob("*/*"):
            with suppress(OSError):
                yield path.lstat(), path

    def _warn_once(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        _log.warning("object cache: %s cannot be used, going on in memory: %s", self.folder, error)


def cache_of(kind: str, limit_bytes: int = LIMIT_BYTES) -> ObjectCache:
    """The cache of one kind of entries, a folder of the cache folder; one object a process."""
    folder = cache_folder() / kind
    return _caches.setdefault(folder, ObjectCache(folder, limit_bytes))


def warn_not_private(error: NotPrivateError) -> None:
    """Say what is not read, and what to do: once for each folder or file that is at fault."""
    if error.path in _told:
        return
    _told.add(error.path)
    _log.warning(
        "cache: %s; until then nothing is read from there. Or let %s name a folder that only you "
        "can write",
        error,
        FOLDER_VARIABLE,
    )


_caches: dict[Path, ObjectCache] = {}
_told: set[str] = set()
