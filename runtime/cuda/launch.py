"""Launches of CUDA kernels by the driver: addresses in, work on a stream.

What a launch hands over is a block of parameters that is written once for the addresses of a call
and used again as long as those stay the same. Nothing here allocates on the GPU, so that a launch
may be captured.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any

from convir.lowering.kernels.cuda.launch import Pointer, Scalar
from convir.runtime.arrays.host_memory import address_of
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.code import load_kernel
from convir.runtime.cuda.programmatic_launch import ProgrammaticLaunch
from convir.runtime.cuda.tensor_maps import Encoder
from convir.runtime.prepared_call import ADDRESS, LAUNCH, MAP, NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.lowering.kernels.cuda.launch import CudaKernel, Im2colMap, TensorMap
    from convir.runtime.cuda.plan import Place
    from convir.runtime.program import Array

DEFAULT_SHARED_BYTES = 48 << 10
"""Dynamic shared memory that a block gets without asking."""
KEPT_MAPS = 64
"""Addresses that a map is remembered for; more than a pool hands out in turn."""
_KEPT_BLOCKS = 4
"""Blocks of parameters that a kernel keeps for its next launches; more at once make new ones."""


class LoadedKernel:
    """A kernel on the current device, ready to be launched; several threads may launch it."""

    def __init__(
        self, kernel: CudaKernel, places: Mapping[Pointer, Place], function: Any = None
    ) -> None:
        """Load `kernel`, or what was loaded of it.

        Args:
            kernel: what is launched.
            places: where each of its buffers lies among the memories of a launch.
            function: its function, as CuPy has it; None to compile its source and load that.

        Raises:
            CompileError: NVRTC refuses the source.
            NoGpuError: there is no GPU, or a part of the CUDA toolkit is not installed.
        """
        self.kernel = kernel
        """What is launched."""
        self.places = places
        """Where its buffers lie among the memories of a launch."""
        self._function: Any = function or load_kernel(kernel.source, kernel.symbol)
        self.maps: list[tuple[int, Place, _Maps]] = []
        """The parameters that are tensor maps: their position, and the buffer's place."""
        self.pointers: list[tuple[int, int, int]] = []
        """The others in memory: their position, the number of a memory, and bytes into it."""
        self.scalars: list[tuple[int, int]] = []
        """The integers: their position and value."""
        for position, argument in enumerate(kernel.arguments):
            if isinstance(argument, Pointer):
                self.pointers.append((position, *places[argument]))
            elif isinstance(argument, Scalar):
                self.scalars.append((position, argument.value))
            else:
                self.maps.append((position, places[argument.buffer], _Maps(argument)))
        if kernel.shared_bytes > DEFAULT_SHARED_BYTES:
            toolkit.allow_shared_bytes(self._function, kernel.shared_bytes)
        self.shape = (self._function.ptr, *kernel.grid, *kernel.block, kernel.shared_bytes)
        """Its CUfunction, grid, block, and bytes of dynamic shared memory."""
        launches = toolkit.launches()
        self._launch: Any = (
            launches.launchCooperativeKernel if kernel.is_cooperative else launches.launchKernel
        )
        self._no_more = () if kernel.is_cooperative else (0,)
        self._free: deque[_Parameters] = deque(maxlen=_KEPT_BLOCKS)

    def launch(self, memories: Sequence[int], stream: int) -> None:
        """Enqueue it on the stream at an address; `memories` says where each memory begins."""
        try:
            parameters = self._free.pop()
        except IndexError:
            parameters = _Parameters(self)
        if parameters.memories != memories:
            parameters.write(self, memories)
        if parameters.launch is not None:
            parameters.launch(stream, parameters.address)
        else:
            self._launch(*self.shape, stream, parameters.address, *self._no_more)
        self._free.append(parameters)

    def numbers(self) -> tuple[int, ...] | None:
        """The launch as a step of `CallSteps`; None before the first one, when maps are encoded."""
        arguments: dict[int, tuple[int, ...]] = {}
        for position, memory, offset in self.pointers:
            arguments[position] = ADDRESS, memory, offset
        for position, value in self.scalars:
            arguments[position] = NUMBER, value
        for position, (memory, offset), maps in self.maps:
            found = maps.template()
            if found is None:
                return None
            arguments[position] = MAP, memory, offset + maps.offset, found
        function, *shape, shared = self.shape
        head = (LAUNCH, function, *shape, shared, self.kernel.is_cooperative, len(arguments))
        return *head, *(n for at in sorted(arguments) for n in arguments[at])


class _Parameters:
    """What the driver reads of a launch: the address of each argument's value."""

    def __init__(self, kernel: LoadedKernel) -> None:
        count = len(kernel.kernel.arguments)
        self._values = (ctypes.c_uint64 * max(1, count))()
        for position, value in kernel.scalars:
            self._values[position] = value
        first, size = ctypes.addressof(self._values), ctypes.sizeof(ctypes.c_uint64)
        self._places = (ctypes.c_uint64 * max(1, count))(*range(first, first + size * count, size))
        self._held: dict[int, Array] = {}
        self.address = ctypes.addressof(self._places)
        self.memories: Sequence[int] | None = None
        """What the values were written for."""
        self.launch: ProgrammaticLaunch | None = None
        """What launches it with them; None for a plain launch."""
        if kernel.kernel.is_dependent:
            self.launch = ProgrammaticLaunch(*kernel.shape)

    def write(self, kernel: LoadedKernel, memories: Sequence[int]) -> None:
        """Write the values for memories at these addresses."""
        self.memories = None
        values = self._values
        for position, memory, offset in kernel.pointers:
            values[position] = memories[memory] + offset
        for position, (memory, offset), maps in kernel.maps:
            self._held[position] = found = maps.at(memories[memory] + offset)
            self._places[position] = address_of(found)
        self.memories = memories


class _Maps:
    """A tensor map for each address that its buffer had lately."""

    def __init__(self, tensor_map: TensorMap | Im2colMap) -> None:
        self._encode = Encoder(tensor_map)
        self._kept: dict[int, Array] = {}
        self._template: Array | None = None
        self.offset = getattr(tensor_map, "offset", 0)
        """Bytes of the buffer before what the map begins at."""

    def template(self) -> int | None:
        """Where some map lies that was encoded, and stays; None if there is none yet."""
        if self._template is None:
            self._template = next(iter(self._kept.values()), None)
        return None if self._template is None else address_of(self._template)

    def at(self, address: int) -> Array:
        """The map for a buffer at `address`: u8[128]."""
        found = self._kept.get(address)
        if found is None:
            if len(self._kept) >= KEPT_MAPS:
                self._kept.clear()
            found = self._kept[address] = self._encode(address)
        return found
