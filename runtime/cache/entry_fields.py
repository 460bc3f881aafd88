"""What entries of the program cache are made of, as JSON and as bytes: memories, steps, constants.

Reading only reads: nothing names code of ours, and whatever does not fit, an offset outside of its
memory too, is a `FormatError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from convir.runtime.program import (
    BFLOAT16,
    DYNAMIC_SIZE,
    Buffer,
    Copy,
    Fill,
    Gemm,
    Space,
    StreamSpec,
    TensorSpec,
    memory_positions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.program import Array, DType

    Json: TypeAlias = Any
    Place: TypeAlias = tuple[int, int]

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

_DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        *map(np.dtype, (np.bool_, np.int8, np.int16, np.int32, np.int64)),
        *map(np.dtype, (np.float16, np.float32, np.float64)),
        BFLOAT16,
    )
}
"""What elements of programs are stored in."""

_GEMM_SIZES = ("m", "n", "k", "batch", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c")
_GEMM_FLAGS = ("transpose_a", "transpose_b", "accumulate", "tf32")


class FormatError(ValueError):
    """Bytes are no entry of this version."""


class Blobs:
    """Bytes that begin at multiples of `ALIGNMENT`."""

    def __init__(self, blobs: Sequence[bytes | Array]) -> None:
        self._parts: list[bytes | memoryview] = []
        self.starts: list[int] = []
        end = 0
        for blob in blobs:
            part = blob if isinstance(blob, bytes) else blob.reshape(-1).view(np.uint8).data
            gap = bytes(-end % ALIGNMENT)
            self._parts += (gap, part)
            self.starts.append(end + len(gap))
            end += len(gap) + len(part)

    def content(self) -> bytes:
        """All of them."""
        return b"".join(self._parts)


def written_spec(spec: TensorSpec) -> Json:
    """A spec as JSON."""
    return [spec.dtype.name, spec.shape, spec.name]


def written_step(step: Fill | Copy | Gemm) -> Json:
    """A step that is not a launch, as JSON."""
    match step:
        case Fill():
            return ["fill", step.value, _written_buffer(step.out)]
        case Copy():
            return ["copy", _written_buffer(step.source), _written_buffer(step.out)]
        case Gemm():
            buffers = map(_written_buffer, (step.a, step.b, step.c))
            others = (getattr(step, name) for name in (*_GEMM_SIZES, *_GEMM_FLAGS))
            return ["gemm", *buffers, *others]


def _written_buffer(buffer: Buffer) -> Json:
    return [buffer.space.value, buffer.index, buffer.offset, buffer.dtype.name, buffer.shape]


@dataclass(frozen=True)
class Memories:
    """The memories of a call, in order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    constants: tuple[Array, ...]
    state_bytes: tuple[int, ...]
    kept_bytes: tuple[int, ...]
    """Of what else a program keeps between calls."""


class StepReader:
    """Reads the steps of a program that are no launches, and where launches find their memory."""

    def __init__(self, memories: Memories) -> None:
        self._sizes = [
            *(spec.nbytes for spec in (*memories.inputs, *memories.outputs)),
            memories.arena_bytes,
            *(constant.nbytes for constant in memories.constants),
            *memories.state_bytes,
            *memories.kept_bytes,
        ]
        self._first = memory_positions(memories)

    def step(self, row: Json) -> Fill | Copy | Gemm:
        """The step of a row.

        Raises:
            FormatError: it is none.
        """
        kind, *values = as_list(row)
        match kind:
            case "fill":
                value, out = values
                if type(value) not in (int, float):
                    raise FormatError(f"{value!r} fills no memory")
                return Fill(value, self._buffer(out))
            case "copy":
                source, out = values
                return Copy(self._buffer(source), self._buffer(out))
            case "gemm":
                a, b, c = map(self._buffer, values[:3])
                flags = values[3 + len(_GEMM_SIZES) :]
                read = dict(zip(_GEMM_SIZES, sizes(values[3 : -len(flags)]), strict=True))
                truths = dict(zip(_GEMM_FLAGS, map(truth, flags), strict=True))
                return Gemm(a, b, c, **read, **truths)
            case _:
                raise FormatError(f"{kind!r} is not a step")

    def place(self, row: Json) -> Place:
        """The number of a memory, and a byte of it.

        Raises:
            FormatError: there is no such byte.
        """
        memory, offset = sizes(row)
        if offset > self._sizes[memory]:
            raise FormatError(f"memory {memory} has no byte {offset}")
        return memory, offset

    def _buffer(self, row: Json) -> Buffer:
        space, index, offset, dtype, shape = as_list(row)
        buffer = Buffer(Space(space), size(index), size(offset), sizes(shape), _DTYPES[text(dtype)])
        memory = self._first[buffer.space] + buffer.index
        if buffer.offset + buffer.nbytes > self._sizes[memory]:
            raise FormatError(f"{buffer} is larger than its memory")
        return buffer


def blob(content: bytes, start: int, length: int) -> bytes:
    """So many bytes from a place on.

    Raises:
        FormatError: there are fewer.
    """
    found = content[start:][:length]
    if len(found) != length:
        raise FormatError("its code is truncated")
    return found


def written_constants(constants: Sequence[Array], starts: Sequence[int]) -> Json:
    """What constants are, and where, as JSON."""
    return [
        [constant.dtype.name, constant.shape, start]
        for constant, start in zip(constants, starts, strict=True)
    ]


def constant(row: Json, content: bytes | memoryview, begin: int) -> Array:
    """An array of `content`, where its constants begin at `begin`.

    Raises:
        FormatError: it is not all there.
    """
    dtype, shape, start = as_list(row)
    extents, kind = sizes(shape), _DTYPES[text(dtype)]
    first = begin + size(start)
    if first + prod(extents) * kind.itemsize > len(content):
        raise FormatError("its constants are truncated")
    return np.ndarray(extents, kind, content, first)


def specs(rows: Json, least: int = DYNAMIC_SIZE) -> tuple[TensorSpec, ...]:
    """Shapes, dtypes and names; sizes are `least` or more."""
    return tuple(
        TensorSpec(sizes(shape, least), _DTYPES[text(dtype)], text(name))
        for dtype, shape, name in map(as_list, as_list(rows))
    )


def written_stream(spec: StreamSpec) -> Json:
    """What is known of a stream, as JSON."""
    return [spec.states, spec.sample_rate]


def stream(row: Json) -> StreamSpec:
    """What is known of a stream."""
    states, rate = as_list(row)
    if rate is not None and type(rate) not in (int, float):
        raise FormatError(f"{rate!r} is not a sample rate")
    return StreamSpec(size(states), rate)


def as_list(value: Json) -> list[Json]:
    """`value`, if it is a list."""
    if not isinstance(value, list):
        raise FormatError(f"{value!r} is not a list")
    return cast("list[Json]", value)


def text(value: Json) -> str:
    """`value`, if it is text."""
    if not isinstance(value, str):
        raise FormatError(f"{value!r} is not text")
    return value


def truth(value: Json) -> bool:
    """`value`, if it is true or false."""
    if not isinstance(value, bool):
        raise FormatError(f"{value!r} is neither true nor false")
    return value


def size(value: Json, least: int = 0) -> int:
    """`value`, if it is an integer that is not below `least`."""
    if type(value) is not int or value < least:
        raise FormatError(f"{value!r} is not a size")
    return value


def sizes(value: Json, least: int = 0) -> tuple[int, ...]:
    """`value`, if it is a list of such integers."""
    for each in as_list(value):
        size(each, least)
    return tuple(value)
