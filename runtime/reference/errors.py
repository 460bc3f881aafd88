"""The one error of the reference: an operation it cannot, or must not, evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.utils.exceptions import InterpretationError

if TYPE_CHECKING:
    from xdsl.ir import Operation


class EvaluationError(InterpretationError):
    """An operation that has no meaning for these inputs, or that the reference does not know.

    `op` is the operation, `message` the clause without a location; the text is both, as
    `file:line:col: error: 'tensor.extract' ...` where the location is known.
    """

    def __init__(self, op: Operation, message: str):
        self.op = op
        self.message = message
        super().__init__(f"{_prefix(op)}error: '{op.name}' {message}")


def _prefix(op: Operation) -> str:
    loc = op.location
    if isinstance(loc, FileLineColLoc):
        return f"{loc.filename.data}:{loc.line.data}:{loc.column.data}: "
    return ""
