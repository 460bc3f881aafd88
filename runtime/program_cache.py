"""Whole compiled programs on disk, found by the text that they came from.

A hit reads one file and loads machine code: nothing is parsed, rewritten or lowered, and xDSL is
not even imported. The key holds all that the result depends on: the text, what was asked for, the
processor, and the compiler itself (`convir.runtime.fingerprint`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from convir.lowering.llvm.llvm_binding import VERSIONS
from convir.runtime.fingerprint import compiler_fingerprint
from convir.runtime.host.plan import HostPlan
from convir.runtime.object_cache import ObjectCache, cache_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.llvm.target import Target
    from convir.runtime.program import TensorSpec

SWITCH_VARIABLE = "CONVIR_PROGRAM_CACHE"
"""Set to 0, every program is compiled from its text; object code is cached all the same."""

MAX_CONSTANT_BYTES = 64 << 20
"""Programs with larger constants are not kept: they would displace all others."""

_FORMAT = "convir program 1"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Signature:
    """A program whose sizes its arguments give: it is compiled once they are known."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


Entry: TypeAlias = "HostPlan | Signature"


@dataclass(frozen=True)
class Question:
    """What is compiled, for which processor, and how."""

    source: bytes
    """The text of the module."""
    function: str
    pipeline: str
    workspace_bytes: int | None
    cpu: Target

    def key(self, shapes: Sequence[Sequence[int]] | None) -> str | None:
        """The key of the program for arguments of `shapes`, or None where nothing can be cached."""
        if os.environ.get(SWITCH_VARIABLE) == "0":
            return None
        try:
            compiler = compiler_fingerprint()
        except OSError as error:
            _log.info("programs are not cached: %s", error)
            return None
        asked = (_FORMAT, compiler, VERSIONS, self.cpu, self.function, self.pipeline)
        rest = (self.workspace_bytes, None if shapes is None else [list(s) for s in shapes])
        return hashlib.sha256(repr((*asked, *rest)).encode() + self.source).hexdigest()


def load_program(key: str) -> Entry | None:
    """What was stored under `key`; None if nothing was, or it cannot be read."""
    payload = _cache().load(key)
    if payload is None:
        return None
    try:
        entry = pickle.loads(payload)
    except Exception as error:
        _log.warning("program cache: an entry cannot be read, compiling again: %s", error)
        return None
    return entry if isinstance(entry, HostPlan | Signature) else None


def store_program(key: str, entry: Entry) -> None:
    """Keep `entry` under `key`, unless it is too large."""
    if isinstance(entry, HostPlan):
        size = sum(constant.nbytes for constant in entry.constants)
        if size > MAX_CONSTANT_BYTES:
            _log.info("program cache: not kept for its %d MiB of constants", size >> 20)
            return
    _cache().store(key, pickle.dumps(entry, pickle.HIGHEST_PROTOCOL))


_caches: dict[str, ObjectCache] = {}


def _cache() -> ObjectCache:
    folder = cache_folder() / "programs"
    return _caches.setdefault(str(folder), ObjectCache(folder))
