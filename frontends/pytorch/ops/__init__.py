"""The operators: a module for each family, and a function for each ATen operator.

A function takes an `AtenCall`, appends nodes through its `spell`, and returns the call's results,
None for one that nobody may read. It raises `UnsupportedError` where it does not do what the call
asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.frontends.pytorch.ops import elementwise, matrix, reduction, shape, windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.frontends.pytorch.call import Operator

OPERATORS: Mapping[str, Operator] = {
    **elementwise.OPERATORS,
    **matrix.OPERATORS,
    **reduction.OPERATORS,
    **shape.OPERATORS,
    **windows.OPERATORS,
}
"""The functions by the names of overloads: `aten.mean.dim`."""
