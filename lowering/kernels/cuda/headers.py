"""The headers of the CUDA templates, and which of them a source includes."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

TEMPLATES = "convir.lowering.cuda.templates"

_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


@cache
def headers() -> tuple[tuple[str, str], ...]:
    """Path below the templates, and text, of every template header."""
    return tuple(sorted(_headers_in(resources.files(TEMPLATES), "")))


def _headers_in(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _headers_in(entry, f"{name}/")
        elif name.endswith(".cuh"):
            yield name, entry.read_text(encoding="utf-8")


def included(source: str) -> tuple[tuple[str, str], ...]:
    """File name and text of the template headers that `source` includes, directly or not."""
    known = dict(headers())
    found: dict[str, str] = {}
    texts = [source]
    while texts:
        for name in _INCLUDE.findall(texts.pop()):
            if name in known and name not in found:
                found[name] = known[name]
                texts.append(known[name])
    return tuple(sorted(found.items()))
