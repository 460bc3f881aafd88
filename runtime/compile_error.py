"""What goes wrong in a toolchain, with everything needed to repeat it."""

from __future__ import annotations


class CompileError(Exception):
    """A toolchain refused generated code.

    `str()` is one paragraph that names the cause; `source`, `options` and `log` hold the rest.
    """

    source: str
    """The text that was being compiled."""
    options: str
    """Target and options, in one line."""
    log: str
    """What the toolchain said."""

    def __init__(self, message: str, *, source: str, options: str, log: str) -> None:
        super().__init__(f"{message} [{options}]")
        self.source = source
        self.options = options
        self.log = log
