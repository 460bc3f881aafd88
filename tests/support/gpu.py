"""What tests on a GPU share: CuPy or a skip with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from convir.runtime.cuda import toolkit


def cupy_or_skip(index: int = 0) -> Any:
    """The module `cupy`, if GPU number `index` can be used."""
    try:
        toolkit.require_gpu(index)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    return toolkit.cupy()


def need_memory(size: int) -> None:
    """Skip where fewer than `size` bytes of the current GPU are free."""
    cupy: Any = toolkit.cupy()
    free = cupy.cuda.Device().mem_info[0] + cupy.get_default_memory_pool().free_bytes()
    if free < size:
        pytest.skip(f"{size >> 20} MiB are needed, {free >> 20} MiB of the GPU are free")
