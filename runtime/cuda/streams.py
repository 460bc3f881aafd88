"""Whose GPU and whose stream a call uses, and what is said when the GPU's memory runs out."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from types import TracebackType

_OUT_OF_MEMORY = (
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""What loading a module, a stream or graph, and a handle of cuBLAS fail with."""

_LEGACY_STREAM = 1
"""CUDA's (and DLPack's) other name of the default stream, which CuPy calls 0."""


@dataclass(frozen=True)
class _External:
    """A stream of somebody else, in CUDA's Python stream protocol."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def stream_of(value: Any, device: int) -> Any:
    """The CuPy stream that `value` stands for.

    Args:
        value: a CuPy stream, anything of CUDA's stream protocol (`__cuda_stream__`), a PyTorch
            stream, or a stream's address as DLPack writes it.
        device: the number of the GPU that the stream must belong to.

    Raises:
        TypeError: `value` is not a stream.
        ValueError: it belongs to another GPU.
    """
    cuda = toolkit.cupy().cuda
    if isinstance(value, cuda.Stream):
        stream = value
    elif hasattr(value, "cuda_stream"):
        owner = getattr(getattr(value, "device", None), "index", None)
        _require_device(device if owner is None else owner, device)
        return _of_pointer(cuda, value.cuda_stream)
    elif hasattr(value, "__cuda_stream__"):
        stream = cuda.Stream.from_external(value)
    else:
        return _of_pointer(cuda, _address(value))
    _require_device(device if stream.device_id < 0 else stream.device_id, device)
    return stream


def _address(value: Any) -> int:
    try:
        address = operator.index(value)
    except TypeError:
        address = -1
    if address < 0 or isinstance(value, bool):
        raise TypeError(
            f"stream= is {value!r}: a CuPy or PyTorch stream, or a stream's address, is expected"
        )
    return address


def _of_pointer(cuda: Any, pointer: int) -> Any:
    if pointer in (0, _LEGACY_STREAM):
        return cuda.Stream.null
    return cuda.Stream.from_external(_External(pointer))


def _require_device(owner: int, device: int) -> None:
    if owner != device:
        raise ValueError(f"the stream belongs to cuda:{owner}, the program to cuda:{device}")


class OnDevice:
    """A context in which one GPU, and perhaps one stream of it, are current; they are restored.

    Out of memory is reported in our words.
    """

    def __init__(self, device: Any, stream: Any = None) -> None:
        """Args: the CuPy device; the CuPy stream, or None for the device's current one."""
        self._device = device
        self._stream = stream

    def __enter__(self) -> None:
        self._device.__enter__()
        if self._stream is not None:
            self._stream.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is not None and _is_out_of_memory(error):
                raise toolkit.GpuMemoryError(_memory_problem(self._device, error)) from error
        finally:
            if self._stream is not None:
                self._stream.__exit__(kind, error, traceback)
            self._device.__exit__(kind, error, traceback)


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of CuPy, the driver, the runtime or cuBLAS says that memory ran out."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(name in str(error) for name in _OUT_OF_MEMORY)
    )


def _memory_problem(device: Any, error: BaseException) -> str:
    free, total = device.mem_info
    return (
        f"cuda:{device.id} is out of memory, {free >> 20} of its {total >> 20} MiB are free: "
        "free arrays and cupy.get_default_memory_pool().free_all_blocks(), use smaller batches, "
        f"or set workspace_bytes ({str(error).strip().rstrip('.')})"
    )
