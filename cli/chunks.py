"""`--split-input-file`: one file holding several modules between lines `// -----`."""

from __future__ import annotations

import re
from dataclasses import dataclass

SEPARATOR = "// -----"
"""The line that stands between two chunks, in the input and in the output."""

_SEPARATOR_LINE = re.compile(r"^// -----[^\S\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Chunk:
    """The text of one module, and the line of the file on which it starts."""

    text: str
    first_line: int = 1

    @property
    def padded(self) -> str:
        """The text after as many empty lines as stand above it: its lines are the file's."""
        return "\n" * (self.first_line - 1) + self.text


def split(text: str) -> tuple[Chunk, ...]:
    """The chunks of `text`, in order; one where no separator stands."""
    chunks: list[Chunk] = []
    line = 1
    for part in _SEPARATOR_LINE.split(text):
        chunks.append(Chunk(part, line))
        line += part.count("\n")
    return tuple(chunks)
