"""Tensor maps (`CUtensorMap`), encoded by the driver for kernels that copy tiles by TMA."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import TensorMap
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.cuda.toolkit import driver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.spec import StorageType
    from convir.lowering.kernels.cuda.launch import Im2colMap
    from convir.runtime.program import Array

MAP_BYTES = 128
"""The size of a CUtensorMap."""
MAP_ALIGNMENT = 64
"""Bytes that a CUtensorMap is aligned to."""

_ELEMENTS: dict[StorageType, str] = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
}


class Encoder:
    """Encodes one map for any address: all else that the driver is told lies ready."""

    def __init__(self, tensor_map: TensorMap | Im2colMap) -> None:
        """Prepare the arguments.

        Raises:
            NoGpuError: `cuda-bindings` is not installed.
        """
        cu: Any = driver()
        name = "TFLOAT32" if tensor_map.is_tf32 else _ELEMENTS[tensor_map.element]
        swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
        promotion = f"L2_{tensor_map.promotion}B"
        self._map = tensor_map
        self._element = _number(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}")
        self._sizes = _array(ctypes.c_uint64, tensor_map.sizes)
        self._strides = _array(ctypes.c_uint64, tensor_map.strides)
        self._layout = (
            _number(cu.CUtensorMapInterleave, "CU_TENSOR_MAP_INTERLEAVE_NONE"),
            _number(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            _number(cu.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}"),
            _number(cu.CUtensorMapFloatOOBfill, "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"),
        )
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
        """
        encoded = _aligned()
        status = getattr(_library(), self._function)(
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


@cache
def _library() -> ctypes.CDLL:
    """The driver, called without the objects that NVIDIA's bindings make of each argument."""
    return ctypes.CDLL("libcuda.so.1")


def _number(kind: Any, name: str) -> int:
    return int(getattr(kind, name))


def _array(element: Any, values: Sequence[int]) -> Any:
    return (element * len(values))(*values)


def box_bytes(tensor_map: TensorMap) -> int:
    """What one copy moves, in bytes."""
    return int(np.prod(tensor_map.box)) * STORAGE_BYTES[tensor_map.element]


def _aligned() -> Array:
    """New memory for a map, at an address that the driver reads it from."""
    raw = np.empty(MAP_BYTES + MAP_ALIGNMENT, np.uint8)
    start = -address_of(raw) % MAP_ALIGNMENT
    return raw[start : start + MAP_BYTES]
