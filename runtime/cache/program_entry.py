"""A compiled program as bytes: text that says what there is, and behind it what is not text.

    8 bytes           length of the header, little-endian
    header            JSON, UTF-8
    at multiples      object code or sources, and the constants, unless they lie in bytes of their
    of 64 bytes       own; the header says where, from the first such place on

What a plan's header says, `host_entry` and `cuda_entry` know, which are imported for such plans
alone. A change of the layout changes `VERSION`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from convir.runtime.cache.entry_fields import (
    ALIGNMENT,
    Blobs,
    FormatError,
    as_list,
    specs,
    text,
    written_spec,
)
from convir.runtime.host.plan import HostPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.runtime.cache.entry_fields import Json
    from convir.runtime.cuda.plan import CudaPlan
    from convir.runtime.program import Array, TensorSpec

    Plan: TypeAlias = HostPlan | CudaPlan

VERSION = 8
"""Of the layout."""

_LENGTH_BYTES = 8
_HOST, _CUDA = "plan", "cuda plan"
"""What headers call plans."""
_APART = "constants apart"
"""The field with the key of constants that lie elsewhere."""


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


Entry: TypeAlias = "HostPlan | CudaPlan | Signature | ModelFiles"


def encode(entry: Entry) -> bytes:
    """The bytes of an entry, its constants included."""
    match entry:
        case ModelFiles():
            return _join({"is": "files", "names": entry.names}, b"")
        case Signature():
            ends = (entry.inputs, entry.outputs)
            inputs, outputs = ([*map(written_spec, each)] for each in ends)
            names = {"inputs": inputs, "outputs": outputs, "function": entry.function}
            return _join({"is": "signature", **names}, b"")
        case _:
            codes = _codes(entry)
            blobs = Blobs([*codes, *constants_of(entry)])
            return _join({**_written(entry, blobs.starts), _APART: None}, blobs.content())


def encode_apart(plan: Plan, key: str) -> bytes:
    """The bytes of a plan whose constants are `constant_bytes`, kept elsewhere under `key`."""
    codes = Blobs(_codes(plan))
    starts = codes.starts + Blobs(constants_of(plan)).starts
    return _join({**_written(plan, starts), _APART: key}, codes.content())


def constants_of(plan: Plan) -> tuple[Array, ...]:
    """The arrays that a plan brings along."""
    if isinstance(plan, HostPlan):
        return plan.constants
    return *plan.constants, *plan.packed


def constant_bytes(plan: Plan) -> bytes:
    """The constants of a plan, one behind the other."""
    return Blobs(constants_of(plan)).content()


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
                ends = specs(header["inputs"]), specs(header["outputs"])
                return Signature(*ends, text(header["function"]))
            case "files":
                return ModelFiles(tuple(map(text, as_list(header["names"]))))
            case _:
                return _plan(header, (content, begin), apart)
    except FormatError:
        raise
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise FormatError(f"{type(error).__name__}: {error}") from error


def _codes(plan: Plan) -> list[bytes]:
    """What a plan is compiled to, or from."""
    if isinstance(plan, HostPlan):
        return [code.code for code in plan.codes]
    return [source.encode() for source in plan.sources]


def _written(plan: Plan, starts: list[int]) -> dict[str, Json]:
    if isinstance(plan, HostPlan):
        from convir.runtime.cache import host_entry  # noqa: PLC0415  (brings LLVM along)

        return {"is": _HOST, **host_entry.written(plan, starts)}
    from convir.runtime.cache import cuda_entry  # noqa: PLC0415  (not for the host)

    return {"is": _CUDA, **cuda_entry.written(plan, starts)}


def _plan(
    header: dict[str, Json],
    codes: tuple[bytes, int],
    apart: Callable[[str], bytes | memoryview | None],
) -> Plan:
    key = header[_APART]
    content, begin = codes if key is None else (apart(text(key)), 0)
    if content is None:
        raise FormatError("its constants are no longer there")
    constants = content, begin
    if header["is"] == _HOST:
        from convir.runtime.cache import host_entry  # noqa: PLC0415  (brings LLVM along)

        return host_entry.read(header, codes, constants)
    if header["is"] == _CUDA:
        from convir.runtime.cache import cuda_entry  # noqa: PLC0415  (not for the host)

        return cuda_entry.read(header, codes, constants)
    raise FormatError(f"it is {header['is']!r}")


def _join(header: dict[str, Json], blobs: bytes) -> bytes:
    written = json.dumps({"version": VERSION, **header}, separators=(",", ":")).encode()
    gap = bytes(-(_LENGTH_BYTES + len(written)) % ALIGNMENT)
    return b"".join((len(written).to_bytes(_LENGTH_BYTES, "little"), written, gap, blobs))


def _header(content: bytes) -> tuple[dict[str, Json], int]:
    """The header, and where the bytes behind it begin."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    end = _LENGTH_BYTES + length
    if not 0 < length <= len(content) - _LENGTH_BYTES:
        raise FormatError("it is truncated")
    try:
        read: Json = json.loads(content[_LENGTH_BYTES:end])
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its header is not JSON: {error}") from error
    header = cast("dict[str, Json]", read if isinstance(read, dict) else {})
    if header.get("version") != VERSION:
        raise FormatError(f"it is not of version {VERSION}")
    return header, end + -end % ALIGNMENT
