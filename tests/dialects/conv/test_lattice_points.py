"""Points that a linear form places in an interval, against enumeration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.dialects.conv.lattice_points import Rectangle, floor_sum
from convir.dialects.conv.windows import Window

pytestmark = pytest.mark.fast

rectangles = st.builds(
    Rectangle,
    m=st.integers(-1, 12),
    a=st.integers(1, 14),
    n=st.integers(-1, 12),
    b=st.integers(1, 14),
)
ends = st.integers(-20, 200)


@given(st.integers(-1, 30), st.integers(1, 30), st.integers(-40, 40), st.integers(-99, 99))
def test_floor_sum(count: int, divisor: int, slope: int, start: int) -> None:
    expected = sum((slope * i + start) // divisor for i in range(count))
    assert floor_sum(count, divisor, slope, start) == expected


@given(rectangles, ends, ends)
def test_points_places_and_columns(points: Rectangle, begin: int, end: int) -> None:
    inside = {
        (i, j): place
        for i in range(points.m)
        for j in range(points.n)
        if begin <= (place := points.a * i + points.b * j) < end
    }
    assert points.points_within(begin, end) == len(inside)
    assert points.places_within(begin, end) == len(set(inside.values()))
    assert points.columns_within(begin, end) == len({i for i, _ in inside})


def test_sizes_do_not_matter() -> None:
    size = 10**9
    window = Window(size + 1, stride=1, pad_low=size, pad_high=size)
    outputs = window.output_size(size)
    assert outputs == 2 * size
    assert window.inputs_read(size, outputs) == size
    assert window.outputs_used(size, outputs) == outputs
    assert window.taps_used(size, outputs) == size + 1
    every_third = Window(size, stride=3, pad_low=size)
    assert every_third.taps_used(1, size) == size // 3
