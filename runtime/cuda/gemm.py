"""`rt.gemm` as one call of cuBLAS, with a stride of 0 for an operand that is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convir.runtime.cuda.cublas import load_cublas
from convir.runtime.program import BFLOAT16

if TYPE_CHECKING:
    from convir.runtime.program import DType, Gemm

# cudaDataType_t
_DATA_TYPES: dict[DType, int] = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.float16): 2,
    BFLOAT16: 14,
}
_COMPUTE_32F = 68
_COMPUTE_64F = 70
_COMPUTE_32F_FAST_TF32 = 77
_GEMM_DEFAULT = -1
_NO_TRANSPOSE, _TRANSPOSE = 0, 1


class CublasGemm:
    """One GEMM, its parameters translated once; f32 stays IEEE f32 unless it may be TF32.

    cuBLAS is column-major: the row-major C = A · B is computed as Cᵀ = Bᵀ · Aᵀ.
    """

    def __init__(self, call: Gemm) -> None:
        """Raises NoGpuError where cuBLAS is not installed."""
        self._call = call
        wide = np.float64 if call.c.dtype == np.dtype(np.float64) else np.float32
        self._alpha = np.ones(1, wide)
        self._beta = np.full(1, 1 if call.accumulate else 0, wide)
        narrow = _COMPUTE_32F_FAST_TF32 if call.tf32 else _COMPUTE_32F
        self._compute = _COMPUTE_64F if wide is np.float64 else narrow
        self._types = tuple(_DATA_TYPES[buffer.dtype] for buffer in (call.a, call.b, call.c))
        self._cublas = load_cublas()

    def __call__(self, a: int, b: int, c: int, workspace: int, stream: int) -> None:
        """Enqueue the product of the matrices at addresses `a` and `b` into `c`.

        At `workspace` are `cublas.WORKSPACE_BYTES` bytes that this call may overwrite.
        """
        call = self._call
        if 0 in (call.m, call.n, call.batch):
            return
        a_type, b_type, c_type = self._types
        self._cublas.gemm(
            stream,
            workspace,
            _TRANSPOSE if call.transpose_b else _NO_TRANSPOSE,
            _TRANSPOSE if call.transpose_a else _NO_TRANSPOSE,
            call.n,
            call.m,
            call.k,
            self._alpha.ctypes.data,
            b,
            b_type,
            call.ldb,
            call.stride_b,
            a,
            a_type,
            call.lda,
            call.stride_a,
            self._beta.ctypes.data,
            c,
            c_type,
            call.ldc,
            call.stride_c,
            call.batch,
            self._compute,
            _GEMM_DEFAULT,
        )
