"""What tests on a GPU, or of its compiler, share: CuPy or NVRTC, or a skip with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from convir.runtime.cuda import toolkit
from convir.runtime.cuda.launch import LoadedKernel
from convir.runtime.cuda.toolchain import compile as toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.lowering.kernels.cuda.launch import CudaKernel, Pointer

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Names the GPUs that a process may use, in the order of their numbers there."""


def visible_gpus() -> list[str]:
    """The GPUs that this process may use; found without CUDA, which would keep to what it finds."""
    chosen = os.environ.get(VISIBLE_VARIABLE)
    if chosen is not None:
        return [gpu for gpu in chosen.split(",") if gpu]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    found = subprocess.run([tool, "-L"], check=False, capture_output=True, text=True)
    lines = [line for line in found.stdout.splitlines() if line.startswith("GPU ")]
    return [str(number) for number in range(len(lines))]


def cupy_or_skip(index: int = 0) -> Any:
    """The module `cupy`, if GPU number `index` can be used."""
    try:
        toolkit.require_gpu(index)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    return toolkit.cupy()


def nvrtc_or_skip() -> None:
    """Skip where kernels cannot be compiled; that needs no GPU."""
    try:
        toolkit.nvrtc()
        toolkit.include_folder()
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))


def launch_kernels(kernels: Sequence[CudaKernel], addresses: Mapping[Pointer, int]) -> None:
    """Launch `kernels` in order on CuPy's current stream, their buffers at `addresses`."""
    places = {pointer: (number, 0) for number, pointer in enumerate(addresses)}
    stream = toolkit.cupy().cuda.get_current_stream().ptr
    for kernel in kernels:
        LoadedKernel(kernel, places).launch(list(addresses.values()), stream)


def source_named(kernel: CudaKernel, symbol: str) -> str:
    """The source of a kernel under another name, beside that of others."""
    return kernel.source.replace(f"void {kernel.symbol}(", f"void {symbol}(")


def need_memory(size: int) -> None:
    """Skip where fewer than `size` bytes of the current GPU are free."""
    cupy: Any = toolkit.cupy()
    free = cupy.cuda.Device().mem_info[0] + cupy.get_default_memory_pool().free_bytes()
    if free < size:
        pytest.skip(f"{size >> 20} MiB are needed, {free >> 20} MiB of the GPU are free")


def compiled_sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of the sources that NVRTC gets from now on."""
    found: list[str] = []
    make = toolchain._compile  # pyright: ignore[reportPrivateUsage]

    def counted(source: str, *others: Any) -> tuple[bytes, bytes]:
        found.append(source)
        return make(source, *others)

    monkeypatch.setattr(toolchain, "_compile", counted)
    return found
