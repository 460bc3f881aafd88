"""Arrays on a command line: files, types with something to fill them, and how results print."""

from __future__ import annotations

import io
import re
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zipfile import BadZipFile

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerType,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
)

from convir.cli.arguments.parser import UsageError
from convir.cli.files.file_suffixes import NPY_SUFFIX, check_suffix
from convir.reference.checking.inputs import Distribution, random_array
from convir.reference.dtypes import (
    BFLOAT16,
    BOOL,
    Array,
    DType,
    convert,
    dtype_of,
    element_type_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Attribute

FILE_MARK = "@"
_ELEMENT_TYPES: Mapping[str, Attribute] = {
    "f16": f16,
    "bf16": bf16,
    "f32": f32,
    "f64": f64,
    "index": IndexType(),
    **{f"i{width}": IntegerType(width) for width in (1, 8, 16, 32, 64)},
}
_SPEC = re.compile(rf"((?:\d+x)*)({'|'.join(_ELEMENT_TYPES)})(?:=(.*))?", re.DOTALL)
_DISTRIBUTIONS = {"RANDOM": Distribution.INTEGERS, "NORMAL": Distribution.NORMAL}
_CONSTANTS = {"ZEROS": "0", "ONES": "1"}
_TWO_BYTES = 2
_INTEGER_KINDS = "bi"
_EDGE_ITEMS = 3
_PRINT_THRESHOLD = 64
_LINE_WIDTH = 100


def input_array(value: str, declared: Attribute, seed: int, position: int) -> Array:
    """The array that `--input=VALUE` number `position` gives an argument of type `declared`.

    Raises:
        UsageError: the file cannot be read, the value makes no sense, or it does not fit.
    """
    where = f"--input={value}"
    spec = None if value.startswith(FILE_MARK) else _SPEC.fullmatch(value)
    if spec is None:
        array = _typed(_load(value.removeprefix(FILE_MARK), where), declared)
    else:
        array = _filled(spec, where, np.random.default_rng([seed, position]))
    if not _fits(array, declared):
        found = type_text(array)
        raise UsageError(f"{where}: is {found}, but argument #{position} is {declared}")
    return array


def shape_of_input(value: str) -> tuple[int, ...]:
    """The shape of the array that `--input=VALUE` gives.

    Raises:
        UsageError: the file cannot be read, or the value makes no sense.
    """
    where = f"--input={value}"
    spec = None if value.startswith(FILE_MARK) else _SPEC.fullmatch(value)
    if spec is None:
        return _load(value.removeprefix(FILE_MARK), where).shape
    return _shape(spec[1], where)


def _load(path: str, where: str) -> Array:
    try:
        with Path(path).open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from error
    except (ValueError, EOFError, BadZipFile) as error:
        raise UsageError(f"{where}: is not a .npy file that can be read: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise UsageError(f"{where}: holds several arrays, not one")
    array = cast("Array", loaded)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _typed(array: Array, declared: Attribute) -> Array:
    """Two-byte data as the bf16 that the signature says."""
    if element_type_of(declared) != bf16 or array.dtype.itemsize != _TWO_BYTES:
        return array
    return array if array.dtype.kind == "f" else array.view(BFLOAT16)


def _filled(spec: re.Match[str], where: str, rng: np.random.Generator) -> Array:
    sizes, element, fill = spec.groups()
    shape = _shape(sizes, where)
    dtype = dtype_of(_ELEMENT_TYPES[element])
    if dtype is None:
        raise UsageError(f"{where}: {element} has no NumPy dtype")
    if fill in _DISTRIBUTIONS:
        return random_array(shape, dtype, rng, _DISTRIBUTIONS[fill])
    words = re.split(r"[\s,]+", _CONSTANTS.get(fill or "ZEROS", fill or "0").strip())
    try:
        values = [_number(word) for word in words]
        if dtype.kind in _INTEGER_KINDS and not all(_holds(dtype, value) for value in values):
            raise UsageError(f"{where}: '{fill}' is not a value of {element}")
        numbers = convert(np.array(values), dtype)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{where}: '{fill}' is not a value of {element}") from error
    if numbers.size == 1:
        return np.full(shape, numbers[0])
    if numbers.size != prod(shape):
        raise UsageError(f"{where}: has {numbers.size} values for {prod(shape)} elements")
    return numbers.reshape(shape)


def _shape(sizes: str, where: str) -> tuple[int, ...]:
    """`4x8x` as a shape of which there may be an array."""
    try:
        shape = tuple(int(size) for size in sizes.split("x")[:-1])
        np.broadcast_to(np.float64(), shape)
    except ValueError as error:
        raise UsageError(f"{where}: there is no array of that shape: {error}") from error
    return shape


def _holds(dtype: DType, value: float) -> bool:
    """Whether integers of `dtype`, whose bits may be meant as unsigned, hold `value`."""
    bits = 1 if dtype == BOOL else 8 * dtype.itemsize
    return isinstance(value, int) and -(2**bits) // 2 <= value < 2**bits


def _number(word: str) -> int | float:
    lowered = word.lower()
    if lowered in ("true", "false"):
        return int(lowered == "true")
    return int(word) if re.fullmatch(r"[+-]?\d+", word) else float(word)


def _fits(array: Array, declared: Attribute) -> bool:
    if array.dtype != dtype_of(element_type_of(declared)):
        return False
    if not isinstance(declared, TensorType):
        return array.ndim == 0
    sizes = cast("TensorType[Attribute]", declared).get_shape()
    return len(sizes) == array.ndim and all(
        size in (DYNAMIC_INDEX, actual) for size, actual in zip(sizes, array.shape, strict=True)
    )


def type_text(array: Array) -> str:
    """The type of an array as `4x8xf32`; the NumPy name of a dtype that no IR type has."""
    names = {dtype_of(element): name for name, element in _ELEMENT_TYPES.items()}
    names[np.dtype(np.int64)] = "i64"
    name = names.get(array.dtype, array.dtype.name)
    return "x".join((*map(str, array.shape), name))


def npy_bytes(array: Array) -> bytes:
    """The bytes of an .npy file of `array`, bf16 as its bits."""
    stream = io.BytesIO()
    np.save(stream, array.view(np.uint16) if array.dtype == BFLOAT16 else array)
    return stream.getvalue()


def result_text(position: int, array: Array, name: str = "result") -> str:
    """What is printed of a result: its type and its values, of many only the first and last."""
    shown: Any = array.astype(np.float32) if array.dtype == BFLOAT16 else array
    shown = shown.astype(np.int8) if array.dtype == BOOL else shown
    values = np.array2string(
        shown if shown.size <= _PRINT_THRESHOLD else shown.reshape(-1),
        edgeitems=_EDGE_ITEMS,
        threshold=_PRINT_THRESHOLD,
        max_line_width=_LINE_WIDTH,
    )
    return f"{name} #{position}: {type_text(array)}\n{values}\n"


def output_paths(values: Sequence[str]) -> list[str]:
    """The files that `--output` names.

    Raises:
        UsageError: the name of one says that it holds something else than a .npy file does.
    """
    paths = [value.removeprefix(FILE_MARK) for value in values]
    for path in paths:
        check_suffix(path, (NPY_SUFFIX,))
    return paths
