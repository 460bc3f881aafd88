"""Instructions on AMX's tile registers: bit-exact models in NumPy, and in LLVM IR.

Code for tile registers runs on any CPU where its instructions are calls of these models. Registers
are memory of the module then, and have their full size.

Source: Intel, Architecture Instruction Set Extensions, TDPBF16PS and TDPBUSD.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from cpu_instructions import emulated, flushed

_MODELS = {
    "ldtilecfg": "tile_configure",
    "tilerelease": "tile_release",
    "tilezero": "tile_zero",
    "tileloadd64": "tile_load",
    "tilestored64": "tile_store",
    "tdpbf16ps": "tile_bf16",
    "tdpbusd": "tile_bytes",
}

_IR = """
@tiles = internal global [8 x [16 x <16 x i32>]] zeroinitializer, align 64
define internal ptr @tile_row(i8 %tile, i64 %row) {
  %t = zext i8 %tile to i64
  %p = getelementptr [8 x [16 x <16 x i32>]], ptr @tiles, i64 0, i64 %t, i64 %row
  ret ptr %p
}
define internal void @tile_configure(ptr %from) {
  store [8 x [16 x <16 x i32>]] zeroinitializer, ptr @tiles
  ret void
}
define internal void @tile_release() {
  ret void
}
define internal void @tile_zero(i8 %tile) {
  %p = call ptr @tile_row(i8 %tile, i64 0)
  store [16 x <16 x i32>] zeroinitializer, ptr %p
  ret void
}
define internal void @tile_load(i8 %tile, ptr %from, i64 %stride) {
entry:
  br label %row
row:
  %r = phi i64 [0, %entry], [%next, %row]
  %o = mul i64 %r, %stride
  %at = getelementptr i8, ptr %from, i64 %o
  %line = load <16 x i32>, ptr %at, align 1
  %p = call ptr @tile_row(i8 %tile, i64 %r)
  store <16 x i32> %line, ptr %p
  %next = add i64 %r, 1
  %more = icmp slt i64 %next, 16
  br i1 %more, label %row, label %done
done:
  ret void
}
define internal void @tile_store(i8 %tile, ptr %to, i64 %stride) {
entry:
  br label %row
row:
  %r = phi i64 [0, %entry], [%next, %row]
  %o = mul i64 %r, %stride
  %at = getelementptr i8, ptr %to, i64 %o
  %p = call ptr @tile_row(i8 %tile, i64 %r)
  %line = load <16 x i32>, ptr %p
  store <16 x i32> %line, ptr %at, align 1
  %next = add i64 %r, 1
  %more = icmp slt i64 %next, 16
  br i1 %more, label %row, label %done
done:
  ret void
}
"""

_BF16 = """
define internal void @tile_bf16(i8 %d, i8 %a, i8 %b) {
entry:
  br label %row
row:
  %r = phi i64 [0, %entry], [%r.next, %row.end]
  %pd = call ptr @tile_row(i8 %d, i64 %r)
  %pa = call ptr @tile_row(i8 %a, i64 %r)
  br label %word
word:
  %k = phi i64 [0, %row], [%k.next, %word]
  %even = phi <16 x float> [zeroinitializer, %row], [%even.next, %word]
  %odd = phi <16 x float> [zeroinitializer, %row], [%odd.next, %word]
  %px = getelementptr i32, ptr %pa, i64 %k
  %x = load i32, ptr %px
  %x1 = insertelement <16 x i32> poison, i32 %x, i64 0
  %xs = shufflevector <16 x i32> %x1, <16 x i32> poison, <16 x i32> zeroinitializer
  %py = call ptr @tile_row(i8 %b, i64 %k)
  %y = load <16 x i32>, ptr %py
  %xh = and <16 x i32> %xs, splat (i32 -65536)
  %yh = and <16 x i32> %y, splat (i32 -65536)
  %xl = shl <16 x i32> %xs, splat (i32 16)
  %yl = shl <16 x i32> %y, splat (i32 16)
  %even.next = call <16 x float> @products(<16 x float> %even, <16 x i32> %xl, <16 x i32> %yl)
  %odd.next = call <16 x float> @products(<16 x float> %odd, <16 x i32> %xh, <16 x i32> %yh)
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, 16
  br i1 %k.more, label %word, label %row.end
row.end:
  %both = fadd <16 x float> %even.next, %odd.next
  %sum = call <16 x float> @flushed(<16 x float> %both)
  %before = load <16 x float>, ptr %pd
  %total.in = call <16 x float> @flushed(<16 x float> %before)
  %total = fadd <16 x float> %total.in, %sum
  %out = call <16 x float> @flushed(<16 x float> %total)
  store <16 x float> %out, ptr %pd
  %r.next = add i64 %r, 1
  %r.more = icmp slt i64 %r.next, 16
  br i1 %r.more, label %row, label %done
done:
  ret void
}
"""

_BYTES = """
define internal void @tile_bytes(i8 %d, i8 %a, i8 %b) {
entry:
  br label %row
row:
  %r = phi i64 [0, %entry], [%r.next, %row.end]
  %pd = call ptr @tile_row(i8 %d, i64 %r)
  %pa = call ptr @tile_row(i8 %a, i64 %r)
  %before = load <16 x i32>, ptr %pd
  br label %word
word:
  %k = phi i64 [0, %row], [%k.next, %word]
  %total = phi <16 x i32> [%before, %row], [%sum, %word]
  %px = getelementptr i32, ptr %pa, i64 %k
  %x = load i32, ptr %px
  %x1 = insertelement <16 x i32> poison, i32 %x, i64 0
  %xs = shufflevector <16 x i32> %x1, <16 x i32> poison, <16 x i32> zeroinitializer
  %py = call ptr @tile_row(i8 %b, i64 %k)
  %y = load <16 x i32>, ptr %py
  %xb = bitcast <16 x i32> %xs to <64 x i8>
  %yb = bitcast <16 x i32> %y to <64 x i8>
  %sum = call <16 x i32> @byte_dot(<16 x i32> %total, <64 x i8> %xb, <64 x i8> %yb)
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, 16
  br i1 %k.more, label %word, label %row.end
row.end:
  store <16 x i32> %sum, ptr %pd
  %r.next = add i64 %r, 1
  %r.more = icmp slt i64 %r.next, 16
  br i1 %r.more, label %row, label %done
done:
  ret void
}
"""


def emulated_tiles(ir: str) -> str:
    """`ir` for any CPU: instructions on tile registers, and on pairs and quads, are calls of their
    models."""
    bf16, of_bytes = "tdpbf16ps" in ir, "tdpbusd" in ir
    if "llvm.x86.tile" not in ir:
        return emulated(ir)
    for name, model in _MODELS.items():
        ir = re.sub(rf"declare void @llvm\.x86\.{name}\(.*\n", "", ir)
        ir = ir.replace(f"@llvm.x86.{name}(", f"@{model}(")
    ir += _IR
    if bf16:
        ir += _BF16
    if of_bytes:
        ir += _BYTES
    return emulated(ir, bf16=bf16, of_bytes=of_bytes)


def tile_bf16(total: Any, a: Any, b: Any) -> Any:
    """What `tdpbf16ps` makes of `total`.

    Args:
        total: 16 rows of 16 columns in f32.
        a: 16 rows of 16 pairs in bf16.
        b: 16 pairs of 16 columns in bf16, the halves of a pair last.
    """
    total, a, b = (flushed(operand) for operand in (total, a, b))
    halves = [np.zeros((16, 16), np.float32) for _ in range(2)]
    for word in range(16):
        for half in range(2):
            # A product has 16 bits: f64 holds it and nearly always its sum with an f32 exactly.
            products = a[:, word, half, None].astype(np.float64) * b[word, :, half]
            halves[half] = flushed((halves[half] + products).astype(np.float32))
    return flushed(total + flushed(halves[0] + halves[1]))
