"""CuPy's modules, imported when a GPU is first asked for, with one clear error where they fail."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from convir.lowering.kernels.target import Target, spelled

OLDEST_CAPABILITY = 80
"""Ampere: the first with bf16 and asynchronous copies, which kernels use."""

_CUPY = "cupy-cuda13x"
_LIBRARIES, _NVRTC = ("lib", "lib64"), "libnvrtc.so.*"
"""Where NVRTC lies beside CUDA's headers, and its file."""
_MINOR, _MAJOR = 10, 1000
"""CUDA's version numbers: 13020 is 13.2."""


class NoGpuError(RuntimeError):
    """There is no CuPy, no driver or no GPU; the text says what to install or change."""


class GpuMemoryError(MemoryError):
    """A GPU has too little memory left; the text says how much was asked for, and what helps."""


def cupy() -> Any:
    """The module `cupy`.

    Raises:
        NoGpuError: CuPy is not installed, or cannot load the CUDA libraries.
    """
    return _module("cupy", "CuPy", _CUPY)


def nvrtc() -> Any:
    """CuPy's bindings of NVRTC; they need no GPU.

    Raises:
        NoGpuError: CuPy or NVRTC is not installed.
    """
    cupy()
    bindings = _module("cupy_backends.cuda.libs.nvrtc", "NVRTC", "nvidia-cuda-nvrtc")
    try:
        bindings.getVersion()  # The library is loaded by the first call of it.
    except (ImportError, RuntimeError, OSError) as error:
        raise NoGpuError(_missing("NVRTC", error, "nvidia-cuda-nvrtc")) from error
    return bindings


def include_folder() -> str:
    """The folder of CUDA's own headers.

    Raises:
        NoGpuError: they are not installed.
    """
    folder = _pathfinder().find_nvidia_header_directory("cudart")
    if folder is None:
        raise NoGpuError("CUDA's headers are not installed: pip install 'convir[cuda]'")
    return folder


def nvrtc_stamp() -> tuple[object, ...]:
    """Which NVRTC compiles here: another one has another stamp.

    Its file says so where it lies beside CUDA's headers, and is not loaded then.

    Raises:
        NoGpuError: CuPy, NVRTC or CUDA's headers are not installed.
    """
    above = Path(include_folder()).parent
    files = sorted(file for folder in _LIBRARIES for file in (above / folder).glob(_NVRTC))
    if not files:
        return nvrtc().getVersion()
    found = files[-1].stat()
    return str(files[-1]), found.st_size, found.st_mtime_ns


def architecture() -> str:
    """The architecture of the current device, e.g. `sm_90a`."""
    capability = cupy().cuda.Device().compute_capability
    # Hopper's wgmma and setmaxnreg exist only in its architecture-specific target.
    return f"sm_{capability}a" if capability == "90" else f"sm_{capability}"


def gpu(index: int | None = None) -> Target:
    """A device, as kernels are planned for it; the current one if None.

    Raises:
        NoGpuError: CuPy is not installed, or cannot load the CUDA libraries.
    """
    return Target.parse(gpu_text(index))


def gpu_text(index: int | None = None) -> str:
    """What `gpu` prints as.

    Raises:
        NoGpuError: CuPy is not installed, or cannot load the CUDA libraries.
    """
    runtime = cupy().cuda.runtime
    with cupy().cuda.Device(index) as device:
        asked = (
            runtime.cudaDevAttrMultiProcessorCount,
            runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin,
        )
        multiprocessors, shared_bytes = (
            runtime.deviceGetAttribute(attribute, device.id) for attribute in asked
        )
        name = runtime.getDeviceProperties(device.id)["name"].decode()
        return spelled(architecture(), multiprocessors, shared_bytes, name)


def allow_shared_bytes(function: Any, size: int) -> None:
    """Let a CuPy function be launched with `size` bytes of dynamic shared memory a block.

    Raises:
        NoGpuError: CuPy cannot load the CUDA libraries.
    """
    api = launches()
    api.funcSetAttribute(function.ptr, api.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size)


def launches() -> Any:
    """CuPy's bindings of the driver, which launch kernels by addresses alone.

    Raises:
        NoGpuError: CuPy cannot load the CUDA libraries.
    """
    return _module("cupy_backends.cuda.api.driver", "CuPy", _CUPY)


@cache
def driver_library() -> Any:
    """The driver, called without the objects that bindings make of each argument.

    Raises:
        OSError: it is not installed.
    """
    return ctypes.CDLL("libcuda.so.1")


def driver() -> Any:
    """NVIDIA's bindings of the driver, which encode tensor maps.

    Raises:
        NoGpuError: they are not installed.
    """
    return _module("cuda.bindings.driver", "CUDA's Python binding", "cuda-bindings")


def library(name: str, what: str, package: str) -> str:
    """The path of a library of the CUDA toolkit, which is loaded.

    Args:
        name: what `cuda.pathfinder` calls it, e.g. `cublas`.
        what: what a user calls it.
        package: what to install where it is missing.

    Raises:
        NoGpuError: it is not installed.
    """
    pathfinder = _pathfinder()
    try:
        return pathfinder.load_nvidia_dynamic_lib(name).abs_path
    except RuntimeError as error:
        raise NoGpuError(_missing(what, error, package)) from error


def require_gpu(index: int) -> None:
    """Check that kernels can be compiled for, and run on, the GPU number `index`.

    Raises:
        NoGpuError: there is none, or the driver or a part of the toolkit is missing or too old.
    """
    runtime = cupy().cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise NoGpuError(_driver_problem(runtime, error)) from error
    if count == 0:
        raise NoGpuError("the NVIDIA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES")
    if index >= count:
        raise NoGpuError(f"there is no GPU number {index}: the driver finds {count}")
    capability = int(cupy().cuda.Device(index).compute_capability)
    if capability < OLDEST_CAPABILITY:
        found, needed = (f"{c // 10}.{c % 10}" for c in (capability, OLDEST_CAPABILITY))
        raise NoGpuError(
            f"GPU number {index} has compute capability {found}, kernels need {needed} or newer"
        )
    nvrtc_stamp()


def _driver_problem(runtime: Any, error: Exception) -> str:
    """Why the driver finds no GPUs at all."""
    if "NoDevice" in str(error):
        return "the NVIDIA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES"
    driver, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        return f"there is no NVIDIA driver: install one for CUDA {needed // _MAJOR}"
    if driver // _MAJOR < needed // _MAJOR:
        return (
            f"the NVIDIA driver is too old: it is for CUDA {_version(driver)}, CuPy for CUDA "
            f"{_version(needed)}; update the driver, or install cupy-cuda{driver // _MAJOR}x"
        )
    return f"the NVIDIA driver cannot be used: {error}"


def _version(number: int) -> str:
    return f"{number // _MAJOR}.{number % _MAJOR // _MINOR}"


def _pathfinder() -> Any:
    return _module("cuda.pathfinder", "CUDA's pathfinder", "cuda-pathfinder")


def _module(name: str, what: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise NoGpuError(_missing(what, error, package)) from error


def _missing(what: str, error: Exception, package: str) -> str:
    """One line, though loaders explain themselves in many."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    advice = f"pip install 'convir[cuda]', which has {package}"
    return f"{what} is not installed or cannot be loaded ({reason}): {advice}"
