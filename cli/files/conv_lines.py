"""MIOpenDriver lines on a command line, or in a commands file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.cli.arguments.parser import UsageError
from convir.cli.files.streams import read_input
from convir.cli.reports.marked_line import marked_line
from convir.dialects.diagnostics import Diagnostic
from convir.frontends.miopen import ConvLine, parse_line, strip_comment
from convir.frontends.miopen_options import LineError
from convir.frontends.sources import NAM_SUFFIX, ONNX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.cli.arguments.parser import ArgumentParser
    from convir.cli.reports.reporter import Reporter

MODEL_SUFFIXES = (ONNX_SUFFIX, NAM_SUFFIX)


def split_arguments(argv: Sequence[str], parser: ArgumentParser) -> tuple[list[str], list[str]]:
    """The tool's own arguments, and the lines and models that stand among them.

    An argument with white space in it is one line, and the path of a model one model; what stands
    around them is the tool's own. Any other first word begins a line without quotes, which has all
    words to the end.

    Args:
        argv: the command line.
        parser: knows which options take their value from the next word.
    """
    own: list[str] = []
    sources: list[str] = []
    position = 0
    while position < len(argv):
        word = argv[position]
        if word.startswith("-"):
            width = 2 if parser.takes_next_word(word) else 1
            own += argv[position : position + width]
            position += width
        elif word.endswith(MODEL_SUFFIXES) or len(word.split()) != 1:
            sources.append(word)
            position += 1
        else:
            sources.append(" ".join(argv[position:]))
            break
    return own, sources


def parse_argument(line: str) -> ConvLine:
    """The line that was given on the command line.

    Raises:
        UsageError: it is wrong, with the column where.
    """
    try:
        return parse_line(line)
    except LineError as error:
        shown = marked_line(line, error.column)
        raise UsageError(f"column {error.column}: {error.message}\n{shown}") from None


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
