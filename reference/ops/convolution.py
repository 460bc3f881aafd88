"""`conv`: the three directions by their formula, one tap of the filter at a time.

With a tap fixed, the positions of input and output that it ties are two strided slices of the same
shape, and a direction is one matrix product per group over them:

    fprop  Y[n, p, g, k] += X[n, h, g, c] * W[g, k, c]
    dgrad  X[n, h, g, c] += Y[n, p, g, k] * W[g, k, c]
    wgrad  W[g, k, c]    += X[n, h, g, c] * Y[n, p, g, k]

Nothing here goes by way of linalg, so that a lowering of `conv` is checked against the formula.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.utils.exceptions import VerifyException

from convir.dialects.conv.geometry import Direction
from convir.dialects.conv.ops import ConvOp
from convir.dialects.conv.verify import verify_shapes
from convir.reference.dtypes import Array, DType, convert, dtype_of, is_narrow_float
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xdsl.ir import Operation

    from convir.dialects.conv.geometry import Role
    from convir.dialects.conv.layouts import Layout
    from convir.dialects.conv.windows import Window

HANDLERS = Handlers()


@HANDLERS.handles("conv.fprop", "conv.dgrad", "conv.wgrad")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    if not isinstance(op, ConvOp):
        raise EvaluationError(op, "is not a convolution")
    accumulator = dtype_of(op.accumulator, frame.interpreter.float_format)
    if accumulator is None:
        raise EvaluationError(op, f"accumulates in {op.accumulator}")
    lhs, rhs, init = operands
    if op.accumulator == i32:
        lhs = lhs.view(np.uint8)
    total = np.array(init).astype(accumulator)
    arrays = dict(zip(op.DIRECTION.roles, (lhs, rhs, total), strict=True))
    windows = _windows(op, arrays)
    groups = op.geometry.groups
    image_layout, filter_layout, output_layout = op.geometry.layouts
    image = _activation(arrays["input"], image_layout, groups)
    output = _activation(arrays["output"], output_layout, groups)
    filters = _filter(arrays["filter"], filter_layout, groups)
    spatial = slice(1, 1 + op.geometry.spatial_rank)
    frame.interpreter.require_steps(op, prod(window.taps for window in windows))
    for taps in product(*(range(window.taps) for window in windows)):
        touched = [
            window.outputs_of_tap(tap, size, positions)
            for window, tap, size, positions in zip(
                windows, taps, image.shape[spatial], output.shape[spatial], strict=True
            )
        ]
        if not all(touched):
            continue
        read = [
            slice(w.reads(p[0], tap), w.reads(p[-1], tap) + 1, w.stride)
            for w, tap, p in zip(windows, taps, touched, strict=True)
        ]
        written = [slice(p.start, p.stop) for p in touched]
        _accumulate(
            op.DIRECTION,
            image[(slice(None), *read)],
            filters[(slice(None), *taps)],
            output[(slice(None), *written)],
            accumulator,
        )
    return (convert(total, init.dtype),)


def _windows(op: ConvOp, arrays: Mapping[Role, Array]) -> tuple[Window, ...]:
    """The window along each spatial dimension, by the sizes that the arrays have: those of the
    types may be open."""
    try:
        verify_shapes(op.geometry, {role: array.shape for role, array in arrays.items()})
    except VerifyException as error:
        raise EvaluationError(op, f"has operands that do not fit: {error}") from None
    return op.geometry.windows(arrays["filter"].shape)


def _activation(array: Array, layout: Layout, groups: int) -> Array:
    """A view as N, spatial, group, channel of the group."""
    moved = array.transpose(layout.outer_axis, *layout.spatial_axes, layout.channel_axis)
    return _split(moved, -1, groups)


def _filter(array: Array, layout: Layout, groups: int) -> Array:
    """A view as group, taps, output channel of the group, input channel of the group."""
    moved = array.transpose(layout.outer_axis, *layout.spatial_axes, layout.channel_axis)
    return np.moveaxis(_split(moved, 0, groups), 1, -2)


def _split(array: Array, axis: int, groups: int) -> Array:
    """A view of which `axis` is split into groups and what is in one, without a copy."""
    axis %= array.ndim
    size, stride = array.shape[axis] // groups, array.strides[axis]
    return np.lib.stride_tricks.as_strided(
        array,
        (*array.shape[:axis], groups, size, *array.shape[axis + 1 :]),
        (*array.strides[:axis], size * stride, stride, *array.strides[axis + 1 :]),
    )


def _accumulate(
    direction: Direction, image: Array, filters: Array, output: Array, dtype: DType
) -> None:
    """Add one tap's products to whichever of the three is the result."""
    pixels = _pixels(image, dtype)
    gradients = _pixels(output, dtype)
    match direction:
        case Direction.FPROP:
            _add_pixels(output, _multiply(pixels, convert(filters, dtype).swapaxes(1, 2)))
        case Direction.DGRAD:
            _add_pixels(image, _multiply(gradients, convert(filters, dtype)))
        case Direction.WGRAD:
            filters += _multiply(gradients.swapaxes(1, 2), pixels)


def _pixels(view: Array, dtype: DType) -> Array:
    """N, spatial, group, channel as one matrix per group: (group, pixel, channel)."""
    moved = np.moveaxis(view, -2, 0)
    groups, *positions, channels = moved.shape
    return convert(moved, dtype).reshape(groups, prod(positions), channels)


def _add_pixels(view: Array, products: Array) -> None:
    moved = np.moveaxis(view, -2, 0)
    moved += products.reshape(moved.shape)


def _multiply(lhs: Array, rhs: Array) -> Array:
    """`lhs @ rhs`, rounding at every step where the type is a 16-bit float."""
    if not is_narrow_float(lhs.dtype):
        return lhs @ rhs
    total = np.zeros((*lhs.shape[:-1], rhs.shape[-1]), lhs.dtype)
    for k in range(lhs.shape[-1]):
        total += lhs[..., :, k : k + 1] * rhs[..., k : k + 1, :]
    return total


def terms_of(op: ConvOp, operands: Sequence[Array]) -> int:
    """How many products one element of the result sums, those with padding included.

    Args:
        op: the convolution.
        operands: what its operands hold, in order; sizes may be open in its types.
    """
    roles = zip(op.DIRECTION.roles, operands, strict=True)
    shapes = {role: operand.shape for role, operand in roles}
    _, filter_layout, output_layout = op.geometry.layouts
    filters, output = shapes["filter"], shapes["output"]
    taps = prod(filters[axis] for axis in filter_layout.spatial_axes)
    match op.DIRECTION:
        case Direction.FPROP:
            return taps * filters[filter_layout.channel_axis]
        case Direction.DGRAD:
            return taps * filters[filter_layout.outer_axis] // op.geometry.groups
        case Direction.WGRAD:
            channels = output_layout.channel_axis
            return prod(size for axis, size in enumerate(output) if axis != channels)
