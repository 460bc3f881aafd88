"""MIOpenDriver lines on a command line, or in a commands file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.cli.arguments.parser import UsageError
from convir.cli.files.streams import read_input
from convir.dialects.diagnostics import Diagnostic
from convir.frontends.miopen import ConvLine, parse_line, strip_comment
from convir.frontends.miopen_options import LineError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from convir.cli.reports.reporter import Reporter


def split_arguments(argv: Sequence[str], valued: Collection[str]) -> tuple[list[str], list[str]]:
    """The tool's own arguments, and the words of the line.

    Args:
        argv: the command line; the tool's options come first.
        valued: those of them that take their value from the next word.
    """
    position = 0
    while position < len(argv) and argv[position].startswith("-"):
        takes_value = argv[position] in valued
        position += 2 if takes_value else 1
    return list(argv[:position]), list(argv[position:])


def parse_argument(line: str) -> ConvLine:
    """The line that was given on the command line.

    Raises:
        UsageError: it is wrong, with the column where.
    """
    try:
        return parse_line(line)
    except LineError as error:
        raise UsageError(f"column {error.column}: {error.message}") from None


def read_commands(path: str, reporter: Reporter) -> list[ConvLine]:
    """The lines of a commands file; what is wrong with any of them is reported."""
    lines: list[ConvLine] = []
    for number, text in enumerate(read_input(path).decode(errors="replace").splitlines(), 1):
        line = strip_comment(text)
        if not line.strip():
            continue
        try:
            lines.append(parse_line(line))
        except LineError as error:
            reporter.report(Diagnostic(reporter.name, number, error.column, "error", error.message))
    return lines
