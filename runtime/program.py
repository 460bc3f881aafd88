"""An rt program as plain data: what any device runs, in order, on which memory.

Devices see the dataclasses below and the bodies of the kernels; `runtime/read_program.py` makes
them from IR. Nothing here needs xDSL, so that a program compiled before runs without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.kernel import ops as kernel

DType: TypeAlias = np.dtype[Any]
Array: TypeAlias = npt.NDArray[Any]

BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
"""The dtype of bf16 arrays."""

DYNAMIC_SIZE = -1
"""Stands for a size that is bound at the call."""


class Space(Enum):
    """Whose memory a buffer lies in."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"
    CONSTANT = "constant"
    STATE = "state"


@dataclass(frozen=True)
class Buffer:
    """Dense row-major elements, `offset` bytes into one memory of the program."""

    space: Space
    index: int
    """Which input, output, constant or state; 0 for the arena."""
    offset: int
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        place = f"@{self.offset}" if self.space is Space.ARENA else str(self.index)
        return f"{self.space.value}{place}: {TensorSpec(self.shape, self.dtype)}"


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and name of an input or an output."""

    shape: tuple[int, ...]
    """The sizes; `DYNAMIC_SIZE` for one that is bound at the call."""
    dtype: DType
    name: str = field(default="", compare=False)
    """What the program calls it; empty where it does not say."""

    @property
    def nbytes(self) -> int:
        """The bytes of a dense array; all sizes are known."""
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.sizes} {self.dtype.name}"

    @property
    def sizes(self) -> str:
        """The shape as text, `?` for a size that is bound at the call."""
        sizes = ("?" if size == DYNAMIC_SIZE else str(size) for size in self.shape)
        return "x".join(sizes) or "scalar"


@dataclass(frozen=True)
class Fill:
    """Set every element to `value`."""

    value: float | int
    out: Buffer


@dataclass(frozen=True)
class Copy:
    """Copy all elements."""

    source: Buffer
    out: Buffer


@dataclass(frozen=True)
class Gemm:
    """`rt.gemm`; sizes, leading dimensions and strides count elements."""

    a: Buffer
    b: Buffer
    c: Buffer
    m: int
    n: int
    k: int
    batch: int
    lda: int
    ldb: int
    ldc: int
    stride_a: int
    stride_b: int
    stride_c: int
    transpose_a: bool
    transpose_b: bool
    accumulate: bool
    tf32: bool = False
    """Whether f32 operands may be rounded to TF32."""


@dataclass(frozen=True)
class Launch:
    """One kernel: its body on tensors is its meaning."""

    kernel: kernel.FuncOp
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    workspace: tuple[Buffer, ...]


Call: TypeAlias = Fill | Copy | Gemm | Launch


def buffers_of(call: Call) -> tuple[Buffer, ...]:
    """What a call reads and writes."""
    match call:
        case Copy():
            return call.source, call.out
        case Gemm():
            return call.a, call.b, call.c
        case Launch():
            return *call.inputs, *call.outputs, *call.workspace
        case Fill():
            return (call.out,)


@dataclass(frozen=True)
class StreamSpec:
    """What a program says of being called with one block after another."""

    states: int = 0
    """How many of the last inputs are what the last outputs were in the call before."""
    sample_rate: float | None = None
    """Frames a second, where they mean sound."""


@dataclass(frozen=True, repr=False)
class Program:
    """A straight-line program of runtime calls.

    It prints as what there is in it, a line each, without the elements of its constants.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    constants: tuple[Array, ...]
    state_bytes: tuple[int, ...]
    calls: tuple[Call, ...]
    stream: StreamSpec = field(default_factory=StreamSpec)

    def __repr__(self) -> str:
        return f"<Program @{self.name}: {signature_text(self.inputs, self.outputs)}>"

    def __str__(self) -> str:
        ends = signature_text(self.inputs, self.outputs)
        lines = [f"program @{self.name}: {ends}", f"  arena of {self.arena_bytes:,} bytes"]
        lines += [
            f"  constant{i}: {TensorSpec(each.shape, each.dtype)}, {each.nbytes:,} bytes"
            for i, each in enumerate(self.constants)
        ]
        lines += [f"  state{i}: {size:,} bytes" for i, size in enumerate(self.state_bytes)]
        return "\n".join([*lines, *(f"  {_call_text(call)}" for call in self.calls)])

    def summary(self, device: str) -> list[str]:
        """What each call is, in a word: `gemm`, `fill`, or the config of a launch."""
        from convir.lowering.implementations import LOOPS, config_of  # noqa: PLC0415

        return [
            (config_of(call.kernel, device) or LOOPS)
            if isinstance(call, Launch)
            else type(call).__name__.lower()
            for call in self.calls
        ]


