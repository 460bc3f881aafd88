"""The tensors that a model holds: what each declares is compared with its data, and then read."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.dialects.address_space import check_addressable
from convir.frontends.elements import MEMORY
from convir.frontends.onnx.errors import OnnxError, onnx_library
from convir.frontends.onnx.files import located

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.frontends.elements import Array

_PACKED_BITS = {
    **{"FLOAT4E2M1": 4, "INT4": 4, "UINT4": 4},
    **{"INT2": 2, "UINT2": 2},
    **{"FLOAT6E2M3": 6, "FLOAT6E3M2": 6},
}
"""Bits of the element types that share bytes."""

_NATIVE = {
    **{"FLOAT": "<f4", "DOUBLE": "<f8", "FLOAT16": "<f2", "BOOL": "?"},
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}
"""The element types that NumPy has, as a file spells them."""

_LISTS = (
    *("float_data", "double_data", "string_data"),
    *("int32_data", "int64_data", "uint64_data"),
)


class TensorReader:
    """Reads the `TensorProto`s of one model as arrays."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._helper = onnx_library("onnx.helper", file)
        self._to_array = onnx_library("onnx.numpy_helper", file).to_array
        self._types: Mapping[int, str] = {
            number: name
            for name, number in onnx_library("onnx", file).TensorProto.DataType.items()
            if number
        }

    def __call__(self, proto: Any, owner: str | None = None) -> Array:
        """The elements of a tensor; `owner` is what errors call it, by default its name.

        Raises:
            OnnxError: its data is not what it declares, or cannot be read.
        """
        where = owner or f"tensor '{proto.name}'"
        try:
            data = self._check(proto)
            array = self._to_array(proto) if data is None else data
        except (OSError, TypeError, ValueError) as error:
            raise OnnxError(self._file, f"{where}: {error}") from error
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise OnnxError(self._file, f"{where}: holds a bool that is neither 0 nor 1")
        return array

    def _check(self, proto: Any) -> Array | None:
        """Compare what a tensor declares with what there is of it, and load what lies elsewhere.

        Returns:
            The elements, where they are the bytes that there are.

        Raises:
            ValueError: they differ.
            OSError: another file cannot be read.
        """
        kind = self._types.get(proto.data_type)
        if kind is None:
            raise ValueError(f"has elements of the unknown type {proto.data_type}")
        shape = tuple(proto.dims)
        check_addressable(shape)
        count = prod(shape)
        bits = _PACKED_BITS.get(kind) or self._dtype(proto).itemsize * 8
        expected = -(-count * bits // 8)
        if proto.data_location == proto.EXTERNAL:
            self._load(proto, expected)
        field = self._helper.tensor_dtype_to_field(proto.data_type)
        others = [name for name in _LISTS if len(getattr(proto, name)) and name != field]
        if others:
            raise ValueError(f"is of type {kind}, but has {others[0]}")
        if proto.HasField("raw_data"):
            data = proto.raw_data  # a copy, each time that it is asked for
            have = len(data)
            if have != expected or kind == "STRING" or len(getattr(proto, field)):
                raise ValueError(f"{kind}{list(shape)} takes {expected} bytes, its data has {have}")
            if kind not in _NATIVE or proto.HasField("segment"):
                return None
            return np.frombuffer(data, _NATIVE[kind]).reshape(shape)
        numbers = len(getattr(proto, field))
        expected = _entries(kind, count)
        if numbers != expected:
            raise ValueError(
                f"{kind}{list(shape)} takes {expected} numbers, its data has {numbers}"
            )
        return None

    def _dtype(self, proto: Any) -> np.dtype[Any]:
        return np.dtype(self._helper.tensor_dtype_to_np_dtype(proto.data_type))

    def _load(self, proto: Any, expected: int) -> None:
        """Take the bytes of a tensor from the file beside the model that holds them."""
        if self._file == MEMORY:
            raise ValueError("lies in another file, of which a model in memory says no folder")
        entries = {entry.key: str(entry.value) for entry in proto.external_data}
        folder, name = Path(self._file).parent, entries.get("location", "")
        size = located(folder, name).stat().st_size
        offset = _natural(entries, "offset", 0)
        length = _natural(entries, "length", max(size - offset, 0))
        if length != expected:
            raise ValueError(f"takes {expected} bytes, and has {length} in '{name}'")
        if offset + length > size:
            raise ValueError(f"takes bytes {offset} to {offset + length} of '{name}' of {size}")
        library = onnx_library("onnx.external_data_helper", self._file)
        refused = onnx_library("onnx.checker", self._file).ValidationError
        try:
            library.load_external_data_for_tensor(proto, str(folder))
        except refused as error:
            raise ValueError(str(error)) from error


def _entries(kind: str, count: int) -> int:
    """How many entries of the list of numbers hold so many elements."""
    if kind.startswith("COMPLEX"):
        return 2 * count
    bits = _PACKED_BITS.get(kind, 8)
    return count if 8 % bits else -(-count * bits // 8)


def _natural(entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(2**63)):
        raise ValueError(f"has the {key} '{text}' in another file")
    return int(text)
