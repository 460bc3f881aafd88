from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile
from convir.runtime.arrays import host_memory
from convir.runtime.arrays.host_memory import ALIGNMENT, ResultMemory, address_of, aligned_bytes
from convir.runtime.program import BFLOAT16, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.runtime.program import Array

SPEC = TensorSpec((32, 64), np.dtype(np.float32))

SAME = """
func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  return %x : tensor<4096xf32>
}
"""

HOLDERS: dict[str, Callable[[Array], object]] = {
    "the array": lambda array: array,
    "a view": lambda array: array[3:],
    "a view of a view": lambda array: array[3:].reshape(-1)[5:],
    "another dtype": lambda array: array.view(np.int32),
    "a buffer": lambda array: array.data,
    "DLPack": np.from_dlpack,
}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BFLOAT16], ids=str)
@pytest.mark.parametrize("shape", [(3,), (), (0,)])
def test_address(shape: tuple[int, ...], dtype: np.dtype):
    array = np.ones(shape, dtype)
    assert address_of(array) == array.ctypes.data
    array.flags.writeable = False
    assert address_of(array) == array.ctypes.data


@pytest.mark.parametrize("size", [1, 4097])
def test_aligned_bytes(size: int):
    memory = aligned_bytes(size, zeroed=True)
    assert memory.ctypes.data % ALIGNMENT == 0
    assert memory.shape == (size,)
    assert not memory.any()


def test_memory_of_a_dropped_result_is_used_again():
    memory = ResultMemory(SPEC)
    first = memory.array()
    address = first.ctypes.data
    assert (first.shape, first.dtype, address % ALIGNMENT) == (SPEC.shape, SPEC.dtype, 0)
    del first
    assert memory.array().ctypes.data == address


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS.keys())
def test_memory_of_a_held_result_is_not(hold: Callable[[Array], object]):
    memory = ResultMemory(SPEC)
    first = memory.array()
    first.fill(1)
    address = first.ctypes.data
    held = hold(first)
    del first
    gc.collect()
    second = memory.array()
    second.fill(2)
    assert second.ctypes.data != address
    assert (np.asarray(held).view(np.float32) == 1).all()


def test_large_results_go_back_to_the_system(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []

    def counted(size: int) -> Array:
        made.append(size)
        return aligned_bytes(size)

    monkeypatch.setattr(host_memory, "aligned_bytes", counted)
    for kept_bytes, expected in ((8192, 1), (8191, 3)):
        monkeypatch.setattr(host_memory, "KEPT_BYTES", kept_bytes)
        made.clear()
        memory = ResultMemory(SPEC)
        for _ in range(3):
            memory.array()
        assert made == [8192] * expected


def test_result_outlives_its_memory_pool():
    memory = ResultMemory(SPEC)
    array = memory.array()
    array.fill(3)
    del memory
    gc.collect()
    assert (array == 3).all()


def test_results_of_several_threads_are_their_own():
    text = (
        "func.func @main(%x: tensor<4096xf32>) -> tensor<4096xf32> { return %x : tensor<4096xf32> }"
    )
    executable = convir_compile(text, pipeline="", device="host")
    wrong: list[int] = []

    def caller(number: int) -> None:
        x = np.full(4096, number, np.float32)
        for _ in range(300):
            if not (executable(x) == number).all():
                wrong.append(number)

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong
