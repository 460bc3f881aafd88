"""A compiled program as bytes: text that says what there is, and behind it what is no text.

    8 bytes           length of the header, little-endian
    header            JSON, UTF-8
    at multiples      object code, and the constants, unless they lie in bytes of their own;
    of 64 bytes       the header says where, from the first such place on

Reading only reads: nothing in the bytes names code of ours, and whatever does not fit, an offset
outside of its memory too, is a `FormatError`. A change of the layout changes `VERSION`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from convir.runtime.host.jit import ObjectCode
from convir.runtime.host.plan import CHAIN_CODE, HostPlan, KernelLaunch
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
    from collections.abc import Callable, Sequence

    from convir.runtime.host.plan import Place, Step
    from convir.runtime.program import Array, DType

    Json: TypeAlias = Any

VERSION = 4
"""Of the layout."""

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

_LENGTH_BYTES = 8

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


@dataclass(frozen=True)
class Signature:
    """A program whose sizes its arguments give: it is compiled once they are known."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    function: str = "main"
    """Its name."""


@dataclass(frozen=True)
class ModelFiles:
    """The files that a model names beside its own."""

    names: tuple[str, ...]


Entry: TypeAlias = "HostPlan | Signature | ModelFiles"


def encode(entry: Entry) -> bytes:
    """The bytes of an entry, its constants included."""
    return _join(*_parts(entry, None))


def encode_apart(plan: HostPlan, key: str) -> bytes:
    """The bytes of a plan whose constants are `constant_bytes`, kept elsewhere under `key`."""
    return _join(*_parts(plan, key))


def constant_bytes(plan: HostPlan) -> bytes:
    """The constants of a plan, one behind the other."""
    return _Blobs(plan.constants).content()


def decode(
    content: bytes, apart: Callable[[str], bytes | memoryview | None] = lambda _: None
) -> Entry:
    """The entry of `content`; `apart` gives what is kept under a key, if constants lie elsewhere.

    Raises:
        FormatError: the bytes are no entry, or its constants are missing.
    """
    header, begin = _header(content)
    try:
        match header["is"]:
            case "signature":
                ends = _specs(header["inputs"]), _specs(header["outputs"])
                return Signature(*ends, _text(header["function"]))
            case "files":
                return ModelFiles(tuple(map(_text, _list(header["names"]))))
            case "plan":
                return _plan(header, content, begin, apart)
            case other:
                raise FormatError(f"it is {other!r}")
    except FormatError:
        raise
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise FormatError(f"{type(error).__name__}: {error}") from error


class _Blobs:
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


def _join(header: dict[str, Json], blobs: bytes) -> bytes:
    text = json.dumps({"version": VERSION, **header}, separators=(",", ":")).encode()
    gap = bytes(-(_LENGTH_BYTES + len(text)) % ALIGNMENT)
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, gap, blobs))


def _parts(entry: Entry, key: str | None) -> tuple[dict[str, Json], bytes]:
    """The header, and what is no text."""
    if isinstance(entry, ModelFiles):
        return {"is": "files", "names": entry.names}, b""
    specs = {name: [*map(_written_spec, getattr(entry, name))] for name in ("inputs", "outputs")}
    ends = {**specs, "function": entry.function}
    if isinstance(entry, Signature):
        return {"is": "signature", **ends}, b""
    codes = [code.code for code in entry.codes]
    blobs = _Blobs([*codes, *(() if key is not None else entry.constants)])
    starts = blobs.starts if key is None else blobs.starts + _Blobs(entry.constants).starts
    header = {
        "is": "plan",
        **ends,
        "arena": entry.arena_bytes,
        "states": entry.state_bytes,
        "kept": entry.kept_bytes,
        "numbers": entry.numbers,
        "codes": [
            [code.key, code.exports, start, len(code.code)]
            for code, start in zip(entry.codes, starts, strict=False)
        ],
        "constants": [
            [constant.dtype.name, constant.shape, start]
            for constant, start in zip(entry.constants, starts[len(codes) :], strict=True)
        ],
        "constants apart": key,
        "packings": [*map(_written_step, entry.packings)],
        "steps": [*map(_written_step, entry.steps)],
        "stream": [entry.stream.states, entry.stream.sample_rate],
    }
    return header, blobs.content()


def _written_spec(spec: TensorSpec) -> Json:
    return [spec.dtype.name, spec.shape]


def _written_buffer(buffer: Buffer) -> Json:
    return [buffer.space.value, buffer.index, buffer.offset, buffer.dtype.name, buffer.shape]


def _written_step(step: Step) -> Json:
    match step:
        case KernelLaunch():
            return ["launch", step.code, step.entry, step.items, step.arguments, step.alone]
        case Fill():
            return ["fill", step.value, _written_buffer(step.out)]
        case Copy():
            return ["copy", _written_buffer(step.source), _written_buffer(step.out)]
        case Gemm():
            buffers = map(_written_buffer, (step.a, step.b, step.c))
            others = (getattr(step, name) for name in (*_GEMM_SIZES, *_GEMM_FLAGS))
            return ["gemm", *buffers, *others]


