"""Tensor maps (`CUtensorMap`), encoded by the driver for kernels that copy tiles by TMA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.bodies.contraction.spec import STORAGE_BYTES
from convir.lowering.kernels.cuda.launch import TensorMap
from convir.runtime.cuda.toolkit import driver

if TYPE_CHECKING:
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


def encode(tensor_map: TensorMap | Im2colMap, address: int) -> Array:
    """The map for a buffer at `address`: u8[128], which a launch passes by value.

    Raises:
        NoGpuError: `cuda-bindings` is not installed.
        RuntimeError: the driver refuses the map.
    """
    cu: Any = driver()
    name = "TFLOAT32" if tensor_map.is_tf32 else _ELEMENTS[tensor_map.element]
    element = f"CU_TENSOR_MAP_DATA_TYPE_{name}"
    swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
    tensor = (
        getattr(cu.CUtensorMapDataType, element),
        len(tensor_map.sizes),
        address + (tensor_map.offset if isinstance(tensor_map, TensorMap) else 0),
        [cu.cuuint64_t(size) for size in tensor_map.sizes],
        [cu.cuuint64_t(stride) for stride in tensor_map.strides],
    )
    layout = (
        cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(
            cu.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{tensor_map.promotion}B"
        ),
        cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if isinstance(tensor_map, TensorMap):
        steps = tensor_map.element_strides or (1,) * len(tensor_map.sizes)
        status, encoded = cu.cuTensorMapEncodeTiled(
            *tensor,
            [cu.cuuint32_t(size) for size in tensor_map.box],
            [cu.cuuint32_t(step) for step in steps],
            *layout,
        )
    else:
        status, encoded = cu.cuTensorMapEncodeIm2col(
            *tensor,
            list(tensor_map.lower),
            list(tensor_map.upper),
            tensor_map.channels,
            tensor_map.pixels,
            [cu.cuuint32_t(step) for step in (1, *tensor_map.steps, 1)],
            *layout,
        )
    if status != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver refuses a tensor map ({status.name}): {tensor_map}")
    return _aligned(np.array([int(word) for word in encoded.opaque], np.uint64).view(np.uint8))


def box_bytes(tensor_map: TensorMap) -> int:
    """What one copy moves, in bytes."""
    return int(np.prod(tensor_map.box)) * STORAGE_BYTES[tensor_map.element]


def _aligned(content: Array) -> Array:
    """A copy of `content` at an aligned address, where the driver reads it from."""
    raw = np.empty(MAP_BYTES + MAP_ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % MAP_ALIGNMENT
    raw[start : start + MAP_BYTES] = content
    return raw[start : start + MAP_BYTES]
