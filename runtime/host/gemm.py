"""`rt.gemm` through the BLAS that NumPy links: views of the memory, and `out=`; no copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from convir.runtime.program import Array, Buffer, Gemm

_BLAS = (np.dtype(np.float32), np.dtype(np.float64))


def run_gemm(call: Gemm, a: Array, b: Array, c: Array) -> None:
    """Compute `call`; `a`, `b` and `c` are the bytes of the memories its buffers lie in.

    Half-precision operands are widened to f32 for the product, which costs a copy of each.
    """
    lhs = _matrices(a, call.a, call, "a", call.m, call.k, transposed=call.transpose_a)
    rhs = _matrices(b, call.b, call, "b", call.k, call.n, transposed=call.transpose_b)
    out = _matrices(c, call.c, call, "c", call.m, call.n, transposed=False)
    if 0 in out.shape:
        return
    direct = lhs.dtype == rhs.dtype == out.dtype and out.dtype in _BLAS
    if direct and not call.accumulate:
        np.matmul(lhs, rhs, out=out)
        return
    wide = np.float64 if out.dtype == np.float64 else np.float32
    product = np.matmul(lhs.astype(wide, copy=False), rhs.astype(wide, copy=False))
    if call.accumulate:
        product += out.astype(wide, copy=False)
    out[...] = product


def _matrices(
    memory: Array,
    buffer: Buffer,
    call: Gemm,
    operand: str,
    rows: int,
    columns: int,
    *,
    transposed: bool,
) -> Array:
    """The operand's matrices: [rows, columns], or [batch, rows, columns] for several."""
    step = buffer.dtype.itemsize
    leading = getattr(call, f"ld{operand}") * step
    shape: tuple[int, ...] = (rows, columns)
    strides: tuple[int, ...] = (step, leading) if transposed else (leading, step)
    if call.batch != 1:
        shape = (call.batch, *shape)
        strides = (getattr(call, f"stride_{operand}") * step, *strides)
    return np.ndarray(shape, buffer.dtype, memory.data, buffer.offset, strides)
