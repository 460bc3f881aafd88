"""Max, average and global pools, as a reduction over windows of the padded input."""

from __future__ import annotations

from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i8, i16
from xdsl.ir.affine import AffineExpr

from convir.frontends.elements import MEMORY, constant
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.call import LARGEST
from convir.frontends.onnx.ops.tables import check_table
from convir.frontends.onnx.ops.windows import windows_of
from convir.frontends.scalar_functions import rounded, summed, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.dialects.conv.windows import Window
    from convir.frontends.elements import Array
    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call


def _maximum(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    return body.insert(arith.MaximumfOp(args[-1], args[0]))


def _max_pool(call: Call) -> Sequence[SSAValue]:
    call.attribute("storage_order", 0)  # It orders the indices, which are refused as an output.
    windows = _windows(call)
    element = element_of(call.input(0))
    if element not in (i8, i16):
        return [_pooled(call, call.floats(0)[0], windows, -inf, _maximum)]
    # Integers of quantised tensors, each of which f32 holds.
    single = call.emit.elementwise(
        [call.input(0)], lambda body, args: body.insert(arith.SIToFPOp(args[0], f32)), f32
    )
    found = _pooled(call, single, windows, -inf, _maximum)
    return [
        call.emit.elementwise(
            [found], lambda body, args: body.insert(arith.FPToSIOp(args[0], element)), element
        )
    ]


def _average_pool(call: Call) -> Sequence[SSAValue]:
    windows = _windows(call)
    include_padding = bool(call.attribute("count_include_pad", 0))
    total = _pooled(call, call.floats(0)[0], windows, 0, summed)
    spatial = shape_of(call.input(0))[2:]
    counts = [
        _counts(window, size, output, include_padding=include_padding)
        for window, size, output in zip(windows, spatial, shape_of(total)[2:], strict=True)
    ]
    return [_divided(call, total, counts)]


def _divided(call: Call, total: SSAValue, counts: Sequence[Array]) -> SSAValue:
    """`total` by how many elements each output position counts, of the input's type."""
    element = element_of(call.input(0))
    uniform = all(count.size and np.all(count == count.flat[0]) for count in counts)
    number = prod(float(count.flat[0]) for count in counts) if uniform else None
    table = np.ones((), np.float64)
    if number is None:
        check_table(prod(count.size for count in counts))
        for count in counts:
            table = np.multiply.outer(table, count)

    def divide(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        wide = args[0].type
        count = widened(body, args[1], wide) if number is None else body.number(number, wide)
        return rounded(body, body.insert(arith.DivfOp(args[0], count)), element)

    # Of numbers as small as these, f32 holds each.
    counted = () if number is not None else (table.astype(np.float32),)
    exact = [call.emit.insert(constant(values, MEMORY, None)) for values in counted]
    return call.emit.elementwise([total, *exact], divide, element)


def _counts(window: Window, size: int, outputs: int, *, include_padding: bool) -> Array:
    """How many elements of the input (and of its padding) the window at each position holds.

    What `ceil_mode` adds beyond the padding never counts.
    """
    first, last = (-window.pad_low, size + window.pad_high) if include_padding else (0, size)
    check_table(outputs)
    positions = window.reads(0, 0) + np.arange(outputs) * window.stride
    # Of the taps, those before the first one inside, and those before the first one past the end.
    before, inside = (
        np.clip(-((positions - end) // window.dilation), 0, window.taps) for end in (first, last)
    )
    return (inside - before).astype(np.float64)


def _windows(call: Call) -> tuple[Window, ...]:
    call.check_rank(call.input(0), 3)
    spatial = shape_of(call.input(0))[2:]
    taps = tuple(int(count) for count in call.attribute("kernel_shape"))
    if len(taps) != len(spatial) or not all(1 <= count <= LARGEST for count in taps):
        raise call.error(f"'kernel_shape' is {list(taps)} for {len(spatial)} dimensions")
    return windows_of(call, spatial, taps)


def _output_size(window: Window, size: int, *, ceil: bool) -> int:
    """How many windows there are; with `ceil` one more that ends past the padding if it begins
    inside of the input or of the padding before it.
    """
    outputs = window.output_size(size)
    slack = window.padded(size) - window.extent
    if ceil and slack % window.stride and outputs * window.stride < size + window.pad_low:
        return outputs + 1
    return outputs


def _pooled(
    call: Call,
    x: SSAValue,
    windows: Sequence[Window],
    start: float,
    body: Callable[[ScalarBuilder, Sequence[SSAValue]], SSAValue],
) -> SSAValue:
    """The windows of `x`, each reduced by `body` from `start` on."""
    element = element_of(x)
    batch, spatial = shape_of(x)[:2], shape_of(x)[2:]
    ceil = bool(call.attribute("ceil_mode", 0))
    outputs = [_output_size(w, size, ceil=ceil) for w, size in zip(windows, spatial, strict=True)]
    high = [
        max((count - 1) * window.stride + window.extent - window.pad_low - size, 0)
        for window, size, count in zip(windows, spatial, outputs, strict=True)
    ]
    fill = call.emit.number(start, element)
    low = [window.pad_low for window in windows]
    padded = call.emit.pad(x, [0, 0, *low], [0, 0, *high], fill)
    rank = len(windows)
    loops = [AffineExpr.dimension(loop) for loop in range(2 + 2 * rank)]
    walked = [
        loops[2 + dim] * window.stride + loops[2 + rank + dim] * window.dilation
        for dim, window in enumerate(windows)
    ]
    # What says how many taps there are; nobody reads its elements.
    taps = call.emit.empty([window.taps for window in windows], element)
    sums = wide_of(element) if body is summed else element
    init = call.emit.filled(start, [*batch, *outputs], sums)
    return call.emit.generic(
        [(padded, [*loops[:2], *walked]), (taps, loops[2 + rank :])],
        (init, loops[: 2 + rank]),
        2 + rank,
        rank,
        body,
    )


def _global_pool(average: bool, call: Call) -> Sequence[SSAValue]:
    (x,) = call.floats(0)
    call.check_rank(x, 2)
    element = element_of(x)
    batch, spatial = shape_of(x)[:2], shape_of(x)[2:]
    start, body = (0, summed) if average else (-inf, _maximum)
    axes = range(2, len(shape_of(x)))
    total = call.emit.reduce(x, axes, start, body, wide_of(element) if average else element)
    if average:
        total = _divided(call, total, [np.array(prod(spatial), np.float64)])
    return [call.emit.reshape(total, [*batch, *([1] * len(spatial))])]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": partial(_global_pool, True),
    "GlobalMaxPool": partial(_global_pool, False),
    "MaxPool": _max_pool,
}