def adopt_configs(program: Program, chosen: Program, device: str) -> bool:
    """Give the kernels of a program the configs that those of another one have for `device`; False,
    and nothing is changed, if the two have other calls."""
    from convir.lowering.implementations import LOOPS, attach_config, config_of  # noqa: PLC0415

    if [*map(type, program.calls)] != [*map(type, chosen.calls)]:
        return False
    for call, like in zip(program.calls, chosen.calls, strict=True):
        if isinstance(call, Launch) and isinstance(like, Launch):
            attach_config(call.kernel, device, config_of(like.kernel, device) or LOOPS)
    return True


def signature_text(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """What goes in and what comes out: `(4x8 float32, 8x6 float32) -> 4x6 float32`."""
    results = ", ".join(map(str, outputs))
    return f"({', '.join(map(str, inputs))}) -> {results if len(outputs) == 1 else f'({results})'}"


def _call_text(call: Call) -> str:
    """A call on one line: what it is, and what it reads and writes."""
    match call:
        case Fill():
            return f"fill {call.value} -> {call.out}"
        case Copy():
            return f"copy {call.source} -> {call.out}"
        case Gemm():
            batch = f"{call.batch} x " if call.batch != 1 else ""
            return f"gemm {batch}{call.m}x{call.n}x{call.k} ({call.a}, {call.b}) -> {call.c}"
        case Launch():
            read, written = (", ".join(map(str, b)) for b in (call.inputs, call.outputs))
            return f"launch @{call.kernel.sym_name.data} ({read}) -> {written}"


class Memories(Protocol):
    """What has the memories of a program, beside its arena."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        ...

    @property
    def constants(self) -> tuple[Array, ...]:
        """What the program brings along."""
        ...

    @property
    def state_bytes(self) -> tuple[int, ...]:
        """The size of every state."""
        ...


def memory_positions(program: Memories) -> dict[Space, int]:
    """The position of the first memory of each space, where all memories form one list."""
    counts = {
        Space.INPUT: len(program.inputs),
        Space.OUTPUT: len(program.outputs),
        Space.ARENA: 1,
        Space.CONSTANT: len(program.constants),
        Space.STATE: len(program.state_bytes),
    }
    first: dict[Space, int] = {}
    position = 0
    for space, count in counts.items():
        first[space] = position
        position += count
    return first


def reused_arguments(call: Launch) -> tuple[int, ...]:
    """The arguments of a launch whose memory is that of a result."""
    return tuple(i for i, source in enumerate(call.inputs) if source in call.outputs)


def results_over_arguments(call: Launch) -> tuple[tuple[int, int], ...]:
    """The arguments of a launch whose memory is that of a result, each with that result."""
    return tuple(
        (i, call.outputs.index(source))
        for i, source in enumerate(call.inputs)
        if source in call.outputs
    )


def launch_overlaps(call: Launch) -> bool:
    """Whether an output of a launch shares memory with an input: the program reuses it in place."""
    return any(_overlap(out, source) for out in call.outputs for source in call.inputs)


def launch_overlaps_partly(call: Launch) -> bool:
    """Whether an output of a launch shares memory with an input that is another buffer."""
    return any(
        out != source and _overlap(out, source) for out in call.outputs for source in call.inputs
    )


def _overlap(a: Buffer, b: Buffer) -> bool:
    return (
        a.space is b.space
        and a.index == b.index
        and a.offset < b.offset + b.nbytes
        and b.offset < a.offset + a.nbytes
    )


def shared_outputs(addresses: Sequence[int], sizes: Sequence[int], inputs: int) -> set[int]:
    """The outputs of a call that share memory with an input or another output.

    Args:
        addresses: where the inputs begin, and after them the outputs.
        sizes: bytes of each.
        inputs: how many of them are inputs.
    """
    if len(sizes) == inputs + 1:
        return {0} if _is_shared(addresses, sizes) else set()
    shared: set[int] = set()
    end_of_all = end_of_outputs = 0
    longest = 0  # the output that ends at `end_of_outputs`: what overlaps another overlaps it too
    for begin, size, number in sorted(zip(addresses, sizes, range(len(sizes)), strict=True)):
        end = begin + size
        if begin < end_of_all and size > 0:
            if begin < end_of_outputs:
                shared.add(longest)
            if number >= inputs:
                shared.add(number - inputs)
        if number >= inputs and end > end_of_outputs:
            end_of_outputs, longest = end, number - inputs
        if end > end_of_all:
            end_of_all = end
    return shared


def _is_shared(addresses: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the last one shares memory with another: nothing to sort, as for most calls."""
    last = len(sizes) - 1
    first, end = addresses[last], addresses[last] + sizes[last]
    for number in range(last):
        begin = addresses[number]
        if begin < end and first < begin + sizes[number] and first < end and sizes[number]:
            return True
    return False
