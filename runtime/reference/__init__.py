"""The NumPy reference: what a module means, executed one whole operation at a time.

Tensor-level IR and NumPy arrays enter, arrays leave:

    evaluate(module, "main", [x, w]) -> (y,)

No element is ever visited in Python. A contraction runs as matrix products over strided windows,
any other body as NumPy functions over the loops; arithmetic rounds at every operation as the IR
says. Memory that nothing wrote holds NaN.
"""

from __future__ import annotations

from convir.runtime.reference.dtypes import FloatFormat
from convir.runtime.reference.errors import EvaluationError
from convir.runtime.reference.evaluate import evaluate, find_function

__all__ = ["EvaluationError", "FloatFormat", "evaluate", "find_function"]
