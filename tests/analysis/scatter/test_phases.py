"""Phases of scattered windows against every product written out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.analysis.scatter.phases import ScatteredWindow
from convir.dialects.conv.windows import Window

pytestmark = pytest.mark.fast

windows = st.builds(
    ScatteredWindow,
    outputs=st.integers(1, 9),
    taps=st.integers(1, 6),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 6),
    constant=st.integers(0, 5),
    offset=st.integers(0, 7),
    spacing=st.integers(1, 6),
    size=st.integers(1, 5),
)


def grid(window: ScatteredWindow) -> set[tuple[int, int, int]]:
    """Every output, tap and source element, one beyond the ends too, that meet in one position."""
    met: set[tuple[int, int, int]] = set()
    for output in range(window.outputs):
        for tap in range(window.taps):
            position = window.stride * output + window.dilation * tap + window.constant
            element, rest = divmod(position - window.offset, window.spacing)
            if rest == 0:
                met.add((output, tap, element))
    return met


@given(windows)
def test_phases_are_the_products_that_meet_no_hole(window: ScatteredWindow) -> None:
    found = [
        (
            phase.first + window.period * j,
            phase.first_tap + window.tap_period * u,
            phase.base + window.source_stride * j + window.source_dilation * u,
        )
        for phase in window.phases
        for j in range(phase.count)
        for u in range(phase.taps)
    ]
    assert len(found) == len(set(found)) == window.products
    assert set(found) == grid(window)


@given(windows)
def test_phases_share_out_the_outputs(window: ScatteredWindow) -> None:
    outputs = [
        phase.first + window.period * j for phase in window.phases for j in range(phase.count)
    ]
    assert sorted(outputs) == list(range(window.outputs))


@given(windows)
def test_margins_are_what_is_read_beyond_the_ends(window: ScatteredWindow) -> None:
    elements = [element for _, _, element in grid(window)]
    low, high = window.margins
    assert low == max([0, *(-element for element in elements)])
    assert high == max([0, *(element - window.size + 1 for element in elements)])
    assert window.products_on_elements == sum(0 <= e < window.size for e in elements)


@given(
    taps=st.integers(1, 6),
    stride=st.integers(1, 6),
    dilation=st.integers(1, 3),
    pad=st.integers(0, 8),
    size=st.integers(1, 12),
    outputs=st.integers(1, 5),
)
def test_a_gradient_has_the_products_of_the_convolution(
    taps: int, stride: int, dilation: int, pad: int, size: int, outputs: int
) -> None:
    forward = Window(taps=taps, stride=stride, dilation=dilation, pad_low=pad, pad_high=pad)
    scatter = forward.scatter(size, outputs)
    backward = ScatteredWindow(size, taps, 1, dilation, 0, scatter.offset, stride, scatter.count)
    read = sum(len(forward.outputs_of_tap(tap, size, outputs)) for tap in range(taps))
    assert backward.products_on_elements == read


def test_few_phases_of_many_taps() -> None:
    size = 10**9
    window = ScatteredWindow(3, size, 1, 1, 0, 0, size, 2)
    assert [phase.first_tap for phase in window.phases] == [0, size - 1, size - 2]
    assert window.products == window.products_on_elements == 3
    dense = ScatteredWindow(2, size, 1, 1, 0, 0, 2, size)
    assert dense.products_on_elements == size
