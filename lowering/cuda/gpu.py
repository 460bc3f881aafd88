"""What kernels are planned for: a GPU's architecture and its sizes."""

from __future__ import annotations

from dataclasses import dataclass

HOPPER = "sm_90a"
"""The only architecture with wgmma, and with register counts that warps trade."""


@dataclass(frozen=True)
class Gpu:
    """A GPU; prints as `sm_90a:132:232448:NVIDIA H200`, which `parse` reads."""

    arch: str
    """The architecture that code is compiled for, e.g. `sm_90a`."""
    multiprocessors: int
    shared_bytes: int
    """The most shared memory that one block may ask for, in bytes."""
    name: str = ""
    """As the driver says it; nothing has been measured on a GPU without one."""

    def __str__(self) -> str:
        name = f":{self.name}" if self.name else ""
        return f"{self.arch}:{self.multiprocessors}:{self.shared_bytes}{name}"

    @staticmethod
    def parse(text: str) -> Gpu:
        """The GPU that prints as `text`.

        Raises:
            ValueError: no GPU prints so.
        """
        arch, *rest = text.split(":", 3)
        if not arch.startswith("sm_") or len(rest) < len(("multiprocessors", "shared_bytes")):
            raise ValueError(f"'{text}' is no GPU: ARCH:MULTIPROCESSORS:SHARED_BYTES[:NAME]")
        multiprocessors, shared_bytes = map(int, rest[:2])
        return Gpu(arch, multiprocessors, shared_bytes, "".join(rest[2:]))

    @property
    def is_hopper(self) -> bool:
        """Whether code for it may use wgmma and TMA."""
        return self.arch == HOPPER


H200 = Gpu(HOPPER, multiprocessors=132, shared_bytes=227 << 10, name="NVIDIA H200")
"""What is planned for where there is no GPU."""

H200_CACHE_BYTES = 50 << 20
"""Of its L2 cache: what it still holds of an operand that is read again."""

H200_CLUSTERS = {2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
"""Clusters of so many blocks that run at the same time on an H200, as the driver says."""
