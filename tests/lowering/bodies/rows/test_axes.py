"""Which dimensions are one, and which are several."""

from __future__ import annotations

import pytest

from convir.lowering.bodies.rows.axes import Axes

pytestmark = pytest.mark.fast


def sizes(axes: Axes, dim: tuple[int, ...]) -> list[int]:
    return [axes.size(axis) for axis in axes.leaves(dim)]


def test_a_reshape_takes_an_axis_apart_everywhere() -> None:
    axes = Axes()
    image = axes.of_shape((2, 12, 1, 5))
    other = axes.of_shape((12,))
    assert axes.unify(image[1], other[0])
    groups = axes.reshaped(image, (2, 4, 3, 5))
    assert groups is not None
    assert [sizes(axes, dim) for dim in groups] == [[2], [4], [3], [5]]
    assert sizes(axes, other[0]) == [4, 3]
    assert axes.leaves(other[0]) == axes.leaves(image[1])


def test_dimensions_that_are_one_are_taken_apart_alike() -> None:
    axes = Axes()
    (a,), (b,) = axes.of_shape((12,)), axes.of_shape((12,))
    first = axes.reshaped([a], (4, 3))
    second = axes.reshaped([b], (2, 6))
    assert first is not None
    assert second is not None
    assert axes.unify(a, b)
    assert axes.leaves(a) == axes.leaves(b)
    assert sizes(axes, a) == [2, 2, 3]


def test_sizes_that_do_not_divide_are_refused() -> None:
    axes = Axes()
    dims = axes.of_shape((4, 3))
    assert axes.reshaped(dims, (6, 2)) is None
    (a,), (b,) = axes.of_shape((4,)), axes.of_shape((6,))
    assert not axes.unify(a, b)


def test_a_collapse_gathers_axes() -> None:
    axes = Axes()
    dims = axes.of_shape((4, 1, 3))
    found = axes.reshaped(dims, (12,))
    assert found == ((*dims[0], *dims[2]),)
    assert not axes.are_apart
