"""The device code of kernels, and which headers a source includes.

What families share lies in layers below `include/`, a family's own code in its folder:
`#include "ptx/tma.cuh"`, `#include "sm90_wgrad/kernel.cuh"`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

KERNELS = "convir.lowering.kernels.cuda"
SHARED = "include"
"""The folder of what families share."""
SUFFIX = ".cuh"

_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


@cache
def headers() -> tuple[tuple[str, str], ...]:
    """Name and text of every header, as sources spell it."""
    folders = [folder for folder in resources.files(KERNELS).iterdir() if folder.is_dir()]
    found: list[tuple[str, str]] = []
    for folder in folders:
        found += _headers_in(folder, "" if folder.name == SHARED else f"{folder.name}/")
    return tuple(sorted(found))


def _headers_in(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _headers_in(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield prefix + entry.name, entry.read_text(encoding="utf-8")


def included(source: str) -> tuple[tuple[str, str], ...]:
    """Name and text of the headers that `source` includes, directly or not."""
    known = dict(headers())
    found: dict[str, str] = {}
    waiting = _INCLUDE.findall(source)
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found[name] = known[name]
            waiting += _included_by(name)
    return tuple(sorted(found.items()))


@cache
def _included_by(header: str) -> list[str]:
    """The names that a header includes itself."""
    return _INCLUDE.findall(dict(headers())[header])
