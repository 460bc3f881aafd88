"""The line of the input below an error, with its caret."""

from __future__ import annotations

import pytest

from convir.cli.reports.marked_line import marked_line


@pytest.mark.parametrize(
    ("line", "column", "shown"),
    [
        ("abc", 1, "abc\n^"),
        ("abc", 3, "abc\n  ^"),
        ("abc", 4, "abc\n   ^"),
        ("\tabc", 2, "\tabc\n\t^"),
        ("a\x00c", 3, "a\N{REPLACEMENT CHARACTER}c\n  ^"),
        ("é%x", 2, "é%x\n ^"),
    ],
)
def test_a_short_line_is_shown_whole(line: str, column: int, shown: str) -> None:
    assert marked_line(line, column) == shown


@pytest.mark.parametrize("column", [1, 50, 500, 1000])
def test_a_long_line_is_shown_around_the_column(column: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(1000))
    text, caret = marked_line(line, column).splitlines()
    assert len(text) < 200
    assert text[caret.index("^")] == line[column - 1]
