"""Launches of kernels that may begin before the kernel ahead of them on a stream has ended.

Source: `cuLaunchKernelEx` and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION in the CUDA
driver API. Behind anything but a kernel such a launch is one like others; captured, it is a
programmatic edge of the graph.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, ClassVar

from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMMATIC_STREAM_SERIALIZATION = 6


class Attribute(ctypes.Structure):
    """`CUlaunchAttribute`."""

    _fields_: ClassVar = [
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("value", ctypes.c_int),
        ("unused", ctypes.c_int * 15),
    ]


class Config(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_: ClassVar = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint),
    ]


class ProgrammaticLaunch:
    """A function with its shape, launched by one thread at a time."""

    def __init__(
        self, function: int, grid: Sequence[int], block: Sequence[int], shared_bytes: int
    ) -> None:
        """Nothing is launched yet.

        Args:
            function: a CUfunction.
            grid: of blocks.
            block: of threads.
            shared_bytes: dynamic shared memory of a block.
        """
        self._function = ctypes.c_void_p(function)
        attribute = Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, 1)
        self._config = Config(
            tuple(grid), tuple(block), shared_bytes, None, ctypes.pointer(attribute), 1
        )
        self._at = ctypes.byref(self._config)

    def __call__(self, stream: int, parameters: int) -> None:
        """Enqueue it.

        Args:
            stream: the address of a stream.
            parameters: where the addresses of all arguments' values lie.

        Raises:
            RuntimeError: the driver refuses the launch.
        """
        self._config.stream = stream
        status = toolkit.driver_library().cuLaunchKernelEx(
            self._at, self._function, ctypes.c_void_p(parameters), None
        )
        if status:
            raise RuntimeError(f"the driver refuses a launch ({_name(status)})")


def _name(status: int) -> str:
    text = ctypes.c_char_p()
    toolkit.driver_library().cuGetErrorName(status, ctypes.byref(text))
    return (text.value or str(status).encode()).decode()
