"""Contraction kernels against NumPy: exact on small integers, over results poisoned with NaN."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.windows import Window
from convir.lowering.llvm.contraction.convolution import (
    ConvSizes,
    FilterStrides,
    dgrad,
    fprop,
    wgrad,
)
from convir.lowering.llvm.contraction.spec import Axis, HostContraction, Phase
from convir.lowering.llvm.target import target
from convir.runtime.host.contraction import compile_contraction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convir.lowering.llvm.contraction.spec import FloatType
    from convir.runtime.host.contraction import Buffer

DIRECTIONS = ("fprop", "dgrad", "wgrad")
TARGETS = ("x86-64", "x86-64-v3", "host")
LAYOUTS = {1: ("KSC", "KCS", "SCK"), 2: ("KRSC", "KCRS", "RSCK"), 3: ("KTRSC", "KCTRS", "TRSCK")}
DTYPES: dict[FloatType, type[Any]] = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class Case:
    """A convolution to run."""

    n: int
    c: int
    k: int
    inputs: tuple[int, ...]
    windows: tuple[Window, ...]
    groups: int = 1
    filter_order: int = 0
    element: FloatType = "f32"
    accumulate: bool = False

    @property
    def sizes(self) -> ConvSizes:
        outputs = tuple(
            w.output_size(size) for w, size in zip(self.windows, self.inputs, strict=True)
        )
        return ConvSizes(self.n, self.c, self.k, self.inputs, outputs, self.windows, self.groups)

    @property
    def filter_layout(self) -> str:
        return LAYOUTS[len(self.inputs)][self.filter_order]


def window(taps: int, stride: int = 1, pad: int = 0, dilation: int = 1, high: int | None = None):
    return Window(taps, stride, dilation, pad, pad if high is None else high)


def operands(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, Y and W (as K, taps…, C) of small integers."""
    rng = np.random.default_rng(7)
    dtype = DTYPES[case.element]
    shapes = (
        (case.n, *case.inputs, case.c),
        (case.n, *case.sizes.outputs, case.k),
        (case.k, *(w.taps for w in case.windows), case.c // case.groups),
    )
    x, y, w = (rng.integers(-4, 5, shape).astype(dtype) for shape in shapes)
    return x, y, w


def tap_slices(
    case: Case,
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """For every tap: the inputs and the outputs that meet through it."""
    for tap in product(*(range(w.taps) for w in case.windows)):
        ins: list[slice] = []
        outs: list[slice] = []
        for w, t, size, out in zip(case.windows, tap, case.inputs, case.sizes.outputs, strict=True):
            meeting = w.outputs_of_tap(t, size, out)
            first = w.reads(meeting.start, t)
            ins.append(
                slice(first, first + len(meeting) * w.stride, w.stride) if meeting else slice(0)
            )
            outs.append(slice(meeting.start, meeting.stop) if meeting else slice(0))
        yield tap, tuple(ins), tuple(outs)


def reference(case: Case, kind: str, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The result of direction `kind` from the other two operands, one tap at a time."""
    g = case.groups
    xs = x.reshape(*x.shape[:-1], g, -1).copy()
    ys = y.reshape(*y.shape[:-1], g, -1).copy()
    ws = w.reshape(g, case.k // g, *w.shape[1:]).copy()
    result = {"fprop": ys, "dgrad": xs, "wgrad": ws}[kind]
    if not case.accumulate:
        result[...] = 0
    for tap, ins, outs in tap_slices(case):
        weight = ws[(slice(None), slice(None), *tap)]
        image, gradient = xs[(slice(None), *ins)], ys[(slice(None), *outs)]
        if kind == "fprop":
            gradient += np.einsum("...gc,gkc->...gk", image, weight)
        elif kind == "dgrad":
            image += np.einsum("...gk,gkc->...gc", gradient, weight)
        else:
            pixels = [array.reshape(-1, *array.shape[-2:]) for array in (image, gradient)]
            weight += np.einsum("xgc,xgk->gkc", *pixels)
    shape = {"fprop": y, "dgrad": x, "wgrad": w}[kind].shape
    return result.reshape(shape)


def in_layout(w: np.ndarray, layout: str) -> np.ndarray:
    """W from `K, taps…, C` to `layout`."""
    letters = "K" + "".join(letter for letter in "TRS" if letter in layout) + "C"
    return np.ascontiguousarray(w.transpose([letters.index(letter) for letter in layout]))


def run(case: Case, kind: str, cpu: str, threads: int = 1) -> None:
    """Run the kernel of `case` and compare."""
    x, y, w = operands(case)
    expected = reference(case, kind, x, y, w)
    layout = case.filter_layout
    strides = FilterStrides.of(
        layout, case.k, case.c // case.groups, [window.taps for window in case.windows]
    )
    make = {"fprop": fprop, "dgrad": dgrad, "wgrad": wgrad}[kind]
    spec = make(case.sizes, strides, case.element, accumulate=case.accumulate)
    kernel = compile_contraction(spec, target(cpu))
    stored = in_layout(w, layout)
    a, c = (y, x) if kind == "dgrad" else (x, y)
    result = stored if kind == "wgrad" else c
    if not case.accumulate:
        result[...] = np.nan
    packed = np.full(kernel.packed_bytes, 0xFF, np.uint8)
    parts = np.full(kernel.parts_bytes, 0xFF, np.uint8)
    kernel.pack(stored.ctypes.data, packed.ctypes.data, threads)
    buffers: dict[Buffer, np.ndarray] = {
        "a": a, "b": stored, "c": c, "packed": packed, "parts": parts,
    }  # fmt: skip
    kernel.run({name: array.ctypes.data for name, array in buffers.items()}, threads)
    if kind == "wgrad":
        expected = in_layout(expected, layout)
    np.testing.assert_array_equal(result, expected)


CASES = {
    "pointwise": Case(2, 32, 48, (5, 6), (window(1), window(1))),
    "pointwise strided": Case(2, 40, 24, (7, 9), (window(1, 2), window(1, 3))),
    "three by three": Case(2, 24, 70, (9, 11), (window(3, 1, 1), window(3, 1, 1))),
    "strided": Case(1, 16, 33, (14, 15), (window(3, 2, 1), window(3, 2, 1))),
    "even filter": Case(1, 5, 17, (8, 10), (window(4, 2, 1), window(4, 2, 1))),
    "one channel": Case(1, 1, 1, (4, 5), (window(2), window(3))),
    "one position": Case(1, 3, 2, (1, 1), (window(1), window(1))),
    "padding as wide as the filter": Case(1, 3, 4, (3, 4), (window(3, 2, 3), window(3, 1, 4))),
    "asymmetric padding": Case(2, 6, 5, (8, 7), (window(3, 2, 0, high=1), window(2, 1, 1, high=0))),
    "dilated": Case(1, 8, 9, (13, 12), (window(3, 1, 2, 2), window(3, 2, 3, 3))),
    "filter smaller than stride": Case(2, 7, 6, (9, 10), (window(2, 3), window(1, 4))),
    "depthwise": Case(2, 12, 12, (6, 7), (window(3, 2, 1), window(3, 1, 1)), groups=12),
    "groups": Case(1, 24, 40, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=4),
    "one dimension": Case(2, 20, 36, (50,), (window(16, 8, 4),)),
    "three dimensions": Case(1, 4, 6, (5, 6, 7), (window(3, 2, 1), window(2, 1, 1), window(1, 2))),
    "deep": Case(1, 700, 130, (3, 5), (window(3, 1, 1), window(3, 1, 1))),
    "wide": Case(1, 3, 300, (4, 4), (window(2), window(2))),
    "sixty-four bits": Case(1, 9, 21, (6, 5), (window(3, 2, 1), window(3, 1, 1)), element="f64"),
    "accumulating": Case(1, 9, 21, (6, 5), (window(3, 2, 1), window(1, 2)), accumulate=True),
}


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, kind: str, cpu: str):
    run(CASES[name], kind, cpu)


@pytest.mark.parametrize("filter_order", range(3))
@pytest.mark.parametrize("kind", DIRECTIONS)
def test_filter_layouts(filter_order: int, kind: str):
    windows = (window(3, 2, 1), window(2, 1, 1))
    run(Case(1, 18, 37, (7, 6), windows, filter_order=filter_order), kind, "host")


@pytest.mark.parametrize("kind", DIRECTIONS)
def test_threads(kind: str):
    windows = (window(3, 2, 1), window(3, 2, 1))
    run(Case(4, 32, 96, (28, 30), windows), kind, "host", threads=4)


def windows(size: int) -> st.SearchStrategy[Window]:
    """Windows that fit an input of `size` at least once."""
    return st.builds(
        window,
        taps=st.integers(1, 4),
        stride=st.integers(1, 3),
        pad=st.integers(0, 4),
        dilation=st.integers(1, 2),
        high=st.integers(0, 3),
    ).filter(lambda w: w.padded(size) >= w.extent)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    inputs = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    groups = draw(st.integers(1, 3))
    return Case(
        n=draw(st.integers(1, 3)),
        c=groups * draw(st.integers(1, 20)),
        k=groups * draw(st.integers(1, 40)),
        inputs=inputs,
        windows=tuple(draw(windows(size)) for size in inputs),
        groups=groups,
        filter_order=draw(st.integers(0, 2)),
        element=draw(st.sampled_from(["f32", "f64"])),
        accumulate=draw(st.booleans()),
    )


@settings(max_examples=60, deadline=None)
@given(case=cases(), kind=st.sampled_from(DIRECTIONS), cpu=st.sampled_from(TARGETS))
def test_any_convolution(case: Case, kind: str, cpu: str):
    run(case, kind, cpu)


def test_gradient_multiplies_no_zeros():
    case = Case(2, 64, 64, (28, 28), (window(3, 2, 1), window(3, 2, 1)))
    strides = FilterStrides.of("KRSC", 64, 64, (3, 3))
    spec = dgrad(case.sizes, strides, "f32")
    # Every gradient meets every tap once, but for those that would fall outside.
    assert [phase.taps for phase in spec.phases] == [4, 2, 2, 1]
    assert spec.flops == 2 * 2 * 14 * 14 * 9 * 64 * 64


def test_too_many_taps_are_refused():
    axis = Axis(4, 99999, 1, tuple(range(70000)), tuple(range(70000)), 8, 8)
    spec = HostContraction("f32", (Phase((axis,)),), 8, 8, 8, 1)
    with pytest.raises(ValueError, match="taps"):
        compile_contraction(spec)


def test_sizes_are_checked():
    axis = Axis.batch(4, 8, 8)
    with pytest.raises(ValueError, match="at least 1"):
        HostContraction("f32", (Phase((axis,)),), 0, 8, 8, 1)
    with pytest.raises(ValueError, match="phase"):
        HostContraction("f32", (), 8, 8, 8, 1)
    with pytest.raises(ValueError, match="axes"):
        HostContraction("f32", (Phase((axis,)), Phase((axis, axis))), 8, 8, 8, 1)
    with pytest.raises(ValueError, match="weight"):
        HostContraction("f32", (Phase((Axis(4, 4, 1, (0, 1), (0,), 8, 8),)),), 8, 8, 8, 1)
