"""What the driver is asked to encode, read back by a driver that is none."""

from __future__ import annotations

import ctypes
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from convir.lowering.kernels.cuda.launch import Im2colMap, Pointer, TensorMap
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.cuda import tensor_maps

pytest.importorskip("cuda.bindings.driver", reason="the extra `nvrtc` is not installed")

TILED = TensorMap(Pointer("input"), "f16", (64, 32), (128,), (64, 16), 128, offset=16)
IM2COL = Im2colMap(
    Pointer("input"), "bf16", (8, 5, 6, 2), (16, 80, 480), (-1, -2), (3, 4), (1, 2), 8, 32
)
U32, U64, I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
P = ctypes.c_void_p


def _driver(
    monkeypatch: pytest.MonkeyPatch, name: str, types: list[Any], status: int = 0
) -> list[tuple[Any, ...]]:
    """The arguments that the function of the driver's with these parameters is called with."""
    asked: list[tuple[Any, ...]] = []

    def encode(*arguments: Any) -> int:
        asked.append(arguments)
        ctypes.memset(arguments[0], 7, tensor_maps.MAP_BYTES)
        return status

    # What C would read: ctypes passes all as the platform's calls do.
    function: Any = ctypes.CFUNCTYPE(ctypes.c_int, *types)(encode)
    place: Any = ctypes.cast(function, P).value
    bare: Any = ctypes.CFUNCTYPE(ctypes.c_int)(place)
    library = SimpleNamespace(**{name: bare}, kept=function)

    def opened() -> Any:
        return library

    monkeypatch.setattr(tensor_maps, "driver_library", opened)
    return asked


def _read(kind: Any, address: int, count: int) -> list[int]:
    values: Any = kind * count
    return list(values.from_address(address))


def test_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [P, U32, U32, P, P, P, P, P, *[U32] * 4]
    asked = _driver(monkeypatch, "cuTensorMapEncodeTiled", types)
    encoder = tensor_maps.Encoder(TILED)
    encoded = encoder(1 << 40)
    assert encoded.tolist() == [7] * tensor_maps.MAP_BYTES
    assert address_of(encoded) % tensor_maps.MAP_ALIGNMENT == 0
    ((out, element, rank, at, sizes, strides, box, steps, *layout),) = asked
    assert (out, element, rank, at) == (address_of(encoded), 6, 2, (1 << 40) + 16)
    assert _read(U64, sizes, 2) == [64, 32]
    assert _read(U64, strides, 1) == [128]
    assert _read(U32, box, 2) == [64, 16]
    assert _read(U32, steps, 2) == [1, 1]
    assert layout == [0, 3, 3, 0]


def test_im2col(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [P, U32, U32, P, P, P, P, P, U32, U32, P, *[U32] * 4]
    asked = _driver(monkeypatch, "cuTensorMapEncodeIm2col", types)
    encoder = tensor_maps.Encoder(IM2COL)
    encoder(4096)
    ((_, element, rank, at, sizes, strides, lower, upper, channels, pixels, steps, *_),) = asked
    assert (element, rank, at, channels, pixels) == (9, 4, 4096, IM2COL.channels, IM2COL.pixels)
    assert _read(U64, sizes, 4) == [8, 5, 6, 2]
    assert _read(U64, strides, 3) == [16, 80, 480]
    assert _read(I32, lower, 2) == [-1, -2]
    assert _read(I32, upper, 2) == [3, 4]
    assert _read(U32, steps, 4) == [1, *IM2COL.steps, 1]


def test_a_map_that_the_driver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [P, U32, U32, P, P, P, P, P, *[U32] * 4]
    _driver(monkeypatch, "cuTensorMapEncodeTiled", types, status=1)
    with pytest.raises(RuntimeError, match=r"refuses a tensor map.*INVALID_VALUE"):
        tensor_maps.Encoder(TILED)(4096)


def test_numbers_are_those_of_the_driver() -> None:
    kinds: Any = import_module("cuda.bindings.driver")
    numbers = vars(tensor_maps)
    names = {"f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16"}
    for element, name in names.items():
        kind = getattr(kinds.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}")
        assert numbers["ELEMENTS"][element] == int(kind)
    tf32 = kinds.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
    assert numbers["_TF32"] == int(tf32)
    for size, number in numbers["_SWIZZLES"].items():
        name = f"{size}B" if size else "NONE"
        kind = getattr(kinds.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{name}")
        assert number == int(kind)
    for size, number in numbers["_PROMOTIONS"].items():
        kind = getattr(kinds.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{size}B")
        assert number == int(kind)
    assert int(kinds.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE) == numbers["_NONE"]
    assert int(kinds.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == numbers["_NONE"]
