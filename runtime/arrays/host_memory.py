"""The host's memory: where arrays lie, and memory of results that is used again."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.program import Array, TensorSpec

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

KEPT_BYTES = 512 << 20
"""Larger results go back to the system at once."""

# Type checkers do not know that arrays are buffers.
_byte_of: Any = ctypes.c_char.from_buffer


def address_of(array: Array) -> int:
    """Where the elements of a dense NumPy array begin."""
    try:
        return ctypes.addressof(_byte_of(array))
    except (TypeError, ValueError):
        # It is read-only, has no elements, or a dtype that buffers do not know, as bf16.
        return array.__array_interface__["data"][0]


def addresses_of(arrays: Sequence[Array]) -> list[int]:
    """Where the elements of dense NumPy arrays begin."""
    try:
        return [ctypes.addressof(_byte_of(array)) for array in arrays]
    except (TypeError, ValueError):
        return [address_of(array) for array in arrays]


def bytes_at(address: int, size: int) -> Array:
    """The `size` bytes at an address, which somebody else keeps."""
    memory = memoryview((ctypes.c_char * size).from_address(address))
    return np.ndarray(size, np.uint8, memory)


def aligned_bytes(size: int, *, zeroed: bool = False) -> Array:
    """`size` bytes of the host that begin with a cache line."""
    make = np.zeros if zeroed else np.empty
    raw = make(size + ALIGNMENT, dtype=np.uint8)
    start = -address_of(raw) % ALIGNMENT
    return raw[start : start + size]


class ResultMemory:
    """New arrays for one output.

    The system takes longer to hand out pages full of zeros than most programs to fill them. So the
    memory of one dropped result is kept for the next: in `y = f(x)` two of them take turns. As long
    as any view of a result lives, NumPy's, PyTorch's or another's, so does the array that was
    returned, and its memory is its own. Calls from several threads may overlap.
    """

    def __init__(self, spec: TensorSpec) -> None:
        self._shape, self._dtype = spec.shape, spec.dtype
        self._nbytes = spec.nbytes
        # Views keep the array that they are of alive if its own memory is not an array's.
        self._buffer_of: Any = (ctypes.c_char * self._nbytes).from_buffer
        kept = 1 if self._nbytes <= KEPT_BYTES else 0
        self._free: deque[Any] = deque(maxlen=kept)
        self._lent: dict[int, tuple[weakref.ref[Array], Any]] = {}

    def array(self) -> Array:
        """A new array that begins with a cache line."""
        try:
            memory: Any = self._free.pop()
        except IndexError:
            memory = self._buffer_of(aligned_bytes(self._nbytes))
        array = np.ndarray(self._shape, self._dtype, memory)
        loan = weakref.ref(array, self._take_back)
        self._lent[id(loan)] = loan, memory
        return array

    def _take_back(self, loan: weakref.ref[Array]) -> None:
        self._free.append(self._lent.pop(id(loan))[1])
