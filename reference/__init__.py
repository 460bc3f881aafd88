"""The NumPy reference: what a module means, executed one whole operation at a time.

Tensor-level IR and NumPy arrays enter, arrays leave:

    evaluate(module, "main", [x, w]) -> (y,)

No element is ever visited in Python. A contraction runs as matrix products over strided windows,
any other body as NumPy functions over the loops; arithmetic rounds at every operation as the IR
says. Memory that nothing wrote holds NaN.

Importing the package imports nothing: its names load on first use, so that dtypes are read off
types without the interpreter.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convir.reference.dtypes import FloatFormat
    from convir.reference.errors import EvaluationError
    from convir.reference.evaluation import evaluate, evaluate_ops, find_function

__all__ = ["EvaluationError", "FloatFormat", "evaluate", "evaluate_ops", "find_function"]

_HOMES = {
    "EvaluationError": "errors",
    "FloatFormat": "dtypes",
    "evaluate": "evaluation",
    "evaluate_ops": "evaluation",
    "find_function": "evaluation",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
