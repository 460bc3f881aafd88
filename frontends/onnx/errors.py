"""The one error of the ONNX front end, and the one place that asks for the library."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from convir.dialects.diagnostics import Diagnostic, DiagnosticError, one_line, shortened

MAX_MESSAGES = 24
"""What is said of one model at once."""


class OnnxError(DiagnosticError):
    """A model that cannot be imported: `FILE:0:0: error: node 'conv1' (Conv): …`, a line for each
    message."""

    def __init__(self, file: str, *messages: str) -> None:
        lines = (one_line(shortened(message)) for message in messages)
        super().__init__(*(Diagnostic(file, 0, 0, "error", line) for line in lines))


class OpenSizeError(OnnxError):
    """A size that the model leaves open is not given."""


class NodeError(OnnxError):
    """A node that cannot be imported."""

    def __init__(self, file: str, label: str, op: str, reason: str) -> None:
        super().__init__(file, f"node '{label}' ({op}): {reason}")
        self.label, self.op, self.reason = label, op, reason


class MisfitError(NodeError):
    """A node whose inputs have shapes that its operator is not about: nothing can run it."""


class Refusals:
    """The nodes of a model that cannot be imported, in the order of the graph."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, str], list[str]] = {}
        self.are_misfits = True
        """Whether nothing can run any of them, so that no support is missing."""

    def add(self, error: NodeError) -> None:
        """Remember one."""
        self.are_misfits &= isinstance(error, MisfitError)
        labels = self._labels.setdefault((error.op, error.reason), [])
        if error.label not in labels:
            labels.append(error.label)

    def include(self, others: Refusals) -> None:
        """Remember what others are about."""
        self.are_misfits &= others.are_misfits
        for key, labels in others._labels.items():
            mine = self._labels.setdefault(key, [])
            mine += [label for label in labels if label not in mine]

    def messages(self) -> list[str]:
        """A message for each operator and reason, with all nodes that it is about."""
        found: list[str] = []
        for (op, reason), labels in self._labels.items():
            names = ", ".join(f"'{label}'" for label in labels)
            found.append(f"node{'s' * (len(labels) > 1)} {shortened(names)} ({op}): {reason}")
        rest = len(found) - MAX_MESSAGES
        return found if rest <= 0 else [*found[:MAX_MESSAGES], f"{rest} more operators or reasons"]


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
