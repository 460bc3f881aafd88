"""cuBLAS through ctypes: CuPy's own binding sets no workspace, and refuses stream capture."""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from functools import cache
from typing import Any

from convir.runtime.cuda import toolkit

WORKSPACE_BYTES = 32 << 20
"""What cuBLAS may use, as its manual advises for Hopper. It is part of a call's own memory, so
that streams share none, results are the same bits every time, and a graph owns what it replays."""

# cublasMath_t: partial sums of a split reduction are never rounded to the type of the result.
_NO_REDUCED_PRECISION_REDUCTION = 16

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64

# cublasGemmStridedBatchedEx_64: handle, two transposes, m, n, k, alpha; a matrix is its address,
# type, leading dimension and stride; then come beta, the batch count, compute type and algorithm.
_MATRIX = (_POINTER, _INT, _LONG, _LONG)
_GEMM_TYPES = (
    *(_POINTER, _INT, _INT, _LONG, _LONG, _LONG, _POINTER),
    *(*_MATRIX, *_MATRIX, _POINTER, *_MATRIX),
    *(_LONG, _INT, _INT),
)


class Cublas:
    """The library; a handle belongs to one GPU, and to one thread at a time.

    Handles are kept for whoever calls next: there are as many as threads ever called at once.
    """

    def __init__(self, path: str) -> None:
        """Args: path: the shared library's."""
        library = ctypes.CDLL(path)
        self._create: Any = library.cublasCreate_v2
        self._set_math_mode: Any = library.cublasSetMathMode
        self._set_stream: Any = library.cublasSetStream_v2
        self._set_workspace: Any = library.cublasSetWorkspace_v2
        self._gemm: Any = library.cublasGemmStridedBatchedEx_64
        self._status_name: Any = library.cublasGetStatusName
        self._set_math_mode.argtypes = (_POINTER, _INT)
        self._set_stream.argtypes = (_POINTER, _POINTER)
        self._set_workspace.argtypes = (_POINTER, _POINTER, ctypes.c_size_t)
        self._gemm.argtypes = _GEMM_TYPES
        self._status_name.restype = ctypes.c_char_p
        self._free: defaultdict[int, deque[int]] = defaultdict(deque)

    def gemm(self, stream: int, workspace: int, *arguments: Any) -> None:
        """Enqueue a product of matrices.

        Args:
            stream: the address of a stream of the current GPU.
            workspace: the address of `WORKSPACE_BYTES` bytes that the product may overwrite.
            arguments: those of cublasGemmStridedBatchedEx after the handle.

        Raises:
            RuntimeError: cuBLAS refuses.
        """
        free = self._free[toolkit.cupy().cuda.runtime.getDevice()]
        try:
            handle = free.pop()
        except IndexError:
            handle = self._new_handle()
        try:
            self._check(self._set_stream(handle, stream))
            # A new stream takes the workspace back, so that it is set each time.
            self._check(self._set_workspace(handle, workspace, WORKSPACE_BYTES))
            self._check(self._gemm(handle, *arguments))
        finally:
            free.append(handle)

    def _new_handle(self) -> int:
        created = ctypes.c_void_p()
        self._check(self._create(ctypes.byref(created)))
        self._check(self._set_math_mode(created, _NO_REDUCED_PRECISION_REDUCTION))
        return created.value or 0

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"cuBLAS fails: {self._status_name(status).decode()}")


@cache
def load_cublas() -> Cublas:
    """The library, loaded once.

    Raises:
        NoGpuError: it is not installed.
    """
    return Cublas(toolkit.library("cublas", "cuBLAS", "nvidia-cublas"))
