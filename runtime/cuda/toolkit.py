"""CuPy's modules, imported when a GPU is first asked for, with one clear error where they fail."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class NoGpuError(RuntimeError):
    """There is no CuPy, no driver or no GPU; the text says what to install or change."""


def cupy() -> Any:
    """The module `cupy`.

    Raises:
        NoGpuError: CuPy is not installed, or cannot load the CUDA libraries.
    """
    return _module("cupy")


def nvrtc() -> Any:
    """CuPy's bindings of NVRTC; they need no GPU.

    Raises:
        NoGpuError: CuPy is not installed, or cannot load the CUDA libraries.
    """
    return _module("cupy_backends.cuda.libs.nvrtc")


def include_folder() -> str:
    """The folder of CUDA's own headers.

    Raises:
        NoGpuError: they are not installed.
    """
    folder = _module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    if folder is None:
        raise NoGpuError("CUDA's headers are not installed: pip install nvidia-cuda-runtime")
    return folder


def architecture() -> str:
    """The architecture of the current device, e.g. `sm_90a`."""
    capability = cupy().cuda.Device().compute_capability
    # Hopper's wgmma and setmaxnreg exist only in its architecture-specific target.
    return f"sm_{capability}a" if capability == "90" else f"sm_{capability}"


def cublas() -> Any:
    """CuPy's bindings of cuBLAS.

    Raises:
        NoGpuError: CuPy is not installed, or cannot load the CUDA libraries.
    """
    return _module("cupy_backends.cuda.libs.cublas")


def cublas_handle() -> Any:
    """The cuBLAS handle of the current device, on the current stream."""
    return _module("cupy.cuda.device").get_cublas_handle()


def require_gpu(index: int) -> None:
    """Check that the GPU number `index` can be used.

    Raises:
        NoGpuError: there is none, or the driver is missing or too old.
    """
    runtime = cupy().cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise NoGpuError(
            f"the NVIDIA driver cannot be used ({error}): install or update it"
        ) from error
    if index >= count:
        raise NoGpuError(f"there is no GPU number {index}: the driver finds {count}")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise NoGpuError(
            f"CUDA needs CuPy, which cannot be imported ({error}): pip install cupy-cuda13x"
        ) from error
