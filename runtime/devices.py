"""The devices there are, by the names users call them."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.kernels.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from convir.lowering.kernels.target import Target
    from convir.runtime.executable import DeviceProgram
    from convir.runtime.program import Program

_log = logging.getLogger(__name__)

_NVIDIA_DRIVER = "/proc/driver/nvidia/version"
"""Is there while the kernel module of NVIDIA's driver is loaded."""

HOST, CUDA, AUTO = "host", "cuda", "auto"
CPU = "cpu"
"""PyTorch's and ONNX's name of the host."""


@dataclass(frozen=True)
class Device:
    """A device that programs are compiled for."""

    kind: str
    """`host` or `cuda`: the key of kernel configs."""
    index: int = 0
    """Which GPU."""
    model: Target | None = None
    """What that GPU is, where this process does not see it."""

    @property
    def name(self) -> str:
        """What users call it."""
        return HOST if self.kind == HOST else f"{CUDA}:{self.index}"

    @property
    def gpu(self) -> Target:
        """What cuda kernels are chosen for: this GPU; on the host a default that nothing reads."""
        if self.model is not None:
            return self.model
        if self.kind == HOST:
            return DEFAULT_TARGET
        from convir.runtime.cuda import toolkit  # noqa: PLC0415

        return toolkit.gpu(self.index)

    @property
    def gpu_text(self) -> str:
        """What `gpu` prints as, which costs less."""
        if self.model is not None or self.kind == HOST:
            return str(self.gpu)
        from convir.runtime.cuda import toolkit  # noqa: PLC0415  (imports CuPy)

        return toolkit.gpu_text(self.index)

    def load(self, program: Program, *, threads: int | None = None) -> DeviceProgram:
        """Compile an rt program for this device.

        Raises:
            PassFailedException: a kernel has no code for the device.
            CompileError: a toolchain refused generated code.
        """
        if self.kind == HOST:
            from convir.runtime.host.device import HostProgram  # noqa: PLC0415

            return HostProgram(program, threads=threads)
        from convir.runtime.cuda.device import CudaProgram  # noqa: PLC0415

        return CudaProgram(program, self.index)


def find_device(name: str) -> Device:
    """The device called `host` or `cpu`, `cuda`, `cuda:1`, or `auto` (a GPU where there is one).

    Raises:
        ValueError: no device has that name.
        NoGpuError: a GPU was asked for by name and cannot be used.
    """
    kind, _, index = name.partition(":")
    if name in (HOST, CPU):
        return Device(HOST)
    if name == AUTO:
        return automatic_device()
    if kind != CUDA or (index and not index.isdecimal()):
        raise ValueError(f"unknown device '{name}': one of host, cpu, cuda, cuda:INDEX, auto")
    from convir.runtime.cuda.toolkit import require_gpu  # noqa: PLC0415  (imports CuPy)

    wanted = int(index or 0)
    require_gpu(wanted)
    return Device(CUDA, wanted)


@cache
def automatic_device() -> Device:
    """A GPU where one can be used, else the host.

    Why not is logged once: as a warning where this machine has an NVIDIA driver, so that a GPU was
    to be expected.
    """
    from convir.runtime.cuda.toolkit import NoGpuError, require_gpu  # noqa: PLC0415

    try:
        require_gpu(0)
    except NoGpuError as error:
        level = logging.WARNING if os.path.exists(_NVIDIA_DRIVER) else logging.INFO
        _log.log(level, "running on the host: %s", error)
        return Device(HOST)
    return Device(CUDA)
