"""The one error of the ONNX front end, and the one place that asks for the library."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from convir.dialects.diagnostics import Diagnostic, DiagnosticError, one_line, shortened


class OnnxError(DiagnosticError):
    """A model that cannot be imported: `FILE:0:0: error: node 'conv1' (Conv): …`."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(Diagnostic(file, 0, 0, "error", one_line(shortened(message))))


def onnx_library(name: str, file: str) -> Any:
    """The module `name` of the package onnx, which the extra `onnx` installs.

    Raises:
        OnnxError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        advice = "pip install 'convir[onnx]', which has onnx"
        message = f"reading ONNX models needs the extra 'onnx' ({error}): {advice}"
        raise OnnxError(file, message) from error
