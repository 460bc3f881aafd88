"""Arrays at the border of a program: what callers pass in, and what they get back."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from convir.lowering.kernels.cuda.launch import POINTER_ALIGNMENT
from convir.runtime.arrays.host_memory import ResultMemory, aligned_bytes
from convir.runtime.arrays.torch_tensors import as_plain, bits_of, is_bfloat16
from convir.runtime.program import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.runtime.program import Array, TensorSpec

_BFLOAT16_BITS = (np.dtype(np.int16), np.dtype(np.uint16))

_DLPACK_HOST = (1, 3)
"""DLPack's device types of the CPU's memory, and of what CUDA pinned there."""

ALIGNED_BYTES = 4096
"""Results smaller than this are NumPy's own arrays."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArrayBorder:
    """Takes callers' arrays for programs whose memory the module `arrays` manages."""

    arrays: Any
    """`numpy` for the host, `cupy` for a GPU."""
    device: int = 0
    """Which GPU. Arrays of the host are copied to it, those of another GPU are refused."""

    def argument(self, value: Any, spec: TensorSpec, position: int) -> Array:
        """The dense array that holds `value`, which is copied only if it is not dense itself.

        Arrays that are ready need not come here.

        Raises:
            TypeError: `value` is not an array, or has another dtype than `spec`.
            ValueError: it has another shape.
        """
        what = f"argument {position}"
        array = typed(self._adopt(plain(value, what), spec, what), spec, what)
        if array.flags.c_contiguous and _is_aligned(array):
            return array
        _log.debug("%s is not dense and aligned, and is copied", what)
        return array.copy()

    def destination(self, value: Any, spec: TensorSpec, position: int) -> Array:
        """The array `value` to write a result into.

        Raises:
            TypeError: `value` is not an array, or has another dtype than `spec`.
            ValueError: it has another shape, or is not dense, aligned and writable.
        """
        if self.is_ready(value, spec) and value.flags.writeable:
            return value
        what = f"out {position}"
        if plain(value, what) is not value:
            raise TypeError(f"{what} is a lazy view: results are written to plain memory")
        if self.arrays is not np and _lies_on_host(value):
            raise TypeError(f"{what} lies on the host, the program on cuda:{self.device}")
        array = typed(self._adopt(value, spec, what), spec, what)
        flags = array.flags
        if (
            not flags.c_contiguous
            or not getattr(flags, "writeable", True)
            or not _is_aligned(array)
        ):
            raise ValueError(f"{what} must be dense, aligned and writable")
        return array

    def empty(self, spec: TensorSpec) -> Array:
        """A new array for a result; on the host it begins with a cache line."""
        if self.arrays is np:
            return _aligned_empty(spec)
        return self.arrays.empty(spec.shape, spec.dtype)

    def results(self, spec: TensorSpec) -> Callable[[], Array]:
        """What makes a new array for a result in each call; large ones on the host begin with a
        cache line, in memory of results that nobody holds any more where there is some."""
        if self.arrays is np and spec.nbytes >= ALIGNED_BYTES:
            return ResultMemory(spec).array
        return partial(self.arrays.empty, spec.shape, spec.dtype)

    def is_ready(self, value: Any, spec: TensorSpec) -> bool:
        """Whether `value` is an array that the program reads as it is: the common case, decided
        in a microsecond."""
        if self.arrays is not np or type(value) is not np.ndarray:
            return False
        if value.dtype != spec.dtype or value.shape != spec.shape:
            return False
        flags = value.flags
        return flags.c_contiguous and flags.aligned

    def _adopt(self, value: Any, spec: TensorSpec, what: str) -> Array:
        if isinstance(value, self.arrays.ndarray):
            return self._placed(value, what)
        if isinstance(value, int | float | np.generic):
            return self.arrays.asarray(_scalar(cast("Any", value), spec))
        if not hasattr(value, "__dlpack__"):
            raise TypeError(f"{what} is a {type(value).__name__}, not an array that speaks DLPack")
        if self.arrays is np or not _lies_on_host(value):
            return self._placed(_imported(self.arrays, value, what), what)
        _log.debug("%s lies on the host and is copied to the GPU", what)
        if not isinstance(value, np.ndarray):
            value = _imported(np, value, what)
        return self.arrays.asarray(value)

    def _placed(self, array: Any, what: str) -> Array:
        """`array`, which must lie on the program's device."""
        if self.arrays is not np and array.device.id != self.device:
            raise ValueError(
                f"{what} lies on cuda:{array.device.id}, the program on cuda:{self.device}: "
                "copy it there first"
            )
        return array


