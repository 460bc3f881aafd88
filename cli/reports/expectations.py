"""`--verify-diagnostics`: comments that say which diagnostics a chunk must give.

As in MLIR, `// expected-error@+1 {{text}}` demands an error on the next line whose message
contains `text`. The severity is error, warning, remark or note. The place is `@+N`, `@-N`,
`@above` and `@below` (the nearest line without a designator), `@unknown`, or none for the line
itself. `expected-error-re` reads `{{...}}` inside the text as regular expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.dialects.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.cli.files.chunks import Chunk

_DESIGNATOR = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)? *"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}[^\S\n]*$"
)

_UNKNOWN_LINE = 0


@dataclass(frozen=True)
class Expectation:
    """One diagnostic that must be given."""

    severity: str
    line: int
    """The line it must be on; 0 for a diagnostic without a place."""
    text: str
    pattern: re.Pattern[str]
    written_on: int
    """The line on which the designator stands."""

    def matches(self, diagnostic: Diagnostic) -> bool:
        """Whether `diagnostic` is what was expected."""
        return (
            self.severity == diagnostic.severity
            and self.line == diagnostic.line
            and self.pattern.search(diagnostic.message) is not None
        )


def expectations(chunk: Chunk, file: str) -> tuple[Expectation, ...]:
    """The designators of `chunk`, with the lines of `file`.

    Raises:
        DiagnosticError: the text of an `expected-…-re` holds a malformed regular expression.
    """
    found: list[Expectation] = []
    waiting_for_line_below: list[tuple[int, re.Match[str]]] = []
    line_above = chunk.line_offset
    lines = chunk.data.decode("utf-8", "replace").split("\n")
    for line, text in enumerate(lines, start=chunk.line_offset + 1):
        match = _DESIGNATOR.search(text)
        if match is None:
            found += [_expectation(m, line, on, file) for on, m in waiting_for_line_below]
            waiting_for_line_below.clear()
            line_above = line
            continue
        place = match["place"]
        if place == "below":
            waiting_for_line_below.append((line, match))
        elif place == "above":
            found.append(_expectation(match, line_above, line, file))
        elif place == "unknown":
            found.append(_expectation(match, _UNKNOWN_LINE, line, file))
        else:
            found.append(_expectation(match, line + int(place or 0), line, file))
    found += [_expectation(m, on, on, file) for on, m in waiting_for_line_below]
    return tuple(found)


def _expectation(match: re.Match[str], line: int, written_on: int, file: str) -> Expectation:
    text = match["text"]
    source = _pattern_with_blocks(text) if match["regex"] else re.escape(text)
    try:
        pattern = re.compile(source)
    except re.error as exc:
        message = f"malformed regular expression in '{text}': {exc}"
        where = Diagnostic(file, written_on, match.start() + 1, "error", message)
        raise DiagnosticError(where) from exc
    return Expectation(match["severity"], line, text, pattern, written_on)


def _pattern_with_blocks(text: str) -> str:
    """The expression of `a {{b+}} c`: literal text around blocks that are expressions."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    blocks = (f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))
    return "".join(blocks)


def compare(
    expected: Sequence[Expectation], given: Sequence[Diagnostic], file: str
) -> tuple[Diagnostic, ...]:
    """What is wrong: one error for each unexpected diagnostic and each unmatched expectation."""
    pending = list(expected)
    wrong: list[Diagnostic] = []
    for diagnostic in given:
        match = next((e for e in pending if e.matches(diagnostic)), None)
        if match is not None:
            pending.remove(match)
            continue
        message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
        wrong.append(Diagnostic(file, diagnostic.line, diagnostic.col, "error", message))
    for e in pending:
        message = f'expected {e.severity} "{e.text}" was not produced'
        wrong.append(Diagnostic(file, e.written_on, 1, "error", message))
    return tuple(wrong)