def _header(content: bytes) -> tuple[dict[str, Json], int]:
    """The header, and where the bytes behind it begin."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    end = _LENGTH_BYTES + length
    if not 0 < length <= len(content) - _LENGTH_BYTES:
        raise FormatError("it is truncated")
    try:
        read: Json = json.loads(content[_LENGTH_BYTES:end])
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its header is no JSON: {error}") from error
    header = cast("dict[str, Json]", read if isinstance(read, dict) else {})
    if header.get("version") != VERSION:
        raise FormatError(f"it is not of version {VERSION}")
    return header, end + -end % ALIGNMENT


def _plan(
    header: dict[str, Json],
    content: bytes,
    begin: int,
    apart: Callable[[str], bytes | memoryview | None],
) -> HostPlan:
    key = header["constants apart"]
    elsewhere, first = (content, begin) if key is None else (apart(_text(key)), 0)
    if elsewhere is None:
        raise FormatError("its constants are no longer there")
    memories = _Memories(
        _specs(header["inputs"], 0),
        _specs(header["outputs"], 0),
        _size(header["arena"]),
        tuple([_constant(row, elsewhere, first) for row in _list(header["constants"])]),
        _sizes(header["states"]),
        _sizes(header["kept"]),
    )
    codes = tuple([_code(row, content, begin) for row in _list(header["codes"])])
    reader = _Steps(memories, codes)
    return HostPlan(
        *vars(memories).values(),
        packings=tuple(map(reader.launch, _list(header["packings"]))),
        codes=codes,
        steps=tuple(map(reader.step, _list(header["steps"]))),
        stream=_stream(header["stream"]),
        function=_text(header["function"]),
        numbers=_numbers(header["numbers"], memories.kept_bytes),
    )


@dataclass(frozen=True)
class _Memories:
    """The first fields of a plan."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    arena_bytes: int
    constants: tuple[Array, ...]
    state_bytes: tuple[int, ...]
    kept_bytes: tuple[int, ...]


class _Steps:
    """Reads the steps of a plan."""

    def __init__(self, memories: _Memories, codes: Sequence[ObjectCode]) -> None:
        self._codes = codes
        self._sizes = [
            *(spec.nbytes for spec in (*memories.inputs, *memories.outputs)),
            memories.arena_bytes,
            *(constant.nbytes for constant in memories.constants),
            *memories.state_bytes,
            *memories.kept_bytes,
        ]
        self._first = memory_positions(memories)

    def step(self, row: Json) -> Step:
        kind, *values = _list(row)
        match kind:
            case "launch":
                return self.launch(row)
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
                sizes = dict(zip(_GEMM_SIZES, _sizes(values[3 : -len(flags)]), strict=True))
                truths = dict(zip(_GEMM_FLAGS, map(_truth, flags), strict=True))
                return Gemm(a, b, c, **sizes, **truths)
            case _:
                raise FormatError(f"{kind!r} is no step")

    def launch(self, row: Json) -> KernelLaunch:
        _, number, entry, items, arguments, alone = _list(row)
        code = self._codes[_size(number, CHAIN_CODE)]
        if entry not in code.exports:
            raise FormatError(f"no code exports {entry!r}")
        places = tuple(map(self._place, _list(arguments)))
        return KernelLaunch(number, entry, _size(items), places, _truth(alone))

    def _place(self, row: Json) -> Place:
        memory, offset = _sizes(row)
        if offset > self._sizes[memory]:
            raise FormatError(f"memory {memory} has no byte {offset}")
        return memory, offset

    def _buffer(self, row: Json) -> Buffer:
        space, index, offset, dtype, shape = _list(row)
        buffer = Buffer(
            Space(space), _size(index), _size(offset), _sizes(shape), _DTYPES[_text(dtype)]
        )
        memory = self._first[buffer.space] + buffer.index
        if buffer.offset + buffer.nbytes > self._sizes[memory]:
            raise FormatError(f"{buffer} is larger than its memory")
        return buffer


def _code(row: Json, content: bytes, begin: int) -> ObjectCode:
    key, exports, start, length = _list(row)
    code = content[begin + _size(start) :][: _size(length)]
    if len(code) != length:
        raise FormatError("its code is truncated")
    return ObjectCode(_text(key), tuple(map(_text, _list(exports))), code)


def _constant(row: Json, content: bytes | memoryview, begin: int) -> Array:
    dtype, shape, start = _list(row)
    sizes, kind = _sizes(shape), _DTYPES[_text(dtype)]
    first = begin + _size(start)
    if first + prod(sizes) * kind.itemsize > len(content):
        raise FormatError("its constants are truncated")
    return np.ndarray(sizes, kind, content, first)


def _specs(rows: Json, least: int = DYNAMIC_SIZE) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(_sizes(shape, least), _DTYPES[_text(dtype)])
        for dtype, shape in map(_list, _list(rows))
    )


def _numbers(row: Json, kept: Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(_list(row))
    if any(type(number) is not int for number in numbers):
        raise FormatError(f"{row!r} is no list of numbers")
    if numbers and kept[0] != np.array(numbers, np.int64).nbytes:
        raise FormatError("its numbers are not those of its memory")
    return numbers


def _stream(row: Json) -> StreamSpec:
    states, rate = _list(row)
    if rate is not None and type(rate) not in (int, float):
        raise FormatError(f"{rate!r} is no sample rate")
    return StreamSpec(_size(states), rate)


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise FormatError(f"{value!r} is no list")
    return cast("list[Json]", value)


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{value!r} is no text")
    return value


def _truth(value: Json) -> bool:
    if not isinstance(value, bool):
        raise FormatError(f"{value!r} is neither true nor false")
    return value


def _size(value: Json, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise FormatError(f"{value!r} is no size")
    return value


def _sizes(value: Json, least: int = 0) -> tuple[int, ...]:
    for each in _list(value):
        _size(each, least)
    return tuple(value)
