"""The digests of a model's large constants, computed by a thread while its nodes are imported."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from convir.dialects.conv.constant import digest_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from concurrent.futures import Future

    from convir.frontends.elements import Array

LARGE_BYTES = 1 << 16
"""What takes longer to digest than to hand to a thread."""


class Digests:
    """Of the constants that a file holds."""

    def __init__(self, constants: Mapping[str, Array], stored: Container[str]) -> None:
        """Begin with the large ones among those of `constants` that are `stored`."""
        large = {
            name: array
            for name, array in constants.items()
            if name in stored and array.nbytes >= LARGE_BYTES and array.dtype != np.object_
        }
        self._running: dict[str, tuple[Array, Future[str]]] = {}
        if large:
            pool = ThreadPoolExecutor(1, "convir-digest")
            for name, array in large.items():
                self._running[name] = array, pool.submit(_digest, array)
            pool.shutdown(wait=False)

    def of(self, name: str, array: Array) -> str | None:
        """The digest of `array`, which is called `name`; None if it was none of those that were
        begun with."""
        begun = self._running.get(name)
        return begun[1].result() if begun is not None and begun[0] is array else None


def _digest(array: Array) -> str:
    return digest_of(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
