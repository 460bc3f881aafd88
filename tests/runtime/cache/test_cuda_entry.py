"""Plans for a GPU as bytes: what was written is read, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from convir.lowering.kernels.cuda.launch import CudaKernel, Im2colMap, Pointer, TensorMap
from convir.runtime.cache.cuda_entry import read, written
from convir.runtime.cache.entry_fields import FormatError
from convir.runtime.cache.program_entry import constant_bytes, decode, encode, encode_apart
from convir.runtime.cuda.plan import Cubin, CudaPlan, PlannedLaunch
from convir.runtime.program import Buffer, Copy, Fill, Space, StreamSpec, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fast

F32 = np.dtype(np.float32)
SPEC = TensorSpec((64,), F32)
IN, OUT, KEPT = Pointer("input"), Pointer("output"), Pointer("state")
ARENA = Buffer(Space.ARENA, 0, 256, (64,), F32)
MAPS = (
    TensorMap(IN, "f16", (64, 64), (128,), (64, 64), 128, offset=16, promotion=128),
    Im2colMap(OUT, "f32", (8, 5, 2), (16, 80), (-1,), (3,), (1,), 8, 32, is_tf32=True),
)
FIRST = CudaKernel("// one", "a", (1, 2, 3), (32, 1, 1), 1024, (KEPT, *MAPS), is_cooperative=True)
SECOND = CudaKernel("// ∑", "b", (1, 1, 1), (64, 1, 1), 0, (IN,), is_dependent=True, spill_bytes=8)
PLAN = CudaPlan(
    "main",
    (SPEC,),
    (SPEC,),
    512,
    512,
    (),
    (16,),
    (),
    (
        Fill(0.0, ARENA),
        Copy(Buffer(Space.INPUT, 0, 0, (64,), F32), ARENA),
        PlannedLaunch((FIRST, SECOND), {IN: (2, 256), OUT: (1, 0), KEPT: (3, 0)}, 2),
        PlannedLaunch((SECOND,), {IN: (0, 256)}),
    ),
    StreamSpec(1, 48000.0),
    ("fill", "copy", "a", "b"),
    {"// one": Cubin("ab12"), "// ∑": Cubin("cd34")},
)
ARRAYS = replace(
    PLAN, constants=(np.arange(6, dtype=np.float64),), packed=(np.ones(2, np.float32),)
)


def opened(header: dict[str, Any]) -> CudaPlan:
    """The plan of a header, with the sources of `PLAN`."""
    content = b"".join(source.encode() for source in PLAN.sources)
    return read(header, (content, 0), (b"", 0))


def header() -> dict[str, Any]:
    import json  # noqa: PLC0415  (as a file has it)

    starts = [0, len(PLAN.sources[0].encode())]
    return json.loads(json.dumps(written(PLAN, starts)))


def test_what_was_written_is_read() -> None:
    assert decode(encode(PLAN)) == PLAN
    assert opened(header()) == PLAN


def test_codes_are_not_written_with_a_program() -> None:
    at_hand = {source: replace(each, content=b"code") for source, each in PLAN.cubins.items()}
    assert decode(encode(replace(PLAN, cubins=at_hand))) == PLAN


def test_constants_and_packed_weights() -> None:
    content, constants = encode_apart(ARRAYS, "key"), constant_bytes(ARRAYS)
    for found in (decode(encode(ARRAYS)), decode(content, {"key": constants}.get)):
        assert isinstance(found, CudaPlan)
        np.testing.assert_array_equal(found.constants[0], ARRAYS.constants[0])
        np.testing.assert_array_equal(found.packed[0], ARRAYS.packed[0])
    with pytest.raises(FormatError):
        decode(content)


def test_what_is_cut_off_is_refused() -> None:
    content = encode(PLAN)
    for length in range(len(content)):
        with pytest.raises(FormatError):
            decode(content[:length])


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a header."""
    if isinstance(value, dict | list):
        items: Any = cast("Any", value)
        for key in list(items) if isinstance(value, dict) else range(len(items)):
            yield (*way, key)
            yield from ways(items[key], (*way, key))


@pytest.mark.parametrize(
    "wrong", [-1, 1 << 70, 1.5, True, None, "x", "../x", [], [[]], {}, [-1], ["x"], float("nan")]
)
def test_whatever_stands_in_a_header_is_a_plan_or_an_error(wrong: Any) -> None:
    for way in ways(header()):
        changed = inside = header()
        for key in way[:-1]:
            inside = inside[key]
        inside[way[-1]] = wrong
        try:
            opened(changed)
        except (FormatError, KeyError, TypeError, ValueError, IndexError, OverflowError):
            continue


@pytest.mark.parametrize(
    ("way", "wrong"),
    [
        (("sources", 0, 0), "../../etc"),
        (("sources", 0, 0), ""),
        (("sources", 1, 2), 1 << 20),
        (("steps", 2, 1, 0, 0), 2),
        (("steps", 2, 1, 0, 2), [0, 1, 1]),
        (("steps", 2, 1, 0, 3), [32, 1]),
        (("steps", 2, 1, 0, 5, 0, 0), "Path"),
        (("steps", 2, 1, 0, 5, 0, 1), "elsewhere"),
        (("steps", 2, 1, 0, 5, 0, 2), 1),
        (("steps", 2, 1, 0, 5, 1, 2), "f8"),
        (("steps", 2, 1, 0, 5, 1, 6), 48),
        (("steps", 2, 2, 0, 1, 1), 513),
        (("steps", 2, 2, 0, 1, 0), 9),
        (("steps", 0, 2, 2), 512),
        (("states",), []),
    ],
)
def test_what_is_no_plan(way: tuple[Any, ...], wrong: Any) -> None:
    changed = inside = header()
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = wrong
    with pytest.raises((FormatError, IndexError, KeyError, ValueError)):
        opened(changed)
