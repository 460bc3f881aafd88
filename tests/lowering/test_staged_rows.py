"""Rows that a kernel copies first: those that some tap reads, wherever they lie."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.lowering.contraction.spec import Axis, Channels, Contraction, Phase, Weights
from convir.runtime.host.contraction import compile_contraction

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEPTH, COLUMNS = 3, 2
TAPS = 2
"""Of every axis that has any; a filter has room for all of both axes."""


@st.composite
def axes(draw: st.DrawFn, extents: tuple[int, ...], channels_first: bool) -> tuple[Axis, ...]:
    """Two axes on an image of `extents`, whose taps read anywhere in it, or beside it."""
    found: list[Axis] = []
    for place, extent in enumerate(extents):
        dense = extents[1] if place == 0 else 1
        rows = draw(st.lists(st.integers(-4, extent + 3), min_size=1, max_size=TAPS))
        found.append(
            Axis(
                size=SIZES[place],
                extent=extent,
                step=draw(st.integers(1, 3)),
                tap_rows=tuple(rows),
                tap_weights=tuple(
                    number * DEPTH * COLUMNS * (TAPS if place == 0 else 1)
                    for number in range(len(rows))
                ),
                row_stride=dense * (1 if channels_first else DEPTH),
                out_stride=COLUMNS * (SIZES[1] if place == 0 else 1),
            )
        )
    return tuple(found)


SIZES = (3, 5)


@st.composite
def contractions(draw: st.DrawFn) -> tuple[Contraction, int]:
    """A contraction whose image is stored as kernels cannot read it; the image's elements."""
    extents = draw(st.tuples(st.integers(1, 9), st.integers(1, 40)))
    first = draw(st.booleans())
    positions = SIZES[0] * SIZES[1] * COLUMNS
    phases = tuple(
        Phase(draw(axes(extents, first)), out_offset=number * positions)
        for number in range(draw(st.integers(1, 2)))
    )
    elements = extents[0] * extents[1] * DEPTH
    spec = Contraction(
        element="f32",
        phases=phases,
        depth=DEPTH,
        columns=COLUMNS,
        a=Channels("f32", elements // DEPTH) if first else Channels("f16", 1),
        b=Weights("f32", COLUMNS, 1),
        c=Channels("f32", 1),
    )
    return spec, elements


def computed(spec: Contraction, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The contraction, from its definition."""
    c = np.zeros(len(spec.phases) * SIZES[0] * SIZES[1] * COLUMNS, np.float32)
    for phase in spec.phases:
        for place in product(*(range(axis.size) for axis in phase.axes)):
            out = phase.out_offset + sum(
                p * axis.out_stride for p, axis in zip(place, phase.axes, strict=True)
            )
            for taps in product(*(range(len(axis.tap_rows)) for axis in phase.axes)):
                parts = list(zip(place, taps, phase.axes, strict=True))
                reads = [p * axis.step + axis.tap_rows[tap] for p, tap, axis in parts]
                if any(not 0 <= read < x.extent for read, x in zip(reads, phase.axes, strict=True)):
                    continue
                row = sum(r * axis.row_stride for r, axis in zip(reads, phase.axes, strict=True))
                weight = sum(axis.tap_weights[tap] for _, tap, axis in parts)
                elements = a[row : row + spec.a.stride * (DEPTH - 1) + 1 : spec.a.stride]
                matrix = b[weight : weight + DEPTH * COLUMNS].reshape(DEPTH, COLUMNS)
                c[out : out + COLUMNS] += elements.astype(np.float32) @ matrix
    return c


@settings(max_examples=60, deadline=None)
@given(case=contractions(), seed=st.integers(0, 9))
def test_rows_that_are_copied(case: tuple[Contraction, int], seed: int) -> None:
    spec, elements = case
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, elements).astype(np.float16 if spec.a.type == "f16" else np.float32)
    # Taps of both axes share a filter of TAPS x TAPS matrices.
    b = rng.integers(-4, 5, TAPS * TAPS * DEPTH * COLUMNS).astype(np.float32)
    expected = computed(spec, a, b)
    kernel = compile_contraction(spec)
    arrays: dict[str, NDArray[Any]] = {
        "a": a,
        "b": b,
        "c": np.full(expected.size, np.nan, np.float32),
    }
    for name, nbytes in kernel.workspace.items():
        arrays[name] = np.full(nbytes, 0xFF, np.uint8)
    buffers: Any = {name: array.ctypes.data for name, array in arrays.items()}
    kernel.pack(buffers)
    kernel.run(buffers, threads=1)
    np.testing.assert_array_equal(arrays["c"], expected)


def test_only_the_rows_that_are_read_are_copied() -> None:
    """Two samples of eight, and every other row of theirs."""
    samples = Axis(2, 8, 1, (3,), (0,), 40 * 16 * DEPTH, 20 * 16 * COLUMNS)
    rows = Axis(20, 40, 2, (0,), (0,), 16, 16 * COLUMNS)
    pixels = Axis.batch(16, 1, COLUMNS)
    spec = Contraction(
        element="f32",
        phases=(Phase((samples, rows, pixels)),),
        depth=DEPTH,
        columns=COLUMNS,
        a=Channels("f32", 40 * 16),
        b=Weights("f32", COLUMNS, 1),
        c=Channels("f32", 1),
    )
    kernel = compile_contraction(spec)
    assert kernel.workspace["a_copy"] == 2 * 20 * 16 * DEPTH * 4
