"""What a function does with the sizes that its arguments' types leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import tensor

from convir.analysis.refusal import Refusal
from convir.analysis.slices import index_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from xdsl.dialects.func import FuncOp
    from xdsl.ir import SSAValue


def computes_with(function: FuncOp, sizes: Collection[tuple[int, int]]) -> Refusal | None:
    """Why the values of a function depend on sizes other than through the shapes of its tensors.

    Args:
        function: of tensors.
        sizes: those that are asked about, each an argument's number and a dimension.

    Returns:
        None where nothing but `tensor.empty` reads them. A size of anything else than an argument
        counts as one of them, for it may be.
    """
    numbers: dict[SSAValue, int] = {each: number for number, each in enumerate(function.args)}
    for op in function.body.walk():
        if not isinstance(op, tensor.DimOp):
            continue
        dim = index_of(op.index)
        if op.source in numbers and (numbers[op.source], dim) not in sizes:
            continue
        for use in op.result.uses:
            if not isinstance(use.operation, tensor.EmptyOp):
                return Refusal(f"'{use.operation.name}' computes with the size of a tensor")
    return None
