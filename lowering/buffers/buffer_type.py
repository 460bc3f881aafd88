"""The dense memory that a tensor lies in."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from convir.dialects.address_space import ADDRESS_SPACE_BYTES
from convir.dialects.diagnostics import DiagnosticError, error_at
from convir.dialects.rt import ops as rt

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation


def buffer_type(value_type: Attribute, where: Operation) -> rt.Buffer:
    """The dense memref that holds a static tensor, or a scalar.

    Raises:
        DiagnosticError: a size is dynamic or too large, an element has no size, or the tensor has
            an encoding; located at the op `where`.
    """
    if not isinstance(value_type, TensorType):
        buffer = MemRefType(value_type, [])
    else:
        tensor_type = cast("TensorType[Attribute]", value_type)
        if DYNAMIC_INDEX in tensor_type.get_shape():
            raise refusal(where, f"sizes must be bound before lowering: {value_type}")
        if not isinstance(tensor_type.encoding, NoneAttr):
            raise refusal(where, f"no buffer holds a tensor with an encoding: {value_type}")
        buffer = dense_memref(tensor_type)
    try:
        size = rt.buffer_bytes(buffer)
    except VerifyException as error:
        raise refusal(where, str(error)) from error
    if size >= ADDRESS_SPACE_BYTES:
        raise refusal(where, f"{value_type} takes {size} bytes, which no address space holds")
    return buffer


def dense_memref(tensor_type: TensorType[Attribute]) -> rt.Buffer:
    """The memref of a tensor's shape and elements, from its own attributes: `MemRefType(…)` takes
    far longer."""
    layout = NoneAttr()
    return MemRefType.new((tensor_type.shape, tensor_type.element_type, layout, layout))


def refusal(where: Operation, message: str) -> DiagnosticError:
    """Why no buffer or runtime call stands for `where`, located there."""
    return DiagnosticError(error_at(where, message))
