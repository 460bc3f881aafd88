"""The elements of `#conv.blob`: read when they are needed, checked against their digest."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from convir.dialects.conv_constant import BlobAttr, digest_of
from convir.runtime.reference.dtypes import (
    BFLOAT16,
    Array,
    DType,
    FloatFormat,
    constant,
    convert,
    dtype_of,
    element_type_of,
)
from convir.runtime.reference.errors import EvaluationError
from convir.runtime.reference.interpreter import Frame, Handlers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute, Operation

HANDLERS = Handlers()


class BlobError(ValueError):
    """A blob cannot be read, or is not what the module was made with."""


def elements_of(
    op: Operation,
    value: Attribute,
    tensor_type: TensorType[Attribute],
    float_format: FloatFormat = FloatFormat.DECLARED,
) -> Array:
    """The elements of the constant op `op`, which holds `value`: a blob, or the elements.

    Raises:
        EvaluationError: they cannot be read.
    """
    dtype = dtype_of(element_type_of(tensor_type))
    if isinstance(value, BlobAttr) and dtype is not None:
        try:
            array = read_blob(value, tensor_type.get_shape(), dtype)
        except BlobError as error:
            raise EvaluationError(op, str(error)) from error
        wide = dtype_of(element_type_of(tensor_type), float_format)
        return array if wide is None else convert(array, wide)
    found = constant(value, tensor_type, float_format)
    if found is None:
        raise EvaluationError(op, "has no elements that can be read")
    return found


@HANDLERS.handles("conv.constant")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    tensor_type = cast("TensorType[Attribute]", op.results[0].type)
    value = op.properties["value"]
    return (elements_of(op, value, tensor_type, frame.interpreter.float_format),)


def read_blob(blob: BlobAttr, shape: Sequence[int], dtype: DType) -> Array:
    """The tensor that `blob` names, read-only.

    Raises:
        BlobError: the file or the tensor in it is missing, has another shape or dtype, or other
            elements than its digest says.
    """
    name, key = blob.file.data, blob.key.data
    where = f'tensor "{key}" of {name}'
    path = Path(name)
    try:
        stamp = path.stat()
        tensors = _tensors(str(path), stamp.st_mtime_ns, stamp.st_size)
    except (OSError, ImportError) as error:
        raise BlobError(f"{where} cannot be read: {error}") from error
    found = tensors.get(key)
    if found is None:
        raise BlobError(f"{where} does not exist")
    array = _array(found)
    if dtype == BFLOAT16 and array.dtype == np.uint16:
        array = array.view(BFLOAT16)
    if array.shape != tuple(shape) or array.dtype != dtype:
        raise BlobError(f"{where} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
    array = np.ascontiguousarray(array)
    if digest_of(array.reshape(-1).view(np.uint8).data) != blob.digest.data:
        raise BlobError(f"{where} has changed: its SHA-256 digest is another one")
    array.flags.writeable = False
    return array


@lru_cache(maxsize=2)
def _tensors(path: str, _modified: int, _size: int) -> dict[str, Any]:
    """Every tensor of a file by its name, as an array or as ONNX has it."""
    if path.endswith(".npz"):
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    if path.endswith(".onnx"):
        graph = import_module("onnx").load(path).graph
        return {tensor.name: tensor for tensor in graph.initializer} | {
            node.output[0]: attribute.t
            for node in graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }
    raise BlobError(f"{path} is neither .onnx nor .npz")


def _array(tensor: Any) -> Array:
    if isinstance(tensor, np.ndarray):
        return cast("Array", tensor)
    return import_module("onnx.numpy_helper").to_array(tensor)
