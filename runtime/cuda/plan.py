"""A program planned for one GPU, as plain data: what the cuda device loads and enqueues.

Plans are made without a GPU, in any process. All memories of a call form one list: inputs, outputs,
the arena, constants, states, and weights that were packed. A place is a byte of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.kernels.cuda.launch import CudaKernel, Pointer
    from convir.runtime.program import Array, Copy, Fill, Gemm, StreamSpec, TensorSpec

Place: TypeAlias = tuple[int, int]
"""The number of a memory, and bytes into it."""


@dataclass(frozen=True)
class PlannedLaunch:
    """The kernels of one launch, and where their buffers lie."""

    kernels: tuple[CudaKernel, ...]
    places: dict[Pointer, Place]
    call: int | None = None
    """Which call of the program it is, for arrays that are not aligned; None where every kernel
    takes them as they are."""


Step: TypeAlias = "Fill | Copy | Gemm | PlannedLaunch"


@dataclass(frozen=True)
class Cubin:
    """The code of one source."""

    key: str
    """Where the cache of cubins keeps it."""
    content: bytes | None = field(default=None, repr=False)
    """The code itself, where it is at hand."""


@dataclass(frozen=True)
class CudaPlan:
    """Kernels, memory and steps of a program on one kind of GPU."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    """Of the memory plan, and of what kernels and cuBLAS need beside it."""
    workspace_offset: int
    """Where the workspace of kernels and cuBLAS begins in the arena."""
    constants: tuple[Array, ...] = field(repr=False)
    state_bytes: tuple[int, ...]
    packed: tuple[Array, ...] = field(repr=False)
    """The weights of planar programs, each f32 in one array."""
    steps: tuple[Step, ...]
    stream: StreamSpec
    summary: tuple[str, ...]
    """What each call is, in a word."""
    cubins: Mapping[str, Cubin] = field(default_factory=lambda: dict[str, Cubin](), repr=False)
    """The code of each source; empty before it is compiled."""
    calls: tuple[tuple[int, ...], ...] = ()
    """Which calls of the program each step is of."""

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """Its kernels, in the order of their launches."""
        launches = [step for step in self.steps if isinstance(step, PlannedLaunch)]
        return tuple(kernel for launch in launches for kernel in launch.kernels)

    @property
    def sources(self) -> tuple[str, ...]:
        """The CUDA C++ of its kernels, each once."""
        return tuple(dict.fromkeys(kernel.source for kernel in self.kernels))
