"""Contraction kernels against NumPy: exact on small integers, over results poisoned with NaN."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from host_contractions import (
    BFLOAT,
    DIRECTIONS,
    DOUBLE,
    SINGLE,
    TARGETS,
    Case,
    Types,
    run,
    window,
)
from host_kernels import kernel_of
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.lowering.bodies.contraction.spec import (
    Axis,
    Channels,
    Contraction,
    Phase,
    StorageType,
    Weights,
)
from convir.lowering.kernels.host.direct_depthwise.kernel import PlaneKernel
from convir.lowering.kernels.host.registry import plan_contraction
from convir.lowering.kernels.host.target import target
from convir.lowering.kernels.host.wgrad import blocking as weight_blocking
from convir.lowering.kernels.host.wgrad.kernel import WeightKernel
from convir.runtime.host.contraction import compile_contraction

if TYPE_CHECKING:
    from convir.dialects.conv.windows import Window

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
    "more holes than depths": Case(2, 48, 2, (9, 11), (window(1, 4), window(2, 3))),
    "holes in two panels": Case(1, 112, 40, (13, 14), (window(1, 2), window(1, 2))),
    "holes of several phases": Case(1, 20, 9, (11, 13), (window(2, 3), window(2, 4))),
    "holes of sums in several blocks": Case(1, 64, 256, (8, 5), (window(4), window(1, 2))),
    "holes of few channels": Case(2, 9, 500, (9, 7), (window(3, 2), window(4, 5))),
    "fewer sums than holes": Case(3, 16, 16, (2, 3), (window(1, 2), window(1, 5))),
    "filter in place": Case(2, 48, 64, (7, 5), (window(1), window(1)), orders=(0, 2, 0)),
    "filter of groups in place": Case(1, 64, 96, (5, 6), (window(1, 2), window(1)), groups=2),
    "depthwise": Case(2, 12, 12, (6, 7), (window(3, 2, 1), window(3, 1, 1)), groups=12),
    "groups": Case(1, 24, 40, (6, 7), (window(3, 1, 1), window(3, 2, 1)), groups=4),
    "depthwise with many channels": Case(2, 70, 70, (9, 8), (window(3, 1, 1), window(3, 2, 1)), 70),
    "depthwise with a multiplier": Case(1, 20, 40, (7, 6), (window(3, 1, 1), window(3)), groups=20),
    "narrow groups": Case(1, 128, 128, (9, 10), (window(3, 2, 1), window(3, 1, 1)), groups=32),
    "groups of five": Case(1, 45, 45, (5, 6), (window(3, 1, 1), window(2)), groups=9),
    "groups that narrow": Case(1, 96, 24, (5, 6), (window(3, 1, 1), window(2)), groups=12),
    "one dimension": Case(2, 20, 36, (50,), (window(16, 8, 4),)),
    "three dimensions": Case(1, 4, 6, (5, 6, 7), (window(3, 2, 1), window(2, 1, 1), window(1, 2))),
    "deep": Case(1, 700, 130, (3, 5), (window(3, 1, 1), window(3, 1, 1))),
    "few positions": Case(1, 64, 112, (7, 7), (window(3, 1, 1), window(3, 1, 1))),
    "few positions, wide": Case(1, 64, 330, (7, 7), (window(3, 1, 1), window(3, 1, 1))),
    "wide": Case(1, 3, 300, (4, 4), (window(2), window(2))),
    "sixty-four bits": Case(
        1, 9, 21, (6, 5), (window(3, 2, 1), window(3, 1, 1)), types=("f64", "f64", "f64")
    ),
    "accumulating": Case(1, 9, 21, (6, 5), (window(3, 2, 1), window(1, 2)), accumulate=True),
}


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, kind: str, cpu: str):
    run(CASES[name], kind, cpu)


@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 1, 1), (0, 2, 1)])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.types == SINGLE])
def test_cases_in_bf16(name: str, orders: tuple[int, int, int], kind: str):
    run(replace(CASES[name], types=BFLOAT, orders=orders), kind, "host")


PAIRED = {
    "odd numbers of pixels": Case(1, 70, 37, (3, 5), (window(3, 1, 1), window(3, 1, 1))),
    "one pixel": Case(1, 64, 48, (1, 1), (window(1), window(1))),
    "fewer rows than lanes": Case(2, 12, 96, (5, 7), (window(3, 2, 1), window(2))),
    "rows that are no vectors": Case(2, 45, 33, (9, 8), (window(3, 2, 1), window(4, 1, 2))),
    "pad as wide as the filter": Case(1, 40, 40, (4, 4), (window(3, 2, 3), window(3, 1, 4))),
    "several parts of rows": Case(1, 900, 80, (4, 5), (window(1), window(3, 1, 1))),
    "groups": Case(1, 160, 96, (6, 5), (window(3, 1, 1), window(1, 2)), groups=2),
    "one dimension": Case(3, 48, 64, (77,), (window(7, 3, 3),)),
    "three dimensions": Case(1, 32, 36, (3, 4, 5), (window(3, 1, 1), window(2), window(1, 2))),
    "accumulating": Case(1, 64, 50, (5, 6), (window(3, 1, 1), window(1)), accumulate=True),
}


@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 1, 1), (2, 2, 0)])
@pytest.mark.parametrize("name", PAIRED)
def test_pairs_of_pixels(name: str, orders: tuple[int, int, int], kind: str):
    run(replace(PAIRED[name], types=BFLOAT, orders=orders), kind, "host", threads=2)


FIRST = (1, 1, 1)
"""Channels first: every channel is a plane."""

PLANES = {
    "three by three": Case(2, 3, 3, (9, 37), (window(3, 1, 1), window(3, 1, 1)), 3, FIRST),
    "every other pixel": Case(1, 4, 4, (17, 70), (window(3, 2, 1), window(3, 2, 1)), 4, FIRST),
    "odd column first": Case(1, 2, 2, (8, 66), (window(2, 2), window(4, 2, 1)), 2, FIRST),
    "pointwise strided": Case(2, 3, 3, (7, 40), (window(1, 3), window(1, 2)), 3, FIRST),
    "wider rows than a block": Case(
        1, 2, 2, (60, 300), (window(5, 1, 2), window(5, 1, 2)), 2, FIRST
    ),
    "seven by seven": Case(1, 2, 2, (10, 53), (window(7, 1, 3), window(7, 1, 3)), 2, FIRST),
    "last block with fewer rows": Case(
        1, 2, 2, (63, 300), (window(7, 2, 3), window(3, 2, 1)), 2, FIRST
    ),
    "one channel": Case(2, 1, 33, (9, 40), (window(5, 1, 2), window(5, 1, 2)), 1, FIRST),
    "most results a channel": Case(1, 2, 128, (5, 36), (window(3, 2, 1), window(2)), 2, FIRST),
    "rows of one tap": Case(1, 2, 2, (9, 50), (window(1), window(5, 1, 2)), 2, FIRST),
    "padding as wide as the filter": Case(
        1, 3, 3, (5, 33), (window(3, 1, 3), window(2, 1, 2, high=4)), 3, FIRST
    ),
    "dilated": Case(1, 3, 3, (11, 40), (window(3, 1, 2, 2), window(3, 2, 4, 3)), 3, FIRST),
    "few rows, steps of three": Case(1, 2, 2, (4, 20), (window(2, 3), window(3, 1, 1)), 2, FIRST),
    "two results a channel": Case(2, 3, 6, (6, 18), (window(3, 1, 1), window(3, 1, 1)), 3, FIRST),
    "one dimension": Case(3, 4, 4, (90,), (window(9, 1, 4),), 4, FIRST),
    "channels outermost": Case(3, 4, 4, (50,), (window(4, 2, 1),), 4, (2, 1, 2)),
    "three dimensions": Case(
        1, 2, 2, (4, 6, 24), (window(1), window(3, 1, 1), window(3, 1, 1)), 2, FIRST
    ),
    "halves": Case(
        1, 3, 3, (6, 35), (window(3, 1, 1), window(3, 2, 1)), 3, FIRST, ("f16", "bf16", "f16")
    ),
    "sixty-four bits": Case(1, 3, 3, (6, 21), (window(3, 1, 1), window(3, 2, 1)), 3, FIRST, DOUBLE),
}


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", PLANES)
def test_planes(name: str, cpu: str):
    case = PLANES[name]
    plan = plan_contraction(case.spec("fprop"), target(cpu))
    assert kernel_of(plan, PlaneKernel)
    assert not plan.workspace
    run(case, "fprop", cpu, threads=2)
    run(case, "dgrad", cpu)


@pytest.mark.parametrize("orders", list(product(range(3), repeat=3)))
@pytest.mark.parametrize("kind", DIRECTIONS)
def test_layouts(orders: tuple[int, int, int], kind: str):
    windows = (window(3, 2, 1), window(2, 1, 1))
    run(Case(2, 18, 37, (7, 21), windows, orders=orders), kind, "host")


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("stored_type", ["f16", "bf16"])
def test_sixteen_bits(stored_type: StorageType, order: int, kind: str, cpu: str):
    windows = (window(3, 1, 1), window(3, 2, 1))
    types: Types = (stored_type, stored_type, stored_type)
    case = Case(1, 20, 35, (5, 34), windows, orders=(order, 0, order), types=types)
    run(case, kind, cpu)
    run(replace(case, accumulate=True, groups=5), kind, cpu)


@pytest.mark.parametrize("cpu", TARGETS)
def test_few_taps_of_a_half_filter(cpu: str):
    # LLVM merges shuffles of converted halves; only some of these taps are used.
    windows = (window(2), window(4, 3, 1, high=2))
    types: Types = ("f16", "f16", "f16")
    run(Case(1, 2, 1, (2, 1), windows, orders=(0, 1, 0), types=types), "dgrad", cpu)


@pytest.mark.parametrize("n", [2, 3, 8, 16])
@pytest.mark.parametrize("types", [DOUBLE, ("f32", "f32", "f32")])
def test_neighbours_out_of_order(n: int, types: Types):
    # Positions end where a run of neighbours would, but take another way.
    case = Case(n, 1, 1, (16 // n, 1), (window(1), window(1)), orders=(0, 0, 2), types=types)
    run(case, "fprop", "host")


def test_mixed_types():
    windows = (window(3, 1, 1), window(1, 1))
    case = Case(1, 20, 35, (5, 34), windows, types=("f16", "bf16", "f32"))
    run(case, "fprop", "host")
    run(case, "dgrad", "host")
    run(case, "wgrad", "host")


@pytest.mark.parametrize("kind", DIRECTIONS)
def test_threads(kind: str):
    windows = (window(3, 2, 1), window(3, 2, 1))
    run(Case(4, 32, 96, (28, 30), windows), kind, "host", threads=4)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", ["whole vectors", "half a vector", "groups", "sums", "columns"])
def test_parts_of_a_gradient(name: str, cpu: str, monkeypatch: pytest.MonkeyPatch):
    """Items of few rows and blocks of few positions; B is stored to where it has whole vectors."""
    limits = {"RESULT_BYTES": 4096, "MIN_TILES": 1, "BLOCK_BYTES": 1, "MIN_BLOCK": 7, "PACKED": 0}
    for limit, value in limits.items():
        monkeypatch.setattr(weight_blocking, limit, value)
    three = (window(3, 1, 1), window(2, 2))
    case = {
        "whole vectors": Case(2, 64, 75, (7, 9), three),
        "half a vector": Case(2, 70, 75, (7, 9), three),
        "groups": Case(1, 64, 96, (7, 9), three, groups=2),
        "sums": Case(1, 64, 75, (7, 9), three, accumulate=True),
        "columns": Case(2, 75, 64, (7, 9), three, orders=(0, 2, 0)),
    }[name]
    blocking = kernel_of(plan_contraction(case.spec("wgrad"), target(cpu)), WeightKernel).cuts
    assert blocking.row_parts > 1
    assert blocking.direct == (name not in ("half a vector", "sums"))
    run(case, "wgrad", cpu, threads=2)


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


@settings(max_examples=40, deadline=None)
@given(data=st.data(), cpu=st.sampled_from(TARGETS))
def test_any_planes(data: st.DataObject, cpu: str):
    inputs = (data.draw(st.integers(1, 12)), data.draw(st.integers(16, 90)))
    groups = data.draw(st.integers(2, 4))
    narrow: Types = ("f16", "f32", "bf16")
    types = st.sampled_from((SINGLE, narrow, DOUBLE))
    case = Case(
        n=data.draw(st.integers(1, 2)),
        c=groups,
        k=groups * data.draw(st.integers(1, 3)),
        inputs=inputs,
        windows=tuple(data.draw(windows(size)) for size in inputs),
        groups=groups,
        orders=(1, data.draw(st.integers(0, 2)), 1),
        types=data.draw(types),
    )
    run(case, "fprop", cpu)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    inputs = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    groups = draw(st.integers(1, 3))
    order = st.integers(0, 2)
    narrow = st.tuples(*(st.sampled_from(("f16", "bf16", "f32")) for _ in range(3)))
    types = st.one_of(narrow, st.just(DOUBLE))
    return Case(
        n=draw(st.integers(1, 3)),
        c=groups * draw(st.integers(1, 20)),
        k=groups * draw(st.one_of(st.integers(1, 40), st.integers(200, 500))),
        inputs=inputs,
        windows=tuple(draw(windows(size)) for size in inputs),
        groups=groups,
        orders=(draw(order), draw(order), draw(order)),
        types=draw(types),
        accumulate=draw(st.booleans()),
    )


@settings(max_examples=60, deadline=None)
@given(case=cases(), kind=st.sampled_from(DIRECTIONS), cpu=st.sampled_from(TARGETS))
def test_any_convolution(case: Case, kind: str, cpu: str):
    run(case, kind, cpu)


def test_small_filters_are_read_in_place():
    case = CASES["filter in place"]
    workspaces = {
        name: compile_contraction(replace(case, k=k).spec("fprop"), target("x86-64-v3")).workspace
        for name, k in {"whole vectors": 64, "half a vector": 60, "large": 1024}.items()
    }
    assert "packed" not in workspaces["whole vectors"]
    assert "packed" in workspaces["half a vector"]
    assert "packed" in workspaces["large"]


def test_gradient_multiplies_no_zeros():
    case = Case(2, 64, 64, (28, 28), (window(3, 2, 1), window(3, 2, 1)))
    spec = case.spec("dgrad")
    # Every gradient meets every tap once.
    assert [phase.taps for phase in spec.phases] == [4, 2, 2, 1]
    assert spec.flops == 2 * 2 * 14 * 14 * 9 * 64 * 64


def small(*axes: Axis, **changes: Any) -> Contraction:
    """A contraction of 8 depths and 8 columns over `axes`."""
    fields: dict[str, Any] = {
        "element": "f32",
        "phases": (Phase(axes),),
        "in_channels": 8,
        "out_channels": 8,
        "a": Channels("f32"),
        "b": Weights("f32", 8, 1),
        "c": Channels("f32"),
    }
    return Contraction(**(fields | changes))


def test_too_many_taps_are_refused():
    taps = tuple(range(70000))
    with pytest.raises(ValueError, match="taps"):
        compile_contraction(small(Axis(4, 99999, 1, taps, taps, 8, 8)))


def test_groups_that_are_apart_are_refused():
    apart = Channels("f16", 1, 16)
    with pytest.raises(ValueError, match="groups"):
        compile_contraction(small(Axis.batch(4, 32, 16), groups=2, a=apart))


def test_contractions_are_checked():
    axis = Axis.batch(4, 8, 8)
    with pytest.raises(ValueError, match="at least 1"):
        small(axis, in_channels=0)
    with pytest.raises(ValueError, match="phase"):
        small(axis, phases=())
    with pytest.raises(ValueError, match="axes"):
        small(axis, phases=(Phase((axis,)), Phase((axis, axis))))
    with pytest.raises(ValueError, match="weight"):
        small(Axis(4, 4, 1, (0, 1), (0,), 8, 8))
    with pytest.raises(ValueError, match="one phase"):
        small(axis, phases=(Phase((axis,)), Phase((axis,))), result="B")
    with pytest.raises(ValueError, match="reads"):
        small(axis, a=Channels("f64"))
