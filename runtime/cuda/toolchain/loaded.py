"""Cubins as the cache has them, and loaded on a device: what needs no compiler."""

from __future__ import annotations

from typing import Any, Final

from convir.runtime.cache.object_cache import cache_of
from convir.runtime.compile_error import CompileError
from convir.runtime.cuda import toolkit

CUBINS: Final = "cubins"
"""A folder of the cache."""
_ELF = b"\x7fELF"
"""What cubins begin with."""


def stored_cubin(key: str) -> bytes | None:
    """The cubin that the cache keeps under `key`, if it does."""
    found = cache_of(CUBINS).load(key)
    return found if found is not None and found.startswith(_ELF) else None


def load_cubin(cubin: bytes) -> Any:
    """A cubin on the current device, as a module of CuPy's.

    Raises:
        CompileError: the driver refuses it, as one does that is older than what made it.
        NoGpuError: CuPy is not installed.
    """
    module = toolkit.cupy().cuda.function.Module()
    try:
        module.load(cubin)
    except toolkit.launches().CUDADriverError as error:
        raise CompileError(
            "the driver refuses a kernel's code", source="", options=str(error), log=str(error)
        ) from error
    return module
