"""Element types of a model's tensors as types of the IR, and constants as ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)

from convir.dialects.conv.constant import BlobAttr, ConstantOp, digest_of
from convir.dialects.conv.held_elements import hold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import Attribute, Operation


Array = npt.NDArray[Any]

_TYPES: Mapping[int, Attribute] = {
    1: f32,
    3: i8,
    5: i16,
    6: i32,
    7: i64,
    9: i1,
    10: f16,
    11: f64,
    16: bf16,
}
"""`TensorProto.DataType` to element type."""

FLOAT = 1
"""The `TensorProto.DataType` of f32: what attributes that say a type say by default."""

_DTYPES: Mapping[str, Attribute] = {
    "float32": f32,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "bool": i1,
    "float16": f16,
    "float64": f64,
    "bfloat16": bf16,
}

MEMORY = "<model>"
"""The file name of a model that was never in a file."""

INLINE_ELEMENTS = 16
"""Constants of at most so many elements stand in the text."""


def element_type(data_type: int) -> Attribute | None:
    """The element type of a `TensorProto.DataType`; None if the IR has none for it."""
    return _TYPES.get(data_type)


def element_type_of_array(array: Array) -> Attribute | None:
    """The element type of an array's elements; None if the IR has none for it."""
    return _DTYPES.get(array.dtype.name)


def constant(array: Array, file: str, key: str | None, digest: str | None = None) -> Operation:
    """An op that gives the elements of `array`, which `file` calls `key` if it holds them, and
    whose SHA-256 digest somebody may know.

    Raises:
        TypeError: the IR has no type for the elements.
    """
    element = element_type_of_array(array)
    if element is None:
        raise TypeError(f"elements of type {array.dtype}")
    data = np.ascontiguousarray(array)
    tensor_type: Any = TensorType(element, array.shape)  # `data` has one dimension or more
    bits = data.reshape(-1).view(np.uint8)
    if data.size > INLINE_ELEMENTS and file != MEMORY and key is not None:
        digest = digest_of(bits.data) if digest is None else digest
        hold(digest, data)
        return ConstantOp(BlobAttr(file, key, digest), tensor_type)
    dense = DenseIntOrFPElementsAttr(
        cast("TensorType[IntegerType]", tensor_type), BytesAttr(bits.tobytes())
    )
    if data.size > INLINE_ELEMENTS:
        return ConstantOp(dense, tensor_type)
    return arith.ConstantOp(dense, tensor_type)
