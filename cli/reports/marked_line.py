"""A line of the input with a caret below the column that a message is about."""

from __future__ import annotations

_BEFORE, _BEHIND = 100, 60
"""How much of a long line is shown on either side of the column."""


def marked_line(line: str, column: int) -> str:
    """`line` and, on a second line, `^` below `column`, which counts code points from 1.

    Of a line that is long, as one with a constant is, the part around the column is shown.
    """
    position = max(0, column - 1)
    begin = max(0, position - _BEFORE)
    shown = line[begin : position + _BEHIND].rstrip()
    before = "".join("\t" if character == "\t" else " " for character in line[begin:position])
    ellipsis = "…" if begin else ""
    end = "…" if len(line.rstrip()) > position + _BEHIND else ""
    return f"{ellipsis}{shown}{end}\n{' ' * len(ellipsis)}{before}^"
