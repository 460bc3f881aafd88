"""Generated CUDA kernels run on the CPU: compiled as C++, block after block.

It shows what the code computes, not how a GPU runs it. The threads of a block take turns, but where
they wait for each other each is one of the CPU's.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.kernels.cuda.headers import headers
from convir.lowering.kernels.cuda.launch import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from convir.lowering.kernels.cuda.launch import KernelPlan

COMPILER = "g++"

MAX_BLOCKS = 3
"""Fewer than most teams need, so that blocks stride over their range."""
TEAMS = "reduce/teams.cuh"
"""The header that kernels whose threads wait for each other include."""

_PRELUDE = """
#include <cmath>
#include <cstring>
#include <barrier>
#include <thread>
#include <vector>
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
using std::signbit;
struct dim3 { unsigned x, y, z; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float4 { float x, y, z, w; };
static dim3 blockDim, gridDim;
static thread_local dim3 blockIdx, threadIdx;
static std::barrier<> *together;
static void __syncthreads() { together->arrive_and_wait(); }
static void __syncwarp() { together->arrive_and_wait(); }
struct __half { unsigned short bits; };
struct __nv_bfloat16 { unsigned short bits; };
template <typename To, typename From> static To bits_of(From x) {
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}
static float __half2float(__half x) { return bits_of<_Float16>(x.bits); }
static __half __float2half_rn(float x) { return {bits_of<unsigned short>((_Float16)x)}; }
static __half __double2half(double x) { return {bits_of<unsigned short>((_Float16)x)}; }
static __half __ushort_as_half(unsigned short x) { return {x}; }
static unsigned short __half_as_ushort(__half x) { return x.bits; }
static __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return {x}; }
static unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static float __bfloat162float(__nv_bfloat16 x) { return bits_of<float>((unsigned)x.bits << 16); }
static __nv_bfloat16 __float2bfloat16_rn(float x) {
  const unsigned bits = bits_of<unsigned>(x);
  if (x != x) return {0x7fff};
  return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
static __nv_bfloat16 __double2bfloat16(double x) {
  float near = (float)x;
  if ((double)near != x && x == x && !(bits_of<unsigned>(near) & 1)) {
    near = bits_of<float>(bits_of<unsigned>(near) + ((std::fabs(near) < std::fabs(x)) ? 1 : -1));
  }
  return __float2bfloat16_rn(near);
}
static float nan_or(float a, float b, bool first) {
  return a != a || b != b ? NAN : (first ? a : b);
}
static bool less(float a, float b) { return a < b || (a == b && signbit(a)); }
template <typename T> static T __hmax_nan(T a, T b);
template <typename T> static T __hmin_nan(T a, T b);
#define SELECTING(T, TO_FLOAT, FROM_FLOAT)                                             \\
  template <> T __hmax_nan(T a, T b) {                                                 \\
    const float x = TO_FLOAT(a), y = TO_FLOAT(b);                                      \\
    return FROM_FLOAT(nan_or(x, y, less(y, x)));                                       \\
  }                                                                                    \\
  template <> T __hmin_nan(T a, T b) {                                                 \\
    const float x = TO_FLOAT(a), y = TO_FLOAT(b);                                      \\
    return FROM_FLOAT(nan_or(x, y, less(x, y)));                                       \\
  }
SELECTING(__half, __half2float, __float2half_rn)
SELECTING(__nv_bfloat16, __bfloat162float, __float2bfloat16_rn)
static float __uint_as_float(unsigned x) { return bits_of<float>(x); }
static double __longlong_as_double(long long x) { return bits_of<double>(x); }
static long long __double_as_longlong(double x) { return bits_of<long long>(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static int __ffsll(unsigned long long x) { return __builtin_ffsll((long long)x); }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dsub_rn(double a, double b) { return a - b; }
"""
"""What the templates ask of CUDA's own headers, for a CPU."""


_IN_TURN = """
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) CALL;
"""
_WAITING = """
  std::barrier<> all(threads);
  together = &all;
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([=, &all] {
      threadIdx.x = i;
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        CALL;
        all.arrive_and_wait();
      }
    });
  for (auto &thread : running) thread.join();
"""


_DYNAMIC_SHARED = re.compile(r"extern __shared__ __align__\(16\) (\w+ \w+)\[\];")


def missing() -> str | None:
    """Why kernels cannot be emulated here; None if they can."""
    return None if shutil.which(COMPILER) else f"there is no {COMPILER}"


def emulate(plan: KernelPlan, inputs: Sequence[Any], outputs: Sequence[Any], folder: Path) -> None:
    """Run all launches of `plan`, in order, on NumPy arrays that it reads and writes in place.

    Args:
        plan: launches whose arguments are inputs, outputs, workspace and numbers.
        inputs: dense arrays.
        outputs: dense arrays.
        folder: where the compiled code goes.
    """
    workspace: list[Any] = [np.full(size, 0xFF, np.uint8) for size in plan.workspace]
    arrays: dict[str, Sequence[Any]] = {"input": inputs, "output": outputs, "workspace": workspace}
    for kernel in plan.kernels:
        text = _DYNAMIC_SHARED.sub(rf"alignas(16) static \1[{kernel.shared_bytes}];", kernel.source)
        library = _compiled(_source(text, kernel.symbol), folder)
        pointers: list[int] = []
        numbers = np.array([getattr(each, "value", 0) for each in kernel.arguments], np.int64)
        for argument, number in zip(kernel.arguments, numbers.reshape(-1, 1), strict=True):
            place: Any = argument
            is_number = isinstance(argument, Scalar)
            array = number if is_number else arrays[place.place][place.index]
            pointers.append(array.ctypes.data)
        blocks = min(kernel.grid[0], MAX_BLOCKS) if TEAMS in kernel.source else kernel.grid[0]
        call = ctypes.CDLL(str(library))["emulate"]
        call(blocks, kernel.block[0], (ctypes.c_void_p * len(pointers))(*pointers))


def _source(source: str, symbol: str) -> str:
    _, begin = re.split(rf"\b{symbol}\(", source)
    parameters = begin[: begin.index(")")].split(",")
    arguments = ", ".join(_passed(parameter, i) for i, parameter in enumerate(parameters))
    return f"""{_PRELUDE}
{source}
extern "C" void emulate(int blocks, int threads, void **arguments) {{
  gridDim.x = blocks;
  blockDim.x = threads;
{(_WAITING if _waits(source) else _IN_TURN).replace("CALL", f"{symbol}({arguments})")}
}}
"""


def _passed(parameter: str, index: int) -> str:
    declared = parameter.replace("__restrict__", "")
    if "*" in declared:
        return f"({declared.rsplit('*', 1)[0]}*)arguments[{index}]"
    return f"*({declared.rsplit(' ', 1)[0]}*)arguments[{index}]"


def _waits(source: str) -> bool:
    return TEAMS in source or "__syncthreads" in source


def _compiled(source: str, folder: Path) -> Path:
    name = hashlib.sha256(source.encode()).hexdigest()[:16]
    library = folder / f"{name}.so"
    if library.exists():
        return library
    for header, text in (*headers(), ("cuda_bf16.h", ""), ("cuda_fp16.h", "")):
        (folder / header).parent.mkdir(parents=True, exist_ok=True)
        (folder / header).write_text(text)
    (folder / f"{name}.cpp").write_text(source)
    flags = ["-O1", "-std=c++20", "-pthread", "-shared", "-fPIC", "-w", "-fno-strict-aliasing"]
    flags += ["-ffp-contract=off", f"-I{folder}"]
    command = [COMPILER, *flags, "-o", str(library), str(folder / f"{name}.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{done.stderr[:4000]}\n{source}")
    return library


def aligned(array: Any, offset: int = 0) -> Any:
    """A copy of `array` that begins `offset` bytes after a multiple of 16."""
    raw = np.empty(array.nbytes + 32, np.uint8)
    start = -raw.ctypes.data % 16 + offset
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
