"""Programmatic dependent launches: of kernels that may begin before the one ahead has ended.

Source: `cuLaunchKernelEx` and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION in the CUDA
driver API. Behind anything but a kernel such a launch is one like others; captured, it is a
programmatic edge of the graph.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

from convir.runtime.cuda import toolkit

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

    def __init__(self, function: int, *shape: int) -> None:
        """Nothing is launched yet.

        Args:
            function: a CUfunction.
            shape: its grid, its block, and bytes of dynamic shared memory of a block.
        """
        *sizes, shared_bytes = shape
        self._function = ctypes.c_void_p(function)
        attribute = Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, 1)
        grid, block = tuple(sizes[:3]), tuple(sizes[3:])
        self._config = Config(grid, block, shared_bytes, None, ctypes.pointer(attribute), 1)
        self._at = ctypes.byref(self._config)

    def __call__(self, stream: int, parameters: int) -> None:
        """Enqueue it.

        Args:
            stream: the address of a stream.
            parameters: where the addresses of all arguments' values lie.

        Raises:
            RuntimeError: the driver refuses the launch.
            NoGpuError: it does, and `cuda-bindings`, which knows its errors, is not installed.
        """
        self._config.stream = stream
        status = toolkit.driver_library().cuLaunchKernelEx(
            self._at, self._function, ctypes.c_void_p(parameters), None
        )
        if status:
            name = toolkit.driver().CUresult(status).name
            raise RuntimeError(f"the driver refuses a launch ({name})")
