"""The one error of the `.nam` front end."""

from __future__ import annotations

from convir.dialects.diagnostics import Diagnostic, DiagnosticError, one_line, shortened


class NamError(DiagnosticError):
    """A model that cannot be imported: `FILE:0:0: error: config.layers[0]: …`."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(Diagnostic(file, 0, 0, "error", one_line(shortened(message))))
