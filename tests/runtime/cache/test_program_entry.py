"""Programs as bytes: what was written is read, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np
import pytest

from convir.runtime.cache import program_entry
from convir.runtime.cache.entry_fields import FormatError
from convir.runtime.cache.program_entry import (
    ModelFiles,
    Signature,
    constant_bytes,
    decode,
    encode,
    encode_apart,
)
from convir.runtime.host.jit import ObjectCode
from convir.runtime.host.plan import CHAIN_CODE, HostPlan, KernelLaunch
from convir.runtime.program import (
    BFLOAT16,
    Buffer,
    Copy,
    Fill,
    Gemm,
    Space,
    StreamSpec,
    TensorSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
SPEC = TensorSpec((2, 3), F32)
OUT = Buffer(Space.OUTPUT, 0, 0, (2, 3), F32)
PLAN = HostPlan(
    inputs=(SPEC, TensorSpec((), BFLOAT16)),
    outputs=(SPEC,),
    arena_bytes=256,
    constants=(
        np.arange(6, dtype=np.float64).reshape(2, 3),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.zeros((0, 4), np.bool_),
    ),
    state_bytes=(16,),
    kept_bytes=(64, 0),
    packings=(KernelLaunch(0, "pack", 3, ((7, 0), (8, 0))),),
    codes=(
        ObjectCode("ab", ("pack", "run"), b"code"),
        ObjectCode("cd", ("chain",), bytes(range(200))),
    ),
    steps=(
        Fill(-0.0, OUT),
        Fill(float("inf"), OUT),
        Fill(2**63 - 1, Buffer(Space.ARENA, 0, 8, (4,), np.dtype(np.int64))),
        Copy(OUT, Buffer(Space.ARENA, 0, 232, (2, 3), F32)),
        Gemm(
            Buffer(Space.INPUT, 0, 0, (2, 3), F32),
            Buffer(Space.CONSTANT, 0, 24, (3, 1), F64),
            OUT,
            *(2, 1, 3, 1, 3, 1, 1, 0, 0, 0),
            transpose_a=False,
            transpose_b=True,
            accumulate=False,
            tf32=True,
        ),
        KernelLaunch(0, "run", 0, ((0, 24), (3, 256)), alone=True),
        KernelLaunch(CHAIN_CODE, "chain", 5, ((0, 0), (2, 0))),
    ),
    stream=StreamSpec(1, 48000.0),
    numbers=(-(2**63), 0, 1, 2, 3, 4, 5, 2**63 - 1),
)
ENTRIES = (PLAN, Signature((TensorSpec((-1, 8), F32),), (SPEC,)), ModelFiles(("a.bin", "b")))


def same(a: Any, b: Any) -> None:
    """Equal, arrays by their elements and types."""
    if not isinstance(a, HostPlan):
        assert a == b
        return
    for field in fields(HostPlan):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if field.name != "constants":
            assert repr(left) == repr(right), field.name
            continue
        for x, y in zip(left, right, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
    assert [code.code for code in a.codes] == [code.code for code in b.codes]


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_was_written_is_read(entry: Any) -> None:
    content = encode(entry)
    same(entry, decode(content))


def test_constants_may_lie_elsewhere() -> None:
    content, constants = encode_apart(PLAN, "key"), constant_bytes(PLAN)
    same(PLAN, decode(content, {"key": constants}.get))
    for wrong in (None, b"", constants[:-1]):
        with pytest.raises(FormatError):
            decode(content, {"key": wrong}.get)


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_cut_off_is_refused(entry: Any) -> None:
    content = encode(entry)
    for length in range(len(content)):
        try:
            decode(content[:length])
        except FormatError:
            continue
        assert not content[length:].strip(b"\0")


def with_header(content: bytes, header: Any) -> bytes:
    """Other text before the same bytes."""
    end = 8 + int.from_bytes(content[:8], "little")
    text = json.dumps(header).encode()
    gap = bytes(-(8 + len(text)) % program_entry.ALIGNMENT)
    behind = content[end + -end % program_entry.ALIGNMENT :]
    return len(text).to_bytes(8, "little") + text + gap + behind


def header_of(content: bytes) -> Any:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_other_versions_are_refused() -> None:
    content = encode(PLAN)
    for version in (program_entry.VERSION - 1, program_entry.VERSION + 1, None, "2"):
        with pytest.raises(FormatError, match="version"):
            decode(with_header(content, header_of(content) | {"version": version}))


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a header."""
    if isinstance(value, dict | list):
        items: Any = cast("Any", value)
        for key in list(items) if isinstance(value, dict) else range(len(items)):
            yield (*way, key)
            yield from places(items[key], (*way, key))


WRONG: tuple[Any, ...] = (
    -1,
    1 << 70,
    1.5,
    True,
    None,
    "x",
    [],
    [[]],
    {},
    [-1],
    ["x"],
    [1 << 70],
    float("nan"),
)


@pytest.mark.parametrize("entry", ENTRIES)
def test_whatever_stands_in_a_header_is_an_entry_or_an_error(entry: Any) -> None:
    content = encode(entry)
    text = json.dumps(header_of(content))
    for way in list(places(json.loads(text))):
        for wrong in WRONG:
            header = json.loads(text)
            inside = header
            for key in way[:-1]:
                inside = inside[key]
            inside[way[-1]] = wrong
            try:
                decode(with_header(content, header))
            except FormatError:
                continue


@pytest.mark.parametrize(
    ("way", "wrong"),
    [
        (("arena",), 200),
        (("steps", 5, 4, 0, 1), 25),
        (("steps", 5, 4, 1, 0), 10),
        (("packings", 0, 4, 1, 0), 10),
        (("packings", 0, 1), 2),
        (("packings", 0, 2), "other"),
        (("steps", 3, 2, 2), 240),
        (("steps", 0, 2, 1), 8),
        (("steps", 0, 2, 4), [2, 4]),
        (("steps", 5, 2), "other"),
        (("constants", 0, 2), 1 << 20),
        (("constants", 0, 1), [1 << 20]),
        (("codes", 1, 3), 1 << 20),
    ],
)
def test_memory_is_not_exceeded(way: tuple[Any, ...], wrong: Any) -> None:
    content = encode(PLAN)
    header = inside = header_of(content)
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = wrong
    with pytest.raises(FormatError):
        decode(with_header(content, header))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(8),
        b"\xff" * 64,
        (4).to_bytes(8, "little") + b"null",
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"\xff{}",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(FormatError):
        decode(content)


def test_nothing_that_runs_code_reads_files() -> None:
    root = Path(__file__).parents[3]
    folders = (
        "analysis",
        "api",
        "cli",
        "dialects",
        "frontends",
        "lowering",
        "passes",
        "reference",
        "runtime",
    )
    readers = (
        "import pickle",
        "from pickle",
        "import marshal",
        "import shelve",
        "allow_pickle=True",
    )
    found = [
        path
        for folder in folders
        for path in (root / folder).rglob("*.py")
        if any(reader in path.read_text(encoding="utf-8") for reader in readers)
    ]
    assert found == []
