"""Random inputs by type: the same seed gives the same arrays, whatever runs on them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType

from convir.reference.dtypes import (
    BFLOAT16,
    BOOL,
    Array,
    DType,
    convert,
    dtype_of,
    element_type_of,
    is_float,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute

DTYPES: dict[str, DType] = {
    "f16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""Dtype by the name of a float type."""

SMALL_INTEGER = 2
"""The largest magnitude of `Distribution.INTEGERS`."""
DYNAMIC_SIZE = 6
"""The size of every `?` dimension, and the value of every `index` argument."""


class Distribution(Enum):
    """What random numbers are drawn from."""

    INTEGERS = "integers"
    """Integers of at most `SMALL_INTEGER` either side of zero: sums of products are exact."""
    NORMAL = "normal"
    """The standard normal distribution, rounded to the type; integers as above."""


def random_array(
    shape: Sequence[int], dtype: DType, rng: np.random.Generator, distribution: Distribution
) -> Array:
    """A fresh array of `dtype`; booleans are fair coins."""
    if dtype == BOOL:
        return rng.integers(0, 2, tuple(shape), np.int8).astype(BOOL)
    if distribution is Distribution.NORMAL and is_float(dtype):
        return convert(rng.standard_normal(tuple(shape)), dtype)
    drawn = rng.integers(-SMALL_INTEGER, SMALL_INTEGER + 1, tuple(shape), np.int8)
    return cast("np.ndarray[Any, np.dtype[Any]]", drawn.astype(dtype))


def random_arguments(
    types: Sequence[Attribute],
    seed: int,
    distribution: Distribution = Distribution.INTEGERS,
    dynamic_size: int = DYNAMIC_SIZE,
) -> tuple[Array, ...]:
    """One array for each type; every `?` is `dynamic_size`, and so is every `index` scalar.

    Each argument has a stream of its own, so that adding one does not change the others.

    Raises:
        ValueError: a type has no NumPy dtype.
    """
    arrays: list[Array] = []
    for position, declared in enumerate(types):
        dtype = dtype_of(element_type_of(declared))
        if dtype is None:
            raise ValueError(f"argument #{position} is {declared}, which has no NumPy dtype")
        if isinstance(declared, IndexType):
            arrays.append(np.array(dynamic_size, dtype))
            continue
        rng = np.random.default_rng([seed, position])
        arrays.append(random_array(_shape(declared, dynamic_size), dtype, rng, distribution))
    return tuple(arrays)


def _shape(declared: Attribute, dynamic_size: int) -> tuple[int, ...]:
    if not isinstance(declared, TensorType):
        return ()
    sizes = cast("TensorType[Attribute]", declared).get_shape()
    return tuple(dynamic_size if size == DYNAMIC_INDEX else size for size in sizes)
