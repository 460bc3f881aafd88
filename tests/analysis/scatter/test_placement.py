"""Placements against arrays: where each element of a source ends up."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convir.analysis.scatter.placement import (
    Digits,
    Placement,
    covers,
    place,
    read,
    simplified,
    split,
)

pytestmark = pytest.mark.fast


def number(value: object) -> int:
    assert isinstance(value, int)
    return value


def positions(digits: Digits) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The dimension as an array: 1 + the source element's number at its place, 0 in gaps."""
    total = np.zeros(1, np.int64)
    for digit in digits:
        line = np.zeros(number(digit.extent), np.int64)
        for t in range(number(digit.size)):
            element = digit.start + digit.step * t
            line[number(digit.offset) + number(digit.stride) * t] = element + 1
        both = (total[:, None] - 1) * number(digit.source_size) + line[None, :]
        if total.shape == (1,) and total[0] == 0:
            both = line[None, :]
        else:
            both[(total[:, None] == 0) | (line[None, :] == 0)] = 0
        total = both.reshape(-1)
    return total if digits else np.ones(1, np.int64)


@st.composite
def placements(draw: st.DrawFn, *, crops: bool = True) -> Placement:
    size, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    offset = draw(st.integers(0, 3))
    extent = offset + stride * (size - 1) + 1 + draw(st.integers(0, 3))
    if not crops or draw(st.booleans()):
        return Placement(offset, stride, size, extent, size)
    start, step = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    source = start + step * (size - 1) + 1 + draw(st.integers(0, 2))
    return Placement(offset, stride, size, extent, source, start, step)


@st.composite
def dimensions(draw: st.DrawFn) -> Digits:
    return tuple(draw(st.lists(placements(), min_size=1, max_size=3)))


def extent_of(digits: Digits) -> int:
    return prod(number(digit.extent) for digit in digits)


@given(dimensions())
def test_simplified_is_the_same_dimension(digits: Digits) -> None:
    np.testing.assert_array_equal(positions(simplified(digits)), positions(digits))


@given(dimensions(), st.integers(0, 4), st.integers(1, 3), st.integers(0, 4))
def test_place(digits: Digits, offset: int, stride: int, after: int) -> None:
    inner = positions(digits)
    extent = offset + stride * (len(inner) - 1) + 1 + after
    placed = place(digits, offset, stride, extent)
    assert placed is not None or len(digits) > 1
    assume(placed is not None)
    expected = np.zeros(extent, np.int64)
    expected[offset::stride][: len(inner)] = inner
    assert placed is not None
    np.testing.assert_array_equal(positions(placed), expected)


@given(placements(), st.integers(0, 6), st.integers(1, 4), st.integers(1, 8))
def test_read(placement: Placement, start: int, step: int, count: int) -> None:
    line = positions((placement,))
    assume(start + step * (count - 1) < len(line))
    expected = line[start::step][:count]
    seen = read((placement,), start, step, count)
    if seen is None:
        assert not expected.any()
        return
    np.testing.assert_array_equal(positions(seen), expected)


@given(dimensions(), st.data())
def test_split(digits: Digits, data: st.DataObject) -> None:
    extent = extent_of(digits)
    inner = data.draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0]))
    parts = split(digits, [extent // inner, inner])
    if parts is None:
        return
    assert [extent_of(part) for part in parts] == [extent // inner, inner]
    joined = tuple(placement for part in parts for placement in part)
    np.testing.assert_array_equal(positions(joined), positions(digits))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_gapless_dimension_splits_anywhere(first: int, second: int, third: int) -> None:
    whole = (Placement.whole(first * second * third),)
    parts = split(whole, [first, second, third])
    assert parts is not None
    assert all(covers(part) for part in parts)


def test_elements_out_of_step_do_not_split() -> None:
    assert split((Placement(0, 3, 2, 6, 2),), [3, 2]) is None
    assert split((Placement(1, 2, 3, 6, 3),), [3, 2]) == (
        (Placement(0, 1, 3, 3, 3),),
        (Placement(1, 1, 1, 2, 1),),
    )
