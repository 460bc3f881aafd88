"""Whole compiled programs on disk, found by the text that they came from.

A hit reads one file and loads machine code: nothing is parsed, rewritten or lowered, and xDSL is
not even imported. The key holds all that the result depends on: the text, what was asked for, the
processor, and the compiler itself (`convir.runtime.fingerprint`). The digests of a model's files
stand for its text.

Large constants are an entry of their own, named after their bytes: programs of one model for
several shapes share it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from convir.lowering.llvm.llvm_binding import VERSIONS
from convir.runtime.fingerprint import compiler_fingerprint
from convir.runtime.host.plan import HostPlan
from convir.runtime.object_cache import ObjectCache, cache_folder, user_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.llvm.target import Target
    from convir.runtime.program import DType, TensorSpec

SWITCH_VARIABLE = "CONVIR_PROGRAM_CACHE"
"""Set to 0, every program is compiled from its text; object code is cached all the same."""

MAX_CONSTANT_BYTES = 256 << 20
"""Programs with larger constants are not kept: they would displace all others."""

INLINE_BYTES = 64 << 10
"""Constants up to this size stay in the program's own entry."""

_ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

_FORMAT = "convir program 1"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Signature:
    """A program whose sizes its arguments give: it is compiled once they are known."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class ModelFiles:
    """The files that a model names beside its own."""

    names: tuple[str, ...]


Entry: TypeAlias = "HostPlan | Signature | ModelFiles"


@dataclass(frozen=True)
class _Apart:
    """A plan whose constants are another entry."""

    plan: HostPlan
    """Without them."""
    key: str
    constants: tuple[tuple[DType, tuple[int, ...], int], ...]
    """Of each its dtype, its shape, and the byte where it begins."""


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
        bound = None if shapes is None else [list(s) for s in shapes]
        rest = (self.workspace_bytes, bound, _records_state())
        return hashlib.sha256(repr((*asked, *rest)).encode() + self.source).hexdigest()


def _records_state() -> tuple[int, int] | None:
    """What changes when tuning has measured something here: then programs are compiled again."""
    try:
        found = user_records().stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def files_key(digest: str) -> str | None:
    """The key of the `ModelFiles` of the model whose file has `digest`; None where nothing can be
    cached."""
    if os.environ.get(SWITCH_VARIABLE) == "0":
        return None
    return hashlib.sha256(f"{_FORMAT} model {digest}".encode()).hexdigest()


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
    if isinstance(entry, _Apart):
        return _with_constants(entry)
    return entry if isinstance(entry, HostPlan | Signature | ModelFiles) else None


def store_program(key: str, entry: Entry) -> None:
    """Keep `entry` under `key`, unless it is too large."""
    stored: Entry | _Apart = entry
    if isinstance(entry, HostPlan):
        size = sum(constant.nbytes for constant in entry.constants)
        if size > MAX_CONSTANT_BYTES:
            _log.info("program cache: not kept for its %d MiB of constants", size >> 20)
            return
        if size > INLINE_BYTES:
            stored = _apart(entry)
    _cache().store(key, pickle.dumps(stored, pickle.HIGHEST_PROTOCOL))


def _apart(plan: HostPlan) -> _Apart:
    """Store the constants of a plan."""
    places: list[tuple[DType, tuple[int, ...], int]] = []
    content = bytearray()
    for constant in plan.constants:
        content += bytes(-len(content) % _ALIGNMENT)
        places.append((constant.dtype, constant.shape, len(content)))
        content += constant.tobytes()
    key = hashlib.sha256(content).hexdigest()
    _cache().store(key, bytes(content))
    return _Apart(replace(plan, constants=()), key, tuple(places))


def _with_constants(entry: _Apart) -> HostPlan | None:
    """The whole plan; None if its constants are no longer there."""
    content = _cache().load(entry.key)
    if content is None:
        return None
    constants = tuple(
        np.ndarray(shape, dtype, content, offset) for dtype, shape, offset in entry.constants
    )
    return replace(entry.plan, constants=constants)


_caches: dict[str, ObjectCache] = {}


def _cache() -> ObjectCache:
    folder = cache_folder() / "programs"
    return _caches.setdefault(str(folder), ObjectCache(folder))
