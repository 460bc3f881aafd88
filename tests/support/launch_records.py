"""Launches of kernels: written down where they happen, repeated where nothing else happens.

As a plugin of pytest it writes every launch of the tests to the folder that `FOLDER_VARIABLE`
names. New memory is full of `UNTOUCHED`, so that what is still so before a launch was written by
nobody: a repetition leaves that as the driver gives it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.lowering.kernels.cuda.launch import Pointer, Scalar
from convir.runtime.cuda import toolkit
from convir.runtime.cuda.code import load_kernel
from convir.runtime.cuda.launch import LoadedKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.lowering.kernels.cuda.launch import CudaKernel

FOLDER_VARIABLE = "CONVIR_LAUNCH_RECORDS"
LABEL_VARIABLE = "PYTEST_CURRENT_TEST"
"""What is being run: pytest says it there."""
UNTOUCHED = 0xA7
"""In every byte of memory that nothing was written to."""

_RESTORE = f"""
extern "C" __global__ void restore(const unsigned *from, unsigned *to, int words, int rest) {{
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < words; i += gridDim.x * blockDim.x) {{
    if (from[i] != {UNTOUCHED * 0x01010101}u) to[i] = from[i];
  }}
  if (first < rest) {{
    const auto *last = reinterpret_cast<const unsigned char *>(from + words) + first;
    if (*last != {UNTOUCHED}) reinterpret_cast<unsigned char *>(to + words)[first] = *last;
  }}
}}
"""
"""Writes the words that had been written."""
_BLOCKS, _THREADS = 132, 256


@dataclass(frozen=True)
class Memory:
    """One allocation before a launch."""

    size: int
    """In bytes."""
    content: bytes
    """Compressed."""


@dataclass(frozen=True)
class Launch:
    """A launch, and all memory that it may touch."""

    label: str
    kernel: CudaKernel
    places: dict[Pointer, tuple[int, int]]
    """Of every pointer the number of a memory, and how many bytes into it."""
    memories: tuple[Memory, ...]
    us: float
    """What it took, with all that surrounds it."""


class Recorder:
    """Hands out memory, and writes launches down, each kind once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sizes: dict[int, int] = {}

    def start(self) -> None:
        """From here on, in this process."""
        toolkit.cupy().cuda.set_allocator(self._allocate)
        recorder, launch = self, LoadedKernel.launch

        def recorded(self: LoadedKernel, memories: Sequence[int], stream: int) -> None:
            recorder._write(self, memories, partial(launch, self, memories, stream))

        LoadedKernel.launch = recorded

    def _allocate(self, size: int) -> Any:
        cuda = toolkit.cupy().cuda
        memory = cuda.Memory(size)
        begin, end = memory.ptr, memory.ptr + size
        self._sizes = {
            other: length
            for other, length in self._sizes.items()
            if other + length <= begin or end <= other
        }
        self._sizes[begin] = size
        cuda.runtime.memset(begin, UNTOUCHED, size)
        cuda.runtime.deviceSynchronize()
        return cuda.MemoryPointer(memory, 0)

    def _write(
        self,
        loaded: LoadedKernel,
        memories: Sequence[int],
        launch: Callable[[], None],
    ) -> None:
        synchronize = toolkit.cupy().cuda.runtime.deviceSynchronize
        kernel = loaded.kernel
        placed = [x for x in kernel.arguments if not isinstance(x, Scalar)]
        pointers = [x if isinstance(x, Pointer) else x.buffer for x in placed]
        at = {pointer: loaded.places[pointer] for pointer in pointers}
        found = {pointer: self._place(memories[i] + at) for pointer, (i, at) in at.items()}
        bases = sorted({base for base, _ in found.values()})
        places = {pointer: (bases.index(base), at) for pointer, (base, at) in found.items()}
        sizes = [self._sizes[base] for base in bases]
        key = repr((kernel, sorted(places.items(), key=repr), sizes))
        path = self.folder / hashlib.sha256(key.encode()).hexdigest()
        if path.exists():
            launch()
            return
        synchronize()
        contents = tuple(
            Memory(size, zlib.compress(_content(base, size), 1))
            for base, size in zip(bases, sizes, strict=True)
        )
        begin = time.perf_counter()
        launch()
        synchronize()
        us = (time.perf_counter() - begin) * 1e6
        label = os.environ.get(LABEL_VARIABLE, "")
        payload = pickle.dumps(Launch(label, kernel, places, contents, us))
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(payload)
        part.replace(path)

    def _place(self, address: int) -> tuple[int, int]:
        for base, size in self._sizes.items():
            if base <= address < base + size:
                return base, address - base
        raise LookupError(f"a kernel is given {address:#x}, where nothing was allocated")


def longest_first(folder: Path) -> list[str]:
    """The names of the launches in a folder; a tool takes time for each instruction."""
    took = {path.name: read(path).us for path in folder.iterdir()}
    return sorted(took, key=lambda name: (-took[name], name))


def read(path: Path) -> Launch:
    """A launch that was written down."""
    return pickle.loads(path.read_bytes())


def repeat(launch: Launch) -> None:
    """Launch it again, on memory as it was, and wait for it."""
    cuda = toolkit.cupy().cuda
    restore = load_kernel(_RESTORE, "restore")
    memories: list[Any] = []
    for memory in launch.memories:
        content = np.frombuffer(zlib.decompress(memory.content), np.uint8)
        memories.append(cuda.Memory(memory.size))
        source = toolkit.cupy().asarray(content)
        words, rest = (np.int32(count) for count in divmod(memory.size, 4))
        arguments = (source.data.ptr, memories[-1].ptr, words, rest)
        restore((_BLOCKS,), (_THREADS,), arguments)

    loaded = LoadedKernel(launch.kernel, launch.places)
    loaded.launch([memory.ptr for memory in memories], 0)
    # A tool reports when the kernel has ended: its code must still be there then.
    cuda.runtime.deviceSynchronize()


def _content(base: int, size: int) -> bytes:
    content = np.empty(size, np.uint8)
    runtime = toolkit.cupy().cuda.runtime
    runtime.memcpy(content.ctypes.data, base, size, runtime.memcpyDeviceToHost)
    return content.tobytes()


def pytest_sessionstart() -> None:
    """Before the first test, in every process that runs some."""
    Recorder(Path(os.environ[FOLDER_VARIABLE])).start()
