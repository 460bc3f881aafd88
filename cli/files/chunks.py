"""`--split-input-file`: one file holding several modules between lines `// -----`."""

from __future__ import annotations

import re
from dataclasses import dataclass

SEPARATOR = "// -----"
"""The line that stands between two chunks, in the input and in the output."""

_SEPARATOR_LINE = re.compile(rb"^// -----[^\S\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Chunk:
    """The bytes of one module, and where they stand in the file."""

    data: bytes
    line_offset: int = 0
    """The number of lines of the file before the first one of `data`."""


def split(data: bytes) -> tuple[Chunk, ...]:
    """The chunks of `data`, in order; one where no separator stands."""
    chunks: list[Chunk] = []
    lines = 0
    for part in _SEPARATOR_LINE.split(data):
        chunks.append(Chunk(part, lines))
        lines += part.count(b"\n")
    return tuple(chunks)
