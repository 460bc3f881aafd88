"""Instructions that the machine of a test may lack: bit-exact models in NumPy, and in LLVM IR.

Code for a CPU runs on any other one where the instruction is replaced by the IR of its model, and
vectors are as wide as LLVM makes them.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

BF16_DOT = "@llvm.x86.avx512bf16.dpbf16ps.512"
BYTE_DOT = "@llvm.x86.avx512.vpdpbusd.512"

BF16_ROUND = "@llvm.x86.avx512bf16.cvtneps2bf16.512"
SUBNORMAL = "@llvm.x86.avx512.fpclass.ps.512"

_LEAST_NORMAL = np.float32(2.0**-126)

_BF16_DOT_MODEL = """
define internal <16 x float> @flushed(<16 x float> %x) {
  %size = call <16 x float> @llvm.fabs.v16f32(<16 x float> %x)
  %small = fcmp olt <16 x float> %size, splat (float 0x3810000000000000)
  %none = call <16 x float> @llvm.copysign.v16f32(<16 x float> zeroinitializer, <16 x float> %x)
  %flushed = select <16 x i1> %small, <16 x float> %none, <16 x float> %x
  ret <16 x float> %flushed
}
define internal <16 x float> @products(<16 x float> %total, <16 x i32> %x, <16 x i32> %y) {
  %xf = bitcast <16 x i32> %x to <16 x float>
  %yf = bitcast <16 x i32> %y to <16 x float>
  %xs = call <16 x float> @flushed(<16 x float> %xf)
  %ys = call <16 x float> @flushed(<16 x float> %yf)
  %total.in = call <16 x float> @flushed(<16 x float> %total)
  %sum = call <16 x float> @llvm.fma.v16f32(
    <16 x float> %xs, <16 x float> %ys, <16 x float> %total.in)
  %out = call <16 x float> @flushed(<16 x float> %sum)
  ret <16 x float> %out
}
define internal <16 x float> @bf16_dot(<16 x float> %total, <32 x bfloat> %x, <32 x bfloat> %y) {
  %xw = bitcast <32 x bfloat> %x to <16 x i32>
  %yw = bitcast <32 x bfloat> %y to <16 x i32>
  %xh = and <16 x i32> %xw, splat (i32 -65536)
  %yh = and <16 x i32> %yw, splat (i32 -65536)
  %xl = shl <16 x i32> %xw, splat (i32 16)
  %yl = shl <16 x i32> %yw, splat (i32 16)
  %high = call <16 x float> @products(<16 x float> %total, <16 x i32> %xh, <16 x i32> %yh)
  %both = call <16 x float> @products(<16 x float> %high, <16 x i32> %xl, <16 x i32> %yl)
  ret <16 x float> %both
}
declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.copysign.v16f32(<16 x float>, <16 x float>)
"""

_BF16_ROUND_MODEL = """
define internal <16 x bfloat> @bf16_round(<16 x float> %x) {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %size = and <16 x i32> %bits, splat (i32 2147483647)
  %small = icmp ult <16 x i32> %size, splat (i32 8388608)
  %sign = and <16 x i32> %bits, splat (i32 -2147483648)
  %kept = select <16 x i1> %small, <16 x i32> %sign, <16 x i32> %bits
  %shifted = lshr <16 x i32> %kept, splat (i32 16)
  %odd = and <16 x i32> %shifted, splat (i32 1)
  %up = add <16 x i32> %kept, splat (i32 32767)
  %sum = add <16 x i32> %up, %odd
  %quiet = or <16 x i32> %bits, splat (i32 4194304)
  %is.nan = icmp ugt <16 x i32> %size, splat (i32 2139095040)
  %chosen = select <16 x i1> %is.nan, <16 x i32> %quiet, <16 x i32> %sum
  %high = lshr <16 x i32> %chosen, splat (i32 16)
  %half = trunc <16 x i32> %high to <16 x i16>
  %result = bitcast <16 x i16> %half to <16 x bfloat>
  ret <16 x bfloat> %result
}
"""

_SUBNORMAL_MODEL = """
define internal <16 x i1> @subnormal(<16 x float> %x, i32 %class) {
  %bits = bitcast <16 x float> %x to <16 x i32>
  %size = and <16 x i32> %bits, splat (i32 2147483647)
  %less = sub <16 x i32> %size, splat (i32 1)
  %result = icmp ult <16 x i32> %less, splat (i32 8388607)
  ret <16 x i1> %result
}
"""

_byte_dot = """
define internal <16 x i32> @byte_dot(<16 x i32> %total, <64 x i8> %x, <64 x i8> %y) {
  %xw = zext <64 x i8> %x to <64 x i32>
  %yw = sext <64 x i8> %y to <64 x i32>
  %products = mul <64 x i32> %xw, %yw
"""
for _byte in range(4):
    _lanes = ", ".join(f"i32 {4 * _lane + _byte}" for _lane in range(16))
    _byte_dot += f"""
  %p{_byte} = shufflevector <64 x i32> %products, <64 x i32> poison, <16 x i32> <{_lanes}>
"""
_byte_dot += """
  %low = add <16 x i32> %p0, %p1
  %high = add <16 x i32> %p2, %p3
  %both = add <16 x i32> %low, %high
  %sum = add <16 x i32> %total, %both
  ret <16 x i32> %sum
}
"""


def emulated(ir: str, *, bf16: bool = False, of_bytes: bool = False) -> str:
    """`ir` for any CPU: instructions are calls of their models, vectors of 512 bits are split.

    Args:
        ir: the code.
        bf16: whether it calls parts of the model of products of bf16 itself.
        of_bytes: the same of bytes.
    """
    ir = re.sub(r' "target-features"="[^"]*"', "", ir)
    if BF16_DOT in ir or bf16:
        ir = re.sub(rf"declare .*{re.escape(BF16_DOT)}.*\n", "", ir)
        ir = ir.replace(BF16_DOT, "@bf16_dot") + _BF16_DOT_MODEL
        if "@llvm.fma.v16f32(<16 x float>," not in ir.replace(_BF16_DOT_MODEL, ""):
            ir += "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)"
    for name, own, model in (
        (BF16_ROUND, "@bf16_round", _BF16_ROUND_MODEL),
        (SUBNORMAL, "@subnormal", _SUBNORMAL_MODEL),
    ):
        if name in ir:
            ir = re.sub(rf"declare .*{re.escape(name)}.*\n", "", ir).replace(name, own) + model
    if BYTE_DOT in ir or of_bytes:
        ir = re.sub(rf"declare .*{re.escape(BYTE_DOT)}.*\n", "", ir)
        ir = ir.replace(BYTE_DOT, "@byte_dot") + _byte_dot
    return ir


def flushed(x: Any) -> Any:
    """`x` in f32, zeros of its sign for subnormals."""
    flat = np.array(x, np.float32)
    small = np.abs(flat) < _LEAST_NORMAL
    flat[small] = np.copysign(np.float32(0), flat[small])
    return flat


def bf16_dot(total: Any, x: Any, y: Any) -> Any:
    """What `vdpbf16ps` adds to `total`: f32 of any shape, `x` and `y` the same shape x 2 in bf16.

    The products of the second halves first; each sum is rounded to nearest even.
    """
    x, y, total = (flushed(operand) for operand in (x, y, total))
    for half in (1, 0):
        # A product has 16 bits: f64 holds it and nearly always its sum with an f32 exactly.
        product = x[..., half].astype(np.float64) * y[..., half].astype(np.float64)
        total = flushed((total.astype(np.float64) + product).astype(np.float32))
    return total


def byte_dot(total: Any, x: Any, y: Any) -> Any:
    """What `vpdpbusd` makes of `total`: i32 of any shape, `x` the same shape x 4 in u8, `y` in i8.

    All four products are added at once, modulo 2^32: nothing saturates.
    """
    products = x.astype(np.int64) * y.astype(np.int64)
    return (total.astype(np.int64) + products.sum(-1)).astype(np.uint32).view(np.int32)
