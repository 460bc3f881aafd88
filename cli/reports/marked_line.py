"""A line of the input with a caret below the column that a message is about."""

from __future__ import annotations

_LONGEST = 160
"""A longer line, as one with a constant is, is shown in part."""
_BEFORE = 100
"""How much of such a line is shown before the column."""


def marked_line(line: str, column: int) -> str:
    """`line` and, on a second line, `^` below `column`, which counts code points from 1."""
    text = "".join(map(_visible, line.rstrip()))
    position = max(0, column - 1)
    begin = max(0, position - _BEFORE) if len(text) > _LONGEST else 0
    shown = text[begin : begin + _LONGEST]
    before = "".join("\t" if character == "\t" else " " for character in text[begin:position])
    ellipsis = "…" if begin else ""
    end = "…" if len(text) > begin + _LONGEST else ""
    blank = " " * (len(ellipsis) + max(0, position - len(text)))
    return f"{ellipsis}{shown}{end}\n{blank}{before}^"


def _visible(character: str) -> str:
    is_shown = character.isprintable() or character == "\t"
    return character if is_shown else "\N{REPLACEMENT CHARACTER}"
