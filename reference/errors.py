"""The one error of the reference: an operation it cannot, or must not, evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.dialects.diagnostics import DiagnosticError, error_at

if TYPE_CHECKING:
    from xdsl.ir import Operation


class EvaluationError(DiagnosticError):
    """An operation that has no meaning for these inputs, or that the reference does not know."""

    def __init__(self, op: Operation, message: str):
        self.op = op
        super().__init__(error_at(op, f"'{op.name}' op {message}"))
