"""The most multiply-adds this CPU does a second: registers only, no memory."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.target import target
from convir.runtime.bench.timing import measure
from convir.runtime.host.jit import CompileOptions, compile_ir
from convir.runtime.host.pool import shared_pool

if TYPE_CHECKING:
    from convir.runtime.host.jit import Library

ITERATIONS = 1 << 15
"""Turns of the loop in one item: some tens of microseconds."""
CHAINS = 12
"""Independent sums: latency times issue rate of any recent core, within 16 registers."""


def fma_gflops(dtype: str, threads: int) -> float:
    """10^9 multiplications and additions a second in `f32` or `f64`, on `threads` threads.

    Half-precision types compute in f32, and have its peak.
    """
    element, bits = ("double", 64) if dtype == "f64" else ("float", 32)
    lanes = target().lanes(bits)
    library = _kernel(element, lanes)
    address, pool = library.address("fma"), shared_pool()
    sink = (ctypes.c_double * (threads * 64))()
    timing = measure(
        {"fma": lambda: pool.launch(address, ctypes.addressof(sink), threads, threads)},
        budget_s=0.2,
    )["fma"]
    return 2 * CHAINS * lanes * ITERATIONS * threads / timing.p20 / 1e3


@cache
def _kernel(element: str, lanes: int) -> Library:
    vector = f"<{lanes} x {element}>"
    suffix = f"v{lanes}f{64 if element == 'double' else 32}"
    chains = range(CHAINS)
    start = [f"  %s{i} = phi {vector} [zeroinitializer, %entry], [%n{i}, %loop]" for i in chains]
    steps = [
        f"  %n{i} = call {vector} @llvm.fma.{suffix}({vector} %x, {vector} %x, {vector} %s{i})"
        for i in chains
    ]
    sums = [
        f"  %t{i} = fadd {vector} {'%n0' if i == 1 else f'%t{i - 1}'}, %n{i}"
        for i in chains
        if i > 0
    ]
    text = f"""
declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})
define void @fma(ptr %args, i64 %begin, i64 %end, i64 %worker) {{
entry:
  %p = getelementptr i8, ptr %args, i64 0
  %x = load {vector}, ptr %p, align 8
  %items = sub i64 %end, %begin
  %turns = mul i64 %items, {ITERATIONS}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{chr(10).join(start)}
{chr(10).join(steps)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
  %slot = mul i64 %worker, 64
  %q = getelementptr i8, ptr %args, i64 %slot
  store {vector} %t{CHAINS - 1}, ptr %q, align 8
  ret void
}}
"""
    return compile_ir(text, exports=("fma",), options=CompileOptions(optimize_ir=False))
