"""The taps that tiles meet, against a count of every position."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convir.lowering.bodies.contraction.spec import Axis, Phase
from convir.lowering.kernels.host.code.tiles import MAX_ROWS
from convir.lowering.kernels.host.implicit_gemm import live_taps as module
from convir.lowering.kernels.host.implicit_gemm.live_taps import LOW_ROWS, live_taps


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    size, extent = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    rows = tuple(draw(st.lists(st.integers(-3, 8), min_size=1, max_size=3)))
    return Axis(size, extent, draw(st.sampled_from((-1, 1, 2))), rows, (0,) * len(rows), 1, 1)


def counted(phase: Phase, rows: int) -> float:
    pixels = list(product(*(range(axis.size) for axis in phase.axes)))
    taps = list(product(*(axis.tap_rows for axis in phase.axes)))

    def meets(position: tuple[int, ...], tap: tuple[int, ...]) -> bool:
        reads = zip(phase.axes, position, tap, strict=True)
        return all(0 <= at * axis.step + row < axis.extent for axis, at, row in reads)

    tiles = [pixels[first : first + rows] for first in range(0, len(pixels), rows)]
    met = sum(any(meets(x, tap) for x in tile) for tile in tiles for tap in taps)
    return met / len(tiles)


@given(phase_axes=st.lists(axes(), min_size=1, max_size=3))
def test_taps_that_are_met(phase_axes: list[Axis]):
    phase = Phase(tuple(phase_axes))
    if phase.taps == 1:
        assert live_taps(phase) == (1.0,) * MAX_ROWS
        return
    expected = [counted(phase, rows) for rows in range(LOW_ROWS, MAX_ROWS + 1)]
    assert list(live_taps(phase)[LOW_ROWS - 1 :]) == pytest.approx(expected)
    assert set(live_taps(phase)[: LOW_ROWS - 1]) == {phase.taps}


def test_a_row_of_the_image_skips_what_is_above_it():
    side = Axis(7, 7, 1, (-1, 0, 1), (0, 0, 0), 1, 1)
    live = live_taps(Phase((Axis.batch(8, 49, 49), side, side)))
    assert live[7 - 1] == pytest.approx((5 * 9 + 2 * 6) / 7)
    assert live[4 - 1] > live[7 - 1]


def test_large_images_count_all_taps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_PIXELS", 48)
    side = Axis(7, 7, 1, (-2, 0, 2), (0, 0, 0), 1, 1)
    assert live_taps(Phase((side, side))) == (9.0,) * MAX_ROWS
