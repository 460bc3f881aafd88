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
from dataclasses import dataclass, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from convir.runtime.host.jit import ObjectCode
from convir.runtime.host.plan import HostPlan, KernelLaunch
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

    from convir.runtime.host.plan import Place, Step
    from convir.runtime.program import Array, DType

    Json: TypeAlias = Any

VERSION = 2
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

_BUFFERS = ("a", "b", "c")
"""The fields of a Gemm that are buffers. The others are sizes, and what is annotated as `bool`."""


class FormatError(ValueError):
    """Bytes are no entry of this version."""


@dataclass(frozen=True)
class Signature:
    """A program whose sizes its arguments give: it is compiled once they are known."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


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


def constants_key(content: bytes) -> str | None:
    """The key of the bytes that hold the constants of an entry; None if that holds its own.

    Raises:
        FormatError: `content` is no entry.
    """
    key = _header(content)[0].get("constants apart")
    return None if key is None else _text(key)


def decode(content: bytes, constants: bytes | None = None) -> Entry:
    """The entry of `content`, with its constants in `constants` if they are kept elsewhere.

    Raises:
        FormatError: the bytes are no such entry.
    """
    header, begin = _header(content)
    try:
        match header["is"]:
            case "signature":
                return Signature(_specs(header["inputs"]), _specs(header["outputs"]))
            case "files":
                return ModelFiles(tuple(map(_text, _list(header["names"]))))
            case "plan":
                return _plan(header, content, begin, constants)
            case other:
                raise FormatError(f"it is {other!r}")
    except FormatError:
        raise
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise FormatError(f"{type(error).__name__}: {error}") from error


class _Blobs:
    """Bytes that begin at multiples of `ALIGNMENT`."""

    def __init__(self, blobs: Sequence[bytes | Array]) -> None:
        self._content = bytearray()
        self.starts: list[int] = []
        for blob in blobs:
            self._content += bytes(-len(self._content) % ALIGNMENT)
            self.starts.append(len(self._content))
            self._content += blob if isinstance(blob, bytes) else blob.tobytes()

    def content(self) -> bytes:
        """All of them."""
        return bytes(self._content)


def _join(header: dict[str, Json], blobs: bytes) -> bytes:
    text = json.dumps({"version": VERSION, **header}, separators=(",", ":")).encode()
    gap = bytes(-(_LENGTH_BYTES + len(text)) % ALIGNMENT)
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, gap, blobs))


def _parts(entry: Entry, key: str | None) -> tuple[dict[str, Json], bytes]:
    """The header, and what is no text."""
    if isinstance(entry, ModelFiles):
        return {"is": "files", "names": entry.names}, b""
    ends = {name: [*map(_written_spec, getattr(entry, name))] for name in ("inputs", "outputs")}
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
            values = (getattr(step, field.name) for field in fields(Gemm))
            return ["gemm", *(_written_buffer(x) if isinstance(x, Buffer) else x for x in values)]


def _header(content: bytes) -> tuple[dict[str, Json], int]:
    """The header, and where the bytes behind it begin."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    end = _LENGTH_BYTES + length
    if not 0 < length <= len(content) - _LENGTH_BYTES:
        raise FormatError("it is truncated")
    try:
        header: Json = json.loads(content[_LENGTH_BYTES:end])
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its header is no JSON: {error}") from error
    if not isinstance(header, dict) or header.get("version") != VERSION:
        raise FormatError(f"it is not of version {VERSION}")
    return header, end + -end % ALIGNMENT


def _plan(header: dict[str, Json], content: bytes, begin: int, elsewhere: bytes | None) -> HostPlan:
    inputs, outputs = _specs(header["inputs"], 0), _specs(header["outputs"], 0)
    if header["constants apart"] is None:
        elsewhere, first = content, begin
    elif elsewhere is None:
        raise FormatError("its constants are missing")
    else:
        first = 0
    codes = tuple(_code(row, content, begin) for row in _list(header["codes"]))
    constants = tuple(_constant(row, elsewhere, first) for row in _list(header["constants"]))
    plan = HostPlan(
        inputs,
        outputs,
        _size(header["arena"]),
        constants,
        _sizes(header["states"]),
        _sizes(header["kept"]),
        (),
        codes,
        (),
        _stream(header["stream"]),
    )
    reader = _Steps(plan)
    packings = tuple(reader.launch(row) for row in _list(header["packings"]))
    return replace(plan, packings=packings, steps=tuple(map(reader.step, _list(header["steps"]))))


class _Steps:
    """Reads steps, whose memories are those of a plan."""

    def __init__(self, plan: HostPlan) -> None:
        self._codes = plan.codes
        self._sizes = [
            *(spec.nbytes for spec in (*plan.inputs, *plan.outputs)),
            plan.arena_bytes,
            *(constant.nbytes for constant in plan.constants),
            *plan.state_bytes,
            *plan.kept_bytes,
        ]
        self._first = memory_positions(plan)

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
                read = {
                    field.name: self._buffer(value)
                    if field.name in _BUFFERS
                    else _truth(value)
                    if field.type == "bool"
                    else _size(value)
                    for field, value in zip(fields(Gemm), values, strict=True)
                }
                return Gemm(**read)
            case _:
                raise FormatError(f"{kind!r} is no step")

    def launch(self, row: Json) -> KernelLaunch:
        _, number, entry, items, arguments, alone = _list(row)
        code = self._codes[_size(number)]
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


def _constant(row: Json, content: bytes, begin: int) -> Array:
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


def _stream(row: Json) -> StreamSpec:
    states, rate = _list(row)
    if rate is not None and type(rate) not in (int, float):
        raise FormatError(f"{rate!r} is no sample rate")
    return StreamSpec(_size(states), rate)


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise FormatError(f"{value!r} is no list")
    return value


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
    return tuple(_size(each, least) for each in _list(value))
