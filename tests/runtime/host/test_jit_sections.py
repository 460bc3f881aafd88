"""Machine code reaches its tables wherever the process has room for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

SCRIPT = """
import ctypes
import mmap

from convir.lowering.kernels.host.target import target
from convir.runtime.host.jit import AS_EMITTED, compile_ir, object_code

HOLES, PAGES_OF_HOLE, FAR = 20, 4, 4 << 30

TABLE = ", ".join(f"i32 {i}" for i in range(32768))
IR = f'''
@table = internal constant [32768 x i32] [{TABLE}]

define i32 @entry(i64 %i) {{
  %at = getelementptr [32768 x i32], ptr @table, i64 0, i64 %i
  %value = load i32, ptr %at
  ret i32 %value
}}
'''
FIRST = "define i64 @first() { ret i64 1 }"

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserved(size):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, size, 0, flags, -1, 0)
    assert address != ctypes.c_void_p(-1).value
    return address


compile_ir(FIRST, exports=("first",), options=AS_EMITTED)
object_code(IR, target(), AS_EMITTED, ("entry",))
page = mmap.PAGESIZE
holes = reserved(2 * HOLES * PAGES_OF_HOLE * page)
far = reserved(FAR)
size = 1 << 30
while size >= page:
    while (address := reserved(size)) > far:
        pass
    libc.munmap(address, size)
    size //= 2
for hole in range(HOLES):
    libc.munmap(holes + 2 * hole * PAGES_OF_HOLE * page, PAGES_OF_HOLE * page)

library = compile_ir(IR, exports=("entry",), options=AS_EMITTED)
entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(library.address("entry"))
assert [entry(i) for i in (0, 1, 32767)] == [0, 1, 32767]
"""
"""Leaves holes with room for the code but not for its table, 4 GiB above where there is room."""


def test_code_lies_within_reach_of_its_tables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
