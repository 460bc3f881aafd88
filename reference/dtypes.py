"""IR types as NumPy dtypes, and the roundings between them.

Integers of every width are stored signed (`i1` as bool), `index` as int64, `bf16` as ml_dtypes'
bfloat16. A `FloatFormat` decides what a float type is stored in: `declared` is what the IR says,
`wide` computes every float in f64, which is what errors are measured against.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
)

if TYPE_CHECKING:
    from xdsl.ir import Attribute

Array = npt.NDArray[Any]
DType = np.dtype[Any]

BOOL: DType = np.dtype(np.bool_)
INDEX: DType = np.dtype(np.int64)
BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
FLOAT32: DType = np.dtype(np.float32)
FLOAT64: DType = np.dtype(np.float64)

_FLOATS: dict[type, DType] = {
    BFloat16Type: BFLOAT16,
    Float16Type: np.dtype(np.float16),
    Float32Type: FLOAT32,
    Float64Type: FLOAT64,
}
_INTEGERS: dict[int, DType] = {
    1: BOOL,
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}

POISON_BYTE = 0xA5
"""What every byte of an uninitialised integer holds."""

_EXACT_IN_F64 = 1 << 53
_STICKY_BITS = 12


@dataclass(frozen=True)
class FloatLimits:
    """What numbers a float type holds."""

    digits: int
    """Significant bits, the implicit one included."""
    lowest_exponent: int
    """The exponent of the smallest subnormal number."""
    highest_exponent: int
    """The exponent of the largest power of two."""

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.digits)) * 2.0**self.highest_exponent

    @property
    def half_ulp(self) -> float:
        """The largest error of one rounding, relative to the value."""
        return 2.0**-self.digits

    @property
    def half_step(self) -> float:
        """The largest error of one rounding to a subnormal number, which no relative one bounds."""
        return 2.0 ** (self.lowest_exponent - 1)


FLOAT_LIMITS: dict[DType, FloatLimits] = {
    np.dtype(np.float16): FloatLimits(11, -24, 15),
    BFLOAT16: FloatLimits(8, -133, 127),
    FLOAT32: FloatLimits(24, -149, 127),
    FLOAT64: FloatLimits(53, -1074, 1023),
}

TF32_LIMITS = FloatLimits(11, -149, 127)
"""What a factor holds that is rounded to TF32."""


class FloatFormat(Enum):
    """What a float type is stored and computed in."""

    DECLARED = "declared"
    """The type the IR says, with a rounding at every operation."""
    WIDE = "f64"
    """f64 for every float type: the value that errors are measured against."""


def dtype_of(
    element_type: Attribute, float_format: FloatFormat = FloatFormat.DECLARED
) -> DType | None:
    """The dtype that stores `element_type`, or None if the reference has none for it."""
    if isinstance(element_type, IntegerType):
        return _INTEGERS.get(element_type.bitwidth)
    if isinstance(element_type, IndexType):
        return INDEX
    dtype = _FLOATS.get(type(element_type))
    if dtype is None:
        return None
    return FLOAT64 if float_format is FloatFormat.WIDE else dtype


def element_type_of(value_type: Attribute) -> Attribute:
    """The element type of a tensor or buffer type, and any other type itself."""
    if not isinstance(value_type, TensorType | MemRefType):
        return value_type
    return cast("TensorType[Attribute]", value_type).element_type


def is_float(dtype: DType) -> bool:
    """Whether `dtype` is a float, bfloat16 included (whose NumPy kind is `V`)."""
    return dtype.kind == "f" or dtype == BFLOAT16


def is_narrow_float(dtype: DType) -> bool:
    """Whether `dtype` is a 16-bit float, which BLAS has no kernels for."""
    return is_float(dtype) and dtype.itemsize == np.dtype(np.float16).itemsize


def convert(values: Array, dtype: DType) -> Array:
    """`values` rounded once, to nearest even, to `dtype`; zero-stride axes stay unmaterialised.

    ml_dtypes rounds f64 and integers to bf16 by way of f32, twice: those go through a rounding
    to odd in f32, after which the second rounding is the correct one.
    """
    if values.dtype == dtype:
        return values
    if values.size > 1 and 0 in values.strides:
        compact = values[tuple(slice(None) if s else slice(1) for s in values.strides)]
        if compact.size < values.size:
            return np.broadcast_to(convert(compact, dtype), values.shape)
    if dtype == BFLOAT16 and values.dtype != FLOAT32 and values.dtype.itemsize > 2:
        values = _round_to_odd_f32(values)
    return values.astype(dtype)


def _round_to_odd_f32(values: Array) -> Array:
    wide = _sticky_f64(values) if values.dtype.kind in "iu" else values
    narrow = np.atleast_1d(wide.astype(np.float32))
    wide = np.atleast_1d(wide)
    bits = narrow.view(np.uint32)
    inexact = np.isfinite(narrow) & (narrow != wide)
    bits -= (inexact & (np.abs(narrow) > np.abs(wide))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    return narrow.reshape(values.shape)


def _sticky_f64(values: Array) -> Array:
    """Integers as f64, those past 2^53 cut to fewer bits with what was cut ORed into the last."""
    low = (1 << _STICKY_BITS) - 1
    large = (values >= _EXACT_IN_F64) | (values <= -_EXACT_IN_F64)
    lost = ((values & low) != 0).astype(values.dtype)
    cut = ((values >> _STICKY_BITS) | lost) << _STICKY_BITS
    return np.where(large, cut, values).astype(np.float64)


def poison(shape: tuple[int, ...], dtype: DType) -> Array:
    """An uninitialised tensor: NaN in every float, a fixed pattern in every integer.

    One element broadcast to `shape`, so that it takes no memory until something is written.
    """
    if is_float(dtype):
        element = np.array(np.nan, dtype)
    elif dtype == BOOL:
        element = np.array(True)
    else:
        element = np.frombuffer(bytes([POISON_BYTE]) * dtype.itemsize, dtype).reshape(())
    return np.broadcast_to(element, shape)


def constant(
    value: Attribute, value_type: Attribute, float_format: FloatFormat = FloatFormat.DECLARED
) -> Array | None:
    """The array of a constant attribute, a splat as one broadcast element; None if unknown."""
    dtype = dtype_of(element_type_of(value_type), float_format)
    if dtype is None:
        return None
    if isinstance(value, IntegerAttr):
        return _wrap(value.value.data, dtype)
    if isinstance(value, FloatAttr):
        return convert(np.array(value.value.data, np.float64), dtype)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return _dense(cast("DenseIntOrFPElementsAttr[IntegerType]", value), dtype)
    return None


def _wrap(value: int, dtype: DType) -> Array:
    if dtype == BOOL:
        return np.array(bool(value & 1))
    bits = dtype.itemsize * 8
    wrapped = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return np.array(wrapped, dtype)


def _dense(value: DenseIntOrFPElementsAttr[IntegerType], dtype: DType) -> Array:
    shape = tuple(value.get_shape())
    stored = dtype_of(value.get_element_type())
    if stored is None:
        raise ValueError(f"no dtype for {value.get_element_type()}")
    elements = np.frombuffer(value.data.data, np.uint8 if stored == BOOL else stored)
    elements = convert(elements != 0 if stored == BOOL else elements, dtype)
    if elements.size == 1 and prod(shape) != 1:
        return np.broadcast_to(elements.reshape(()), shape)
    return elements.reshape(shape)