def plain(value: Any, what: str) -> Any:
    """`value`, whose memory is its values; a copy, where it is a view that only PyTorch resolves.

    Raises:
        TypeError: its memory does not say its values: it is masked, or one of the tensors that
            `as_plain` refuses.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array, whose mask no program reads")
    return as_plain(value, what)


def _aligned_empty(spec: TensorSpec) -> Array:
    """NumPy begins a large array 16 bytes into a page, where every wide store meets two lines."""
    if spec.nbytes < ALIGNED_BYTES:
        return np.empty(spec.shape, spec.dtype)
    return np.ndarray(spec.shape, spec.dtype, aligned_bytes(spec.nbytes).data)


def _is_aligned(array: Any) -> bool:
    """Whether elements, and on a GPU the vectors that kernels move, lie at multiples of their
    size."""
    if isinstance(array, np.ndarray):
        return array.flags.aligned
    return array.data.ptr % POINTER_ALIGNMENT == 0


def _lies_on_host(value: Any) -> bool:
    """Whether the CPU may read `value`, which speaks DLPack."""
    if isinstance(value, np.ndarray):
        return True
    device = getattr(value, "__dlpack_device__", None)
    try:
        return device is not None and device()[0] in _DLPACK_HOST
    except (BufferError, RuntimeError, ValueError):
        return False  # It says why when it is imported.


def _imported(module: Any, value: Any, what: str) -> Array:
    """`value` as an array of `module`, whose current stream waits for what computes it.

    NumPy's DLPack knows no bf16: what else holds it is asked for a NumPy array of ml_dtypes.

    Raises:
        TypeError: its memory or its dtype is none of `module`'s.
    """
    try:
        if is_bfloat16(value):
            return module.from_dlpack(bits_of(value)).view(BFLOAT16)
        return module.from_dlpack(value)
    except (BufferError, RuntimeError, ValueError) as error:
        if module is np and hasattr(value, "__array__") and _is_bfloat16(value):
            return np.asarray(value)
        name = module.__name__
        raise TypeError(f"{what} cannot be read by {name} through DLPack: {error}") from error


def _is_bfloat16(value: Any) -> bool:
    try:
        return np.dtype(value.dtype) == BFLOAT16
    except (AttributeError, TypeError):
        return False


def _scalar(value: Any, spec: TensorSpec) -> Array:
    """A number as an array: Python's take the dtype of `spec` if it holds them, NumPy's have one.

    Raises:
        TypeError: a fraction for an integer.
        OverflowError: an integer that `spec` does not hold.
    """
    if hasattr(value, "dtype"):
        return np.asarray(value)
    if isinstance(value, float) and spec.dtype.kind in "biu":
        raise TypeError(f"{value} is not a value of {spec.dtype.name}")
    return np.array(value, spec.dtype)


def typed(array: Array, spec: TensorSpec, what: str) -> Array:
    """`array` with the shape and dtype of `spec`; 16-bit integers stand for the bits of bf16.

    Raises:
        TypeError: the dtype differs.
        ValueError: the shape differs.
    """
    if array.shape != spec.shape:
        raise ValueError(f"{what} has shape {array.shape}, the program's is {spec.shape}")
    if array.dtype == spec.dtype:
        return array
    if spec.dtype == BFLOAT16 and array.dtype in _BFLOAT16_BITS:
        return array.view(BFLOAT16)
    swapped = "" if array.dtype.isnative else " of the other byte order"
    raise TypeError(f"{what} holds {array.dtype.name}{swapped}, the program's is {spec.dtype.name}")
