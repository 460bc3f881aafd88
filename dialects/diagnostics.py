"""Errors a user reads: one line each, `file:line:col: error: message`, at the op that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.hints import isa

from convir.dialects.verification import InvalidOpError, check

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

UNKNOWN_FILE = "<unknown>"


@dataclass(frozen=True)
class Diagnostic:
    """One message about one place in a file."""

    file: str
    line: int
    """From 1; 0 where the place is unknown."""
    col: int
    """From 1, in code points; 0 where the place is unknown."""
    severity: str
    """`error`, `warning`, `note` or `remark`."""
    message: str
    """One line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}: {self.severity}: {self.message}"


class DiagnosticError(DiagnosticException):
    """The input is wrong; `diagnostics` says where and why."""

    def __init__(self, *diagnostics: Diagnostic):
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


def one_line(text: object) -> str:
    """`text` with every run of white space made one space."""
    return " ".join(str(text).split())


_MAX_CHARACTERS = 600


def shortened(text: str) -> str:
    """`text` without its middle where it quotes more of a file than anyone reads."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    half = _MAX_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


def file_location(location: Attribute) -> FileLineColLoc | None:
    """The first file location inside `location`: of a name, a call's callee or what was fused."""
    pending = [location]
    while pending:
        location = pending.pop()
        if isinstance(location, FileLineColLoc):
            return location
        if isinstance(location, NameLoc):
            pending.append(location.location)
        elif isinstance(location, CallSiteLoc):
            pending.append(location.callee)
        elif isinstance(location, FusedLoc) and isa(location.locations, ArrayAttr[Attribute]):
            pending.extend(reversed(location.locations.data))
    return None


def error_at(op: Operation, message: object) -> Diagnostic:
    """An error at `op`, or at the nearest op around it that has a file location."""
    around: Operation | None = op
    while around is not None:
        if (location := file_location(around.location)) is not None:
            return Diagnostic(
                location.filename.data,
                location.line.data,
                location.column.data,
                "error",
                one_line(message),
            )
        around = around.parent_op()
    return Diagnostic(UNKNOWN_FILE, 0, 0, "error", one_line(message))


def diagnostic_of(error: BaseException) -> Diagnostic:
    """The one line that tells a user about `error`."""
    if isinstance(error, DiagnosticError):
        return error.diagnostics[0]
    if isinstance(error, ParseError):
        place = error.span.get_location()
        return Diagnostic(place.file, place.line, place.col, "error", one_line(error.msg))
    return Diagnostic(UNKNOWN_FILE, 0, 0, "error", one_line(error) or type(error).__name__)


def verify(module: ModuleOp) -> None:
    """Verify every op of `module`, in the order of the text.

    Raises:
        DiagnosticError: an op is wrong; located at that op.
    """
    try:
        check(module)
    except InvalidOpError as error:
        message = f"'{error.op.name}' op {error.reason}"
        raise DiagnosticError(error_at(error.op, message)) from error
