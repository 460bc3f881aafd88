"""Questions about types, answered without xDSL's generic parameters, which no caller needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from xdsl.dialects.builtin import (
    IntegerType,
    MemRefType,
    ShapedType,
    Signedness,
    TensorType,
    UnrankedTensorType,
    VectorType,
    i1,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from xdsl.ir import Attribute

    AnyTensor: TypeAlias = TensorType[Attribute]
    AnyMemRef: TypeAlias = MemRefType[Attribute]


def is_tensor(operand_type: Attribute) -> TypeGuard[AnyTensor]:
    """Whether it is a ranked tensor."""
    return isinstance(operand_type, TensorType)


def is_memref(operand_type: Attribute) -> TypeGuard[AnyMemRef]:
    """Whether it is a ranked memref."""
    return isinstance(operand_type, MemRefType)


def element_type_of(operand_type: Attribute) -> Attribute:
    """The element type of a tensor or memref; any other type itself."""
    if isinstance(operand_type, TensorType | MemRefType):
        return cast("AnyTensor", operand_type).get_element_type()
    return operand_type


def condition_type_of(operand_type: Attribute) -> Attribute:
    """The type of a comparison of values of this type: i1, or as many of them as it has elements.

    A tensor's encoding stays, as in MLIR.
    """
    if isinstance(operand_type, TensorType):
        tensor = cast("AnyTensor", operand_type)
        return TensorType(i1, tensor.shape, tensor.encoding)
    if isinstance(operand_type, VectorType):
        vector = cast("VectorType[Attribute]", operand_type)
        return VectorType(i1, vector.shape, vector.scalable_dims)
    return UnrankedTensorType(i1) if isinstance(operand_type, UnrankedTensorType) else i1


def shape_of(operand_type: Attribute) -> tuple[int, ...] | None:
    """The shape of a ranked shaped type, DYNAMIC_INDEX where unknown; None for any other type."""
    return operand_type.get_shape() if isinstance(operand_type, ShapedType) else None


def integer_width(operand_type: Attribute) -> int | None:
    """The width of an integer type in bits; None for any other type, `index` included."""
    if not isinstance(operand_type, IntegerType):
        return None
    return cast("IntegerType", operand_type).width.data


def signless_width(operand_type: Attribute) -> int | None:
    """The width of a signless integer type in bits; None for any other type."""
    if not isinstance(operand_type, IntegerType):
        return None
    integer = cast("IntegerType", operand_type)
    return integer.width.data if integer.signedness.data == Signedness.SIGNLESS else None
