"""Tensors whose elements are all the same, or unspecified, and how to make them in another shape.

Only the operation that defines a tensor is looked at: patterns work bottom-up, so that anything
longer has become one of these by the time it is met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.ir import OpResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import AnyDenseElement
    from xdsl.ir import Attribute, Operation, SSAValue

SPLATS = frozenset(("arith.constant", "tensor.splat", "linalg.fill"))
"""Operations that may define a tensor of equal elements."""


def dense_constant(value: SSAValue) -> DenseIntOrFPElementsAttr | None:
    """The elements of `value`, if it is a dense constant."""
    if not isinstance(value, OpResult) or not isinstance(value.op, arith.ConstantOp):
        return None
    dense = value.op.value
    return dense if isinstance(dense, DenseIntOrFPElementsAttr) else None


def is_splat(dense: DenseIntOrFPElementsAttr) -> bool:
    """True if `dense` is stored as one element."""
    return len(dense.data.data) == dense.type.element_type.compile_time_size


def constant(data: bytes, result_type: TensorType[Attribute]) -> arith.ConstantOp:
    """The constant of `result_type`, static, that stores `data`: one element, or all of them."""
    dense_type = cast("TensorType[AnyDenseElement]", result_type)
    return arith.ConstantOp(DenseIntOrFPElementsAttr(dense_type, BytesAttr(data)), dense_type)


def element_of(value: SSAValue) -> SSAValue | bytes | None:
    """The element that all of the tensor `value` equals: the bytes of a constant, or a scalar.

    Two tensors of one element type hold the same if their answers are equal and not None.
    """
    dense = dense_constant(value)
    if dense is not None:
        return dense.data.data if is_splat(dense) else None
    if not isinstance(value, OpResult) or value.op.name not in SPLATS:
        return None
    scalar = value.op.operands[0]
    tensor_type: Attribute = value.type
    if not isinstance(tensor_type, TensorType) or scalar.type != tensor_type.get_element_type():
        return None
    if isinstance(scalar, OpResult) and isinstance(scalar.op, arith.ConstantOp):
        return bytes_of(scalar.op.value)
    return scalar


def bytes_of(scalar: Attribute) -> bytes | None:
    """How a dense attribute stores `scalar`; None where it cannot."""
    match scalar:
        case FloatAttr(value=value, type=element_type):
            return element_type.pack((value.data,))
        case IntegerAttr(value=value, type=element_type):
            return element_type.pack((value.data,))
        case _:
            return None


def reshaped(
    op: Operation, result_type: TensorType[Attribute], sizes: Sequence[SSAValue] = ()
) -> tuple[Operation, ...] | None:
    """What `op` makes, equal elements or unspecified ones, as operations that end in `result_type`.

    `sizes` are those of the dynamic dimensions. None if `op` makes something else, or if the shape
    cannot be built.
    """
    if op.name not in SPLATS and op.name != "tensor.empty":
        return None
    if result_type.get_shape().count(DYNAMIC_INDEX) != len(sizes):
        return None
    match op:
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as dense):
            if sizes or not is_splat(dense):
                return None
            return (constant(dense.data.data, result_type),)
        case tensor.EmptyOp():
            return (tensor.EmptyOp(sizes, result_type),)
        case tensor.SplatOp():
            return (tensor.SplatOp(op.input, sizes, result_type),)
        case _ if op.name == "linalg.fill" and op.results:
            empty = tensor.EmptyOp(sizes, result_type)
            return (empty, _refilled(op, empty.tensor))
        case _:
            return None


def _refilled(fill: Operation, init: SSAValue) -> Operation:
    """A `linalg.fill` of `init` with what `fill` writes."""
    return type(fill).create(
        operands=(fill.operands[0], init),
        result_types=(init.type,),
        properties=fill.properties,
        attributes=fill.attributes,
        location=fill.location,
        regions=[region.clone() for region in fill.regions],
    )
