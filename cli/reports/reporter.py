"""Where a tool's diagnostics go: to stderr at once, or held back to be compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from convir.cli.reports.marked_line import marked_line
from convir.dialects.diagnostics import UNKNOWN_FILE, Diagnostic, one_line

if TYPE_CHECKING:
    from convir.passes.manager.remarks import Remark


_SHOWN = ("error", "warning")
"""The severities of what is shown in the input; remarks would triple."""


@dataclass
class Reporter:
    """Prints diagnostics as they come, or keeps them where `holding`."""

    name: str
    """The input's name, which stands in for a file that is not known."""
    holding: bool = False
    held: list[Diagnostic] = field(default_factory=list[Diagnostic])
    errors: int = 0
    """How many errors were printed."""
    _data: bytes = b""
    """The text of the input."""

    def show(self, data: bytes) -> None:
        """Let errors and warnings show their lines of the input, which is `data`."""
        self._data = data

    def report(self, diagnostic: Diagnostic) -> None:
        """Print `diagnostic` on one line of stderr, or hold it back.

        Behind an error or a warning about a place of the input stand its line and a caret.
        """
        if diagnostic.file == UNKNOWN_FILE:
            diagnostic = replace(diagnostic, file=self.name)
        if self.holding:
            self.held.append(diagnostic)
            return
        if diagnostic.severity == "error":
            self.errors += 1
        sys.stderr.write(f"{one_line(diagnostic)}\n{self._marked(diagnostic)}")

    def _marked(self, diagnostic: Diagnostic) -> str:
        """The line that `diagnostic` is about, with a caret; empty where there is none to show."""
        if diagnostic.severity not in _SHOWN or diagnostic.file != self.name:
            return ""
        lines = self._data.split(b"\n", diagnostic.line) if diagnostic.line else []
        if len(lines) < diagnostic.line or not lines:
            return ""
        line = lines[diagnostic.line - 1].decode(errors="replace").rstrip("\r")
        return f"{marked_line(line, diagnostic.col)}\n" if line.strip() else ""

    def release(self) -> tuple[Diagnostic, ...]:
        """The diagnostics held back so far, which are then forgotten."""
        released = tuple(self.held)
        self.held.clear()
        return released

    def report_remark(self, remark: Remark, *, names_function: bool) -> None:
        """Report what a pass did or refused to do, in which function if `names_function`."""
        function = f" (in @{remark.function})" if names_function and remark.function else ""
        message = f"{remark.message}{function}"
        file, line, col = located(remark.location)
        self.report(Diagnostic(file, line, col, "remark", message))


def located(location: str) -> tuple[str, int, int]:
    """File, line and column of `file:line:col`; line and column are 0 where it is unknown."""
    file, *numbers = location.rsplit(":", 2)
    if len(numbers) != len(("line", "col")):
        return UNKNOWN_FILE, 0, 0
    line, col = map(int, numbers)
    return file, line, col
