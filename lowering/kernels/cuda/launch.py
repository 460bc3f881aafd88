"""What a device launches: CUDA kernels with their source, sizes and arguments, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.lowering.bodies.contraction.spec import StorageType

Place: TypeAlias = Literal["a", "b", "c", "epilogue", "input", "output", "workspace", "state"]
"""Whose memory a pointer points to.

Kernel families name the operands of a contraction, and the further operands of its epilogue by
number; `KernelPlan.resolved` turns these into inputs and outputs of the kernel.
"""

DEPENDENT_FLOPS = 1 << 24
"""Of a block of a short kernel: some 2 µs on Hopper."""

POINTER_ALIGNMENT = 16
"""Bytes that every pointer argument is aligned to, which vector accesses rely on."""


@dataclass(frozen=True)
class Pointer:
    """An argument that is the address of a buffer."""

    place: Place
    index: int = 0
    """Which of them: input, output, workspace or epilogue operand."""


@dataclass(frozen=True)
class TensorMap:
    """An argument that is a tiled tensor map (`CUtensorMap`), passed by value.

    Source: cuTensorMapEncodeTiled in the CUDA driver API; dimension 0 is the innermost.
    """

    buffer: Pointer
    element: StorageType
    sizes: tuple[int, ...]
    """Elements along each dimension, innermost first; 1 to 5 of them."""
    strides: tuple[int, ...]
    """Bytes between neighbours along dimensions 1, 2, …; multiples of 16."""
    box: tuple[int, ...]
    """Elements that one copy moves along each dimension, at most 256."""
    swizzle: Literal[0, 32, 64, 128] = 0
    """Bytes of the shared-memory swizzle; 0 for none."""
    offset: int = 0
    """Bytes from the buffer's address to element 0; a multiple of 16."""
    element_strides: tuple[int, ...] = ()
    """Every how many elements one is copied; all of them if empty."""
    is_tf32: bool = False
    """Whether elements of f32 are rounded to TF32 on the way."""
    promotion: Literal[128, 256] = 256
    """Bytes of memory that a miss brings to the L2 cache."""


@dataclass(frozen=True)
class Im2colMap:
    """An argument that is an im2col tensor map (`CUtensorMap`), passed by value.

    One copy gathers the channels of consecutive pixels of a box that slides over the spatial
    dimensions, and zeros outside of the tensor. Source: cuTensorMapEncodeIm2col in the CUDA driver
    API; dimension 0 is the channels, the last one the batch.
    """

    buffer: Pointer
    element: StorageType
    sizes: tuple[int, ...]
    """Elements along each dimension, innermost first; 3 to 5 of them."""
    strides: tuple[int, ...]
    """Bytes between neighbours along dimensions 1, 2, …; multiples of 16."""
    lower: tuple[int, ...]
    """Per spatial dimension the first pixel, relative to position 0."""
    upper: tuple[int, ...]
    """Per spatial dimension the last pixel, relative to the last position."""
    steps: tuple[int, ...]
    """Per spatial dimension the output pixels between two pixels."""
    channels: int
    """Channels that one copy moves."""
    pixels: int
    """Pixels that one copy moves."""
    swizzle: Literal[0, 32, 64, 128] = 0
    """Bytes of the shared-memory swizzle; 0 for none."""
    is_tf32: bool = False
    """Whether elements of f32 are rounded to TF32 on the way."""
    promotion: Literal[128, 256] = 256
    """Bytes of memory that a miss brings to the L2 cache."""


@dataclass(frozen=True)
class Scalar:
    """An argument that is an integer of 64 bits: what changes the launch, and not the code."""

    value: int


Argument: TypeAlias = Pointer | TensorMap | Im2colMap | Scalar


@dataclass(frozen=True)
class CudaKernel:
    """One launch of one `extern "C"` kernel."""

    source: str
    """CUDA C++, which includes kernel family headers by their file names."""
    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    arguments: tuple[Argument, ...] = ()
    is_cooperative: bool = False
    """Whether its blocks wait for each other: all of them must run at the same time."""
    triggers_dependents: bool = False
    """Whether the next kernel may be launched when all of its blocks are there: its programmatic
    dependent launch (`ptx/grid_dependency.cuh`)."""
    is_dependent: bool = False
    """Whether it waits itself for the kernels ahead, and gains by a programmatic dependent launch.
    In a plan the kernel ahead triggers that: behind any other, it takes 0.2 to 2 µs longer."""
    spill_bytes: int = 0
    """Bytes of spilled registers, stored and loaded, that are accepted; more fail a test."""


def gains_as_dependent(blocks: int, multiprocessors: int, flops: int) -> bool:
    """Whether it matters little which multiprocessors the blocks of a kernel are on.

    Those of a programmatic dependent launch have what is free first, not what they share least.
    That is no matter where each multiprocessor has one, or the kernel is short: else the second
    linear layer of ViT-S, 98 blocks of 1536 input channels, takes 4.6 µs more; kernels that gain
    take 0.3 to 2 µs less (`benchmarks/dependent_launches.py`).
    """
    return blocks >= multiprocessors or flops <= blocks * DEPENDENT_FLOPS


@dataclass(frozen=True)
class KernelPlan:
    """The launches that compute one kernel, in order, and the memory they need beside its own."""

    kernels: tuple[CudaKernel, ...]
    workspace: tuple[int, ...] = ()
    """Bytes of every workspace; its contents do not matter before, and are lost after."""
    state: tuple[int, ...] = ()
    """Bytes of every persistent memory: zeros before the first launch, and again after each."""

    def resolved(self, place: Callable[[Pointer], Pointer]) -> KernelPlan:
        """The plan with every pointer replaced by what `place` says."""
        return replace(
            self, kernels=tuple(_resolved_kernel(kernel, place) for kernel in self.kernels)
        )


def _resolved_kernel(kernel: CudaKernel, place: Callable[[Pointer], Pointer]) -> CudaKernel:
    arguments = tuple(_resolved_argument(argument, place) for argument in kernel.arguments)
    return replace(kernel, arguments=arguments)


def _resolved_argument(argument: Argument, place: Callable[[Pointer], Pointer]) -> Argument:
    match argument:
        case Pointer():
            return place(argument)
        case Scalar():
            return argument
        case _:
            return replace(argument, buffer=place(argument.buffer))
