"""What kernels are planned for: a GPU's architecture and its sizes."""

from __future__ import annotations

from dataclasses import dataclass

HOPPER = "sm_90a"
"""The only architecture with wgmma, and with register counts that warps trade."""


@dataclass(frozen=True)
class Gpu:
    """A GPU; prints as `sm_90a:132:232448`, which `parse` reads."""

    arch: str
    """The architecture that code is compiled for, e.g. `sm_90a`."""
    multiprocessors: int
    shared_bytes: int
    """The most shared memory that one block may ask for, in bytes."""

    def __str__(self) -> str:
        return f"{self.arch}:{self.multiprocessors}:{self.shared_bytes}"

    @staticmethod
    def parse(text: str) -> Gpu:
        """The GPU that prints as `text`.

        Raises:
            ValueError: no GPU prints so.
        """
        arch, *sizes = text.split(":")
        if not arch.startswith("sm_") or len(sizes) != len(("multiprocessors", "shared_bytes")):
            raise ValueError(f"'{text}' is no GPU: ARCH:MULTIPROCESSORS:SHARED_BYTES")
        multiprocessors, shared_bytes = map(int, sizes)
        return Gpu(arch, multiprocessors, shared_bytes)

    @property
    def is_hopper(self) -> bool:
        """Whether code for it may use wgmma and TMA."""
        return self.arch == HOPPER


H200 = Gpu(HOPPER, multiprocessors=132, shared_bytes=227 << 10)
"""NVIDIA H200 (and H100 SXM): what is planned for where there is no GPU."""
