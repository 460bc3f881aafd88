"""The elements of `#conv.blob`: read when they are needed, checked against their digest."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import import_module
from math import prod
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from convir.dialects.conv.constant import BlobAttr, digest_of, parse_range_key
from convir.dialects.conv.held_elements import held
from convir.reference.dtypes import (
    BFLOAT16,
    Array,
    DType,
    FloatFormat,
    constant,
    convert,
    dtype_of,
    element_type_of,
)
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute, Operation

HANDLERS = Handlers()

NAM_SUFFIX = ".nam"

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
"""The name of a field or the index of an entry, on the way to something in a JSON file."""


class _Tensors(Protocol):
    """The tensors of a file by their names, as arrays or as ONNX has them."""

    def get(self, key: str, /) -> Any: ...


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
    kept = held(blob.digest.data)
    if kept is not None and kept.shape == tuple(shape) and kept.dtype == dtype:
        kept = kept.view()
        kept.flags.writeable = False
        return cast("Array", kept)
    path = Path(blob.file.data)
    try:
        return _read_blob(blob, path, shape, dtype)
    except BlobError:
        # What was read of the file before may be what it held before.
        forget_files()
        return _read_blob(blob, path, shape, dtype)


def _read_blob(blob: BlobAttr, path: Path, shape: Sequence[int], dtype: DType) -> Array:
    key = blob.key.data
    where = f'tensor "{key}" of {blob.file.data}'
    try:
        found = path.stat()
        if not S_ISREG(found.st_mode):
            raise BlobError(f"{where} cannot be read: it is not a regular file")
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        tensor = _tensors(str(path), stamp).get(key)
        if tensor is None:
            raise BlobError(f"{where} does not exist")
        array = _array(tensor)
    except BlobError:
        raise
    except Exception as error:  # whatever its reader raises for a file that is none of its kind
        raise BlobError(f"{where} cannot be read: {error}") from error
    if path.suffix == NAM_SUFFIX and array.size == prod(shape):
        array = array.reshape(shape)  # The file has a list of numbers.
    if dtype == BFLOAT16 and array.dtype == np.uint16:
        array = array.view(BFLOAT16)
    if array.shape != tuple(shape) or array.dtype != dtype:
        raise BlobError(f"{where} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
    array = np.ascontiguousarray(array)
    if digest_of(array.reshape(-1).view(np.uint8).data) != blob.digest.data:
        raise BlobError(f"{where} has changed: its SHA-256 digest is another one")
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise BlobError(f"{where} holds a bool that is neither 0 nor 1")
    array.flags.writeable = False
    return array


@lru_cache(maxsize=2)
def _tensors(path: str, _stamp: tuple[int, ...]) -> _Tensors:
    """Every tensor of a file by its name, as an array or as ONNX has it.

    Kept for the next constant of the file. Digests say whether the elements are the right ones, so
    a file that changed with no trace in its stamp is no more than read again.
    """
    if path.endswith(".npz"):
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    if path.endswith(NAM_SUFFIX):
        return _NumberLists(json.loads(Path(path).read_text(encoding="utf-8")))
    if path.endswith(".onnx"):
        graph = import_module("onnx").load(path).graph
        return {tensor.name: tensor for tensor in graph.initializer} | {
            node.output[0]: attribute.t
            for node in graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }
    raise BlobError(f"{path} is neither .onnx nor .npz nor .nam")


def forget_files() -> None:
    """Let go of what files held: nothing more of them is needed now."""
    _tensors.cache_clear()


class _NumberLists:
    """The ranges of lists of numbers in a JSON file: `config.weights[12:76]`."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self._lists: dict[str, Array] = {}

    def get(self, key: str) -> Array | None:
        """The numbers of a range as f32; None if the file has no such list or range."""
        found = parse_range_key(key)
        if found is None:
            return None
        path, begin, end = found
        if path not in self._lists:
            values = _at(self._content, path)
            if values is None:
                return None
            self._lists[path] = _numbers(path, values)
        return self._lists[path][begin:end] if end <= len(self._lists[path]) else None


def _numbers(path: str, values: list[Any]) -> Array:
    """The numbers of a list as f32."""
    if not {int, float}.issuperset(map(type, values)):
        raise ValueError(f"{path} holds something else than numbers")
    with np.errstate(over="ignore"):
        numbers = np.array(values, np.float64).astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{path} holds a number that f32 does not")
    return numbers


def _at(content: Any, path: str) -> list[Any] | None:
    """The list at a path such as `config.layers[1].weights`."""
    for name, index in _STEP.findall(path):
        try:
            content = content[name] if name else content[int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return cast("list[Any]", content) if isinstance(content, list) else None


def _array(tensor: Any) -> Array:
    if isinstance(tensor, np.ndarray):
        return cast("Array", tensor)
    return import_module("onnx.numpy_helper").to_array(tensor)
