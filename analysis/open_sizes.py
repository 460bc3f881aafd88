"""What a function does with the sizes that its arguments' types leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir.affine import AffineDimExpr

from convir.analysis.refusal import Refusal
from convir.analysis.slices import index_of
from convir.analysis.structured import structured

if TYPE_CHECKING:
    from collections.abc import Collection

    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Attribute, Operation, SSAValue

_ANY_SIZE: Final = ("arith.", "math.", "conv.", "affine.apply", "func.return", "linalg.yield")
"""The beginnings of names of ops whose sizes are equal to each other, or not: none is at most, or
at least, another one."""
_RESHAPES: Final = (
    tensor.DimOp,
    tensor.EmptyOp,
    tensor.CastOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
)
"""The same of tensors."""


def computes_with(function: FuncOp, sizes: Collection[tuple[int, int]]) -> Refusal | None:
    """Why a function is not the same text for all values of some sizes, or may not be valid for
    some of them.

    Args:
        function: of tensors, before its sizes are bound.
        sizes: those that are asked about, each an argument's number and a dimension.

    Returns:
        None where nothing but `tensor.empty` reads the sizes, and no slice, pad or window ends
        somewhere in them. A size of anything else than an argument counts as one of them, for it
        may be.
    """
    numbers: dict[SSAValue, int] = {each: number for number, each in enumerate(function.args)}
    for op in function.body.walk():
        if not _has_any_size(op):
            return Refusal(f"'{op.name}' may be limited by the size of a tensor")
        if not isinstance(op, tensor.DimOp):
            continue
        dim = index_of(op.index)
        if op.source in numbers and (numbers[op.source], dim) not in sizes:
            continue
        for use in op.result.uses:
            if not isinstance(use.operation, tensor.EmptyOp):
                return Refusal(f"'{use.operation.name}' computes with the size of a tensor")
    return None


def _has_any_size(op: Operation) -> bool:
    """Whether open sizes of `op` have no bound."""
    values = (*op.operands, *op.results)
    if op.name.startswith(_ANY_SIZE) or isinstance(op, _RESHAPES):
        return True
    if not any(_is_open(value) for value in values):
        return True
    view = structured(op)
    if view is None:
        return False
    return all(
        size != DYNAMIC_INDEX or isinstance(expression, AffineDimExpr)
        for value, indexing_map in zip(view.operands, view.maps, strict=True)
        for size, expression in zip(_shape(value), indexing_map.results, strict=False)
    )


def _is_open(value: SSAValue) -> bool:
    return DYNAMIC_INDEX in _shape(value)


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The sizes of a tensor; none of anything else."""
    declared: Attribute = value.type
    if not isinstance(declared, TensorType):
        return ()
    return cast("TensorType[Attribute]", declared).get_shape()
