"""The definition of a convolution in plain NumPy: one product per sample and tap, nothing clever.

It knows nothing of IR, pads explicitly and shares no arithmetic with the passes, so that what they
make of a problem can be compared with the problem itself.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from convir.dialects.conv_geometry import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from convir.dialects.conv_geometry import Geometry
    from convir.dialects.layouts import Layout
    from convir.dialects.problem import ConvProblem

Array = npt.NDArray[Any]

FLOAT64 = np.dtype(np.float64)


def define(problem: ConvProblem, lhs: Array, rhs: Array, dtype: np.dtype[Any] = FLOAT64) -> Array:
    """What `problem` asks for on these operands, computed and returned in `dtype`.

    Args:
        problem: the direction, sizes and layouts.
        lhs: the left operand, of shape `problem.shapes[0]`: X, dY or X.
        rhs: the right operand, of shape `problem.shapes[1]`: W, W or dY.
        dtype: what operands are converted to, products are summed in, and the result has.

    Raises:
        ValueError: an operand does not have the shape that the problem says.
    """
    lhs_shape, rhs_shape, result_shape = problem.shapes
    for operand, shape in ((lhs, lhs_shape), (rhs, rhs_shape)):
        if operand.shape != shape:
            raise ValueError(f"expected an operand of shape {shape}, got {operand.shape}")
    return convolve(problem.direction, problem.geometry, lhs, rhs, result_shape, dtype)


def convolve(
    direction: Direction,
    geometry: Geometry,
    lhs: Array,
    rhs: Array,
    result_shape: Sequence[int],
    dtype: np.dtype[Any] = FLOAT64,
) -> Array:
    """The sum of products of one direction, without any init, in the result's layout."""
    input_layout, filter_layout, output_layout = geometry.layouts
    result = np.zeros(tuple(result_shape), dtype)
    by_role = dict(zip(direction.roles, (lhs, rhs, result), strict=True))
    # Views, all with groups first and the contracted channels last; writing to the result's view
    # writes to the result.
    x = _activation_view(by_role["input"], input_layout, geometry.groups)
    w = _filter_view(by_role["filter"], filter_layout, geometry.groups)
    y = _activation_view(by_role["output"], output_layout, geometry.groups)
    outputs = y.shape[2:-1]
    for sample in range(x.shape[1]):
        padded = _padded(x[:, sample], geometry, dtype)
        gradient = _rows(y[:, sample].astype(dtype, copy=False))
        for tap in np.ndindex(*w.shape[1:-2]):
            at_tap = (slice(None), *_window(geometry, tap, outputs))
            weights = w[:, *tap]
            if direction is Direction.FPROP:
                product = _rows(padded[at_tap]) @ weights.astype(dtype, copy=False)
                y[:, sample] += product.reshape(y[:, sample].shape)
            elif direction is Direction.DGRAD:
                product = gradient @ weights.astype(dtype, copy=False).swapaxes(1, 2)
                padded[at_tap] += product.reshape(padded[at_tap].shape)
            else:
                weights += _rows(padded[at_tap]).swapaxes(1, 2) @ gradient
        if direction is Direction.DGRAD:
            x[:, sample] = padded[:, *_interior(geometry, x.shape[2:-1])]
    return result


def _activation_view(array: Array, layout: Layout, groups: int) -> Array:
    """Dimensions G, N, spatial, C / G."""
    axes = (layout.outer_axis, *layout.spatial_axes, layout.channel_axis)
    return _split(array.transpose(axes), len(axes) - 1, groups)


def _filter_view(array: Array, layout: Layout, groups: int) -> Array:
    """Dimensions G, taps, C / G, K / G."""
    axes = (*layout.spatial_axes, layout.channel_axis, layout.outer_axis)
    return _split(array.transpose(axes), len(axes) - 1, groups)


def _split(array: Array, axis: int, groups: int) -> Array:
    """A view of `array` with `axis` split into groups, which come first."""
    split = list(array.shape)
    split[axis : axis + 1] = [groups, array.shape[axis] // groups]
    strides = list(array.strides)
    strides[axis : axis + 1] = [array.strides[axis] * split[axis + 1], array.strides[axis]]
    view = np.lib.stride_tricks.as_strided(array, split, strides)
    return np.moveaxis(view, axis, 0)


def _padded(sample: Array, geometry: Geometry, dtype: np.dtype[Any]) -> Array:
    """One sample (G, spatial, C / G) with zeros around it, as a copy in `dtype`."""
    pads = [(0, 0), *zip(geometry.pad_low, geometry.pad_high, strict=True), (0, 0)]
    return np.pad(sample.astype(dtype), pads)


def _interior(geometry: Geometry, spatial: Sequence[int]) -> Iterator[slice]:
    """Where the sample is in its padded copy."""
    for low, size in zip(geometry.pad_low, spatial, strict=True):
        yield slice(low, low + size)


def _window(geometry: Geometry, tap: Sequence[int], outputs: Sequence[int]) -> Iterator[slice]:
    """The positions of a padded sample that one tap reads, one per output."""
    for position, dilation, stride, size in zip(
        tap, geometry.dilations, geometry.strides, outputs, strict=True
    ):
        first = position * dilation
        yield slice(first, first + (size - 1) * stride + 1, stride)


def _rows(array: Array) -> Array:
    """(G, spatial, C) as (G, positions, C)."""
    return array.reshape(array.shape[0], prod(array.shape[1:-1]), array.shape[-1])
