"""Launches that follow each other are one native call, in order, whatever stands between."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from convir.dialects.context import read_module
from convir.runtime.executable import Executable
from convir.runtime.host.device import MIN_SHARED_COPY, Chain, HostProgram
from convir.runtime.host.jit import compile_ir
from convir.runtime.host.pool import ThreadPool, copy_kernel
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

# value = 3 * value + constant for each item, so that order matters.
STEP = """
define void @step(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %values = load ptr, ptr %args
  %constant.ptr = getelementptr i64, ptr %args, i64 1
  %constant = load i64, ptr %constant.ptr
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %place = getelementptr i64, ptr %values, i64 %i
  %value = load i64, ptr %place
  %tripled = mul i64 %value, 3
  %sum = add i64 %tripled, %constant
  store i64 %sum, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

# Two chains: a fill and NumPy's BLAS stand between them.
PROGRAM = """
kernel.func @square(%a: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = arith.mulf %a, %a : tensor<16x16xf32>
  kernel.return %0 : tensor<16x16xf32>
}
kernel.func @sum(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = arith.addf %a, %b : tensor<16x16xf32>
  kernel.return %0 : tensor<16x16xf32>
}
func.func @main(%x: memref<16x16xf32>, %y: memref<16x16xf32>, %out: memref<16x16xf32>,
                %same: memref<16x16xf32>) attributes {rt.program, rt.outputs = 2 : i64} {
  %arena = rt.arena : memref<2048xi8>
  %t = rt.view %arena[0] : memref<2048xi8> to memref<16x16xf32>
  %p = rt.view %arena[1024] : memref<2048xi8> to memref<16x16xf32>
  rt.launch @sum ins(%x, %y : memref<16x16xf32>, memref<16x16xf32>) outs(%t : memref<16x16xf32>)
  rt.launch @square ins(%t : memref<16x16xf32>) outs(%t : memref<16x16xf32>)
  rt.fill 2.0 : f32 into %p : memref<16x16xf32>
  rt.gemm {m = 16 : i64, n = 16 : i64, k = 16 : i64, batch = 1 : i64, lda = 16 : i64,
           ldb = 16 : i64, ldc = 16 : i64, stride_a = 0 : i64, stride_b = 0 : i64,
           stride_c = 0 : i64, accumulate} ins(%t, %y : memref<16x16xf32>, memref<16x16xf32>)
          outs(%p : memref<16x16xf32>)
  rt.launch @sum ins(%p, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%out : memref<16x16xf32>)
  rt.copy %x to %same : memref<16x16xf32> to memref<16x16xf32>
  return
}"""


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool(3)
    yield pool
    pool.close()


def run_steps(pool: ThreadPool, items: int, workers: list[int | None]) -> np.ndarray:
    """The values after one launch for each entry of `workers`, with the constants 1, 2, …"""
    library = compile_ir(STEP, exports=("step",))
    values = np.zeros(max(1, items), np.int64)
    constants = range(1, len(workers) + 1)
    tables = [(ctypes.c_int64 * 2)(values.ctypes.data, constant) for constant in constants]
    words = [
        word
        for table, most in zip(tables, workers, strict=True)
        for word in pool.described(library.address("step"), ctypes.addressof(table), items, most)
    ]
    launches = (ctypes.c_int64 * max(1, len(words)))(*words)
    pool.run(ctypes.addressof(launches), len(workers), together=any(w != 1 for w in workers))
    return values[:items]


@pytest.mark.parametrize("items", [0, 1, 7, 1000])
@pytest.mark.parametrize("workers", [[], [1], [1, 1, 1], [None, 1, 2], [None] * 20, [9, 1, None]])
def test_launches_happen_in_order(pool: ThreadPool, items: int, workers: list[int | None]) -> None:
    expected = 0
    for constant in range(1, len(workers) + 1):
        expected = 3 * expected + constant
    assert (run_steps(pool, items, workers) == expected).all()


def test_launches_of_a_larger_pool_run_on_a_closed_one(pool: ThreadPool) -> None:
    larger = ThreadPool(64)
    pool.close()
    pool.described = larger.described
    assert (run_steps(pool, 1000, [None, None]) == 5).all()
    larger.close()


@pytest.mark.parametrize("size", [0, 1, 77, MIN_SHARED_COPY + 13])
def test_copies(pool: ThreadPool, size: int) -> None:
    source = np.random.default_rng(0).integers(0, 256, size + 1).astype(np.uint8)
    out = np.full(size + 1, 99, np.uint8)
    table = (ctypes.c_int64 * 2)(source.ctypes.data, out.ctypes.data)
    pool.launch(copy_kernel(), ctypes.addressof(table), size)
    np.testing.assert_array_equal(out[:size], source[:size])
    assert out[size] == 99
    table[1] = source.ctypes.data
    before = source.copy()
    pool.launch(copy_kernel(), ctypes.addressof(table), size)
    np.testing.assert_array_equal(source, before)


def loaded(threads: int | None) -> HostProgram:
    return HostProgram(read_program(read_module(PROGRAM)), threads=threads)


def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x + y) ** 2 @ y + 2 + x


@pytest.mark.parametrize("threads", [1, None])
def test_neighbours_are_one_call(threads: int | None) -> None:
    program = loaded(threads)
    counts = [part.count if isinstance(part, Chain) else 0 for part in program.parts]
    assert counts == [2, 0, 0, 2]
    x, y = np.random.default_rng(1).integers(-3, 4, (2, 16, 16)).astype(np.float32)
    out, same = Executable(program)(x, y)
    np.testing.assert_array_equal(out, expected(x, y))
    np.testing.assert_array_equal(same, x)


def test_calls_at_once() -> None:
    """More at a time than a program keeps frames for."""
    executable = Executable(loaded(None))
    rng = np.random.default_rng(2)
    data = [rng.integers(-3, 4, (2, 16, 16)).astype(np.float32) for _ in range(9)]
    results = [np.zeros(0, np.float32)] * len(data)

    def work(index: int) -> None:
        x, y = data[index]
        for _ in range(50):
            results[index] = executable(x, y)[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(data))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (x, y), result in zip(data, results, strict=True):
        np.testing.assert_array_equal(result, expected(x, y))
