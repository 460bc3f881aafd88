"""Tensor maps (`CUtensorMap`), encoded by the driver for kernels that copy tiles by TMA."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.kernels.cuda.launch import TensorMap
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.cuda.toolkit import driver, driver_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import StorageType
    from convir.lowering.kernels.cuda.launch import Im2colMap
    from convir.runtime.program import Array

MAP_BYTES = 128
"""The size of a CUtensorMap."""
MAP_ALIGNMENT = 64
"""Bytes that a CUtensorMap is aligned to."""

# Numbers of the driver's interface. Source: cuda.h, the enumerations of these names.
ELEMENTS: dict[StorageType, int] = {"f16": 6, "f32": 7, "f64": 8, "bf16": 9}
"""CUtensorMapDataType."""
_TF32 = 11
"""The same, for elements of f32 that are rounded on the way."""
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by the bytes of its atoms."""
_PROMOTIONS = {128: 2, 256: 3}
"""CUtensorMapL2promotion by bytes."""
_NONE = 0
"""CUtensorMapInterleave and CUtensorMapFloatOOBfill: none of either."""


class Encoder:
    """Encodes one map for any address: all else that the driver is told lies ready."""

    def __init__(self, tensor_map: TensorMap | Im2colMap) -> None:
        """Prepare the arguments."""
        self._map = tensor_map
        self._element = _TF32 if tensor_map.is_tf32 else ELEMENTS[tensor_map.element]
        self._sizes = _array(ctypes.c_uint64, tensor_map.sizes)
        self._strides = _array(ctypes.c_uint64, tensor_map.strides)
        swizzle, promotion = _SWIZZLES[tensor_map.swizzle], _PROMOTIONS[tensor_map.promotion]
        self._layout = (_NONE, swizzle, promotion, _NONE)
        if isinstance(tensor_map, TensorMap):
            steps = tensor_map.element_strides or (1,) * len(tensor_map.sizes)
            self._function, self._offset = "cuTensorMapEncodeTiled", tensor_map.offset
            self._window: tuple[Any, ...] = (
                _array(ctypes.c_uint32, tensor_map.box),
                _array(ctypes.c_uint32, steps),
            )
        else:
            self._function, self._offset = "cuTensorMapEncodeIm2col", 0
            self._window = (
                _array(ctypes.c_int32, tensor_map.lower),
                _array(ctypes.c_int32, tensor_map.upper),
                tensor_map.channels,
                tensor_map.pixels,
                _array(ctypes.c_uint32, (1, *tensor_map.steps, 1)),
            )

    def __call__(self, address: int) -> Array:
        """The map for a buffer at `address`: u8[128], which a launch passes by value.

        Raises:
            RuntimeError: the driver refuses the map.
            NoGpuError: it does, and `cuda-bindings`, which knows its errors, is not installed.
        """
        encoded = _aligned()
        status = getattr(driver_library(), self._function)(
            ctypes.c_void_p(address_of(encoded)),
            self._element,
            len(self._sizes),
            ctypes.c_void_p(address + self._offset),
            self._sizes,
            self._strides,
            *self._window,
            *self._layout,
        )
        if status:
            name = driver().CUresult(status).name
            raise RuntimeError(f"the driver refuses a tensor map ({name}): {self._map}")
        return encoded


def _array(element: Any, values: Sequence[int]) -> Any:
    return (element * len(values))(*values)


def _aligned() -> Array:
    """New memory for a map, at an address that the driver reads it from."""
    raw = np.empty(MAP_BYTES + MAP_ALIGNMENT, np.uint8)
    start = -address_of(raw) % MAP_ALIGNMENT
    return raw[start : start + MAP_BYTES]
