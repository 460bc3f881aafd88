"""Whole compiled programs on disk, found by the text that they came from.

A hit reads one file and loads machine code: nothing is parsed, rewritten or lowered, and xDSL is
not even imported. Of a program for a GPU the file has the plan, and the kernels lie in the cache of
cubins: NVRTC is not loaded. The key holds all that the result depends on: the text, what was asked
for, the processor or GPU, and the compiler itself (`convir.runtime.cache.fingerprint`). The digests
of a model's files stand for its text.

Large constants are an entry of their own, named after their bytes, which is mapped into memory:
programs of one model for several shapes share it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.runtime.cache.digest import digest_of
from convir.runtime.cache.entry_fields import FormatError
from convir.runtime.cache.fingerprint import compiler_fingerprint
from convir.runtime.cache.object_cache import cache_of, user_records
from convir.runtime.cache.program_entry import (
    VERSION,
    ModelFiles,
    Signature,
    constant_bytes,
    constants_of,
    decode,
    encode,
    encode_apart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from convir.runtime.cache.object_cache import ObjectCache
    from convir.runtime.cache.program_entry import Entry

SWITCH_VARIABLE = "CONVIR_PROGRAM_CACHE"
"""Set to 0, every program is compiled from its text; object code is cached all the same."""

WEIGHTS_BYTES = 4 << 30
"""How much the folder of constants may hold."""

MAX_CONSTANT_BYTES = 1 << 30
"""Programs with larger constants are not kept: they would displace all others."""

INLINE_BYTES = 64 << 10
"""Constants up to this size stay in the program's own entry."""

_FORMAT = f"convir program {VERSION}"
_KIND = "programs"
"""The folder of the cache."""

_WEIGHTS = "weights"
"""The folder of large constants."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question:
    """What is compiled, for which processor or GPU, and how."""

    source: bytes
    """The text of the module."""
    function: str | None
    pipeline: str
    workspace_bytes: int | None
    allow_tf32: bool
    machine: tuple[object, ...]
    """What code is for, and which toolchain makes it; all of it prints as it is."""
    autotune: bool = False

    def key(self, shapes: Sequence[Sequence[int]] | None) -> str | None:
        """The key of the program for arguments of `shapes`, or None where nothing can be cached."""
        if os.environ.get(SWITCH_VARIABLE) == "0":
            return None
        try:
            compiler = compiler_fingerprint()
        except OSError as error:
            _log.info("programs are not cached: %s", error)
            return None
        asked = (_FORMAT, compiler, self.machine, self.function, self.pipeline, self.allow_tf32)
        bound = None if shapes is None else [list(s) for s in shapes]
        rest = (self.workspace_bytes, bound, _records_state(), self.autotune)
        return hashlib.sha256(repr((*asked, *rest)).encode() + self.source).hexdigest()


def _records_state() -> tuple[int, ...] | None:
    """What changes when tuning has measured something here: then programs are compiled again."""
    try:
        found = user_records().stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def files_key(digest: str) -> str | None:
    """The key of the `ModelFiles` of the model whose file has `digest`; None where nothing can be
    cached."""
    if os.environ.get(SWITCH_VARIABLE) == "0":
        return None
    return hashlib.sha256(f"{_FORMAT} model {digest}".encode()).hexdigest()


def load_program(key: str) -> Entry | None:
    """What was stored under `key`; None if nothing was, or it cannot be read."""
    stored = cache_of(_KIND)
    content = stored.load(key)
    if content is None:
        return None
    try:
        return decode(content, _weights().mapped)
    except FormatError as error:
        _log.warning("program cache: an entry cannot be read, compiling again: %s", error)
        return None


def program_lock(key: str) -> AbstractContextManager[None]:
    """Held while the program of `key` is made, by one thread of all processes at a time."""
    return cache_of(_KIND).lock(key)


def store_program(key: str, entry: Entry) -> None:
    """Keep `entry` under `key`, unless it is too large."""
    stored = cache_of(_KIND)
    if isinstance(entry, Signature | ModelFiles):
        stored.store(key, encode(entry))
        return
    size = sum(array.nbytes for array in constants_of(entry))
    if size > MAX_CONSTANT_BYTES:
        _log.info("program cache: not kept for its %d MiB of constants", size >> 20)
        return
    if size <= INLINE_BYTES:
        stored.store(key, encode(entry))
        return
    constants = constant_bytes(entry)
    digest = digest_of(constants)
    _weights().store(digest.hex(), constants, digest)
    stored.store(key, encode_apart(entry, digest.hex()))


def _weights() -> ObjectCache:
    return cache_of(_WEIGHTS, WEIGHTS_BYTES)
