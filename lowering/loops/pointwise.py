"""Scalar ops on whole tensors: `arith.addf %x, %y : tensor<4x8xf32>`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

_DIALECTS = ("arith", "math")


def is_scalar_op(op: Operation) -> bool:
    """Whether `op` computes with the values of its operands alone, and not with its position."""
    return op.name.partition(".")[0] in _DIALECTS


def is_pointwise(op: Operation) -> bool:
    """Whether `op` does to tensors what it does to scalars: element by element, at one index."""
    return (
        is_scalar_op(op)
        and bool(op.operands)
        and len(op.results) == 1
        and isinstance(op.results[0].type, TensorType)
    )


def on_scalars(op: Operation, operands: Sequence[SSAValue]) -> Operation:
    """The pointwise op `op` on one element of each of its operands."""
    tensor_type = cast("TensorType[Attribute]", op.results[0].type)
    return type(op).create(
        operands=operands,
        result_types=[tensor_type.element_type],
        properties=op.properties,
        attributes=op.attributes,
    )
