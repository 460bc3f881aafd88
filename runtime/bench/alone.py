"""One process measures on a GPU at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.runtime.cache.locks import held
from convir.runtime.cache.object_cache import cache_folder
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def alone_on(index: int) -> AbstractContextManager[None]:
    """While no other process measures on the GPU of this index."""
    bus = toolkit.cupy().cuda.Device(index).pci_bus_id
    return held(cache_folder() / "measuring" / f"{bus}.lock")
