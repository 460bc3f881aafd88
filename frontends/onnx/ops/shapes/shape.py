"""What only moves elements: Reshape, Flatten, Transpose, Squeeze, Concat, Slice, Split, Pad, …"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir.affine import AffineExpr

from convir.frontends.elements import element_type_of_array
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.tensor_functions.gather import strided

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

_AXES_INPUT_OPSET = 13
"""From this version on, Squeeze, Unsqueeze and Split take integers as inputs."""
_SLICE_INPUT_OPSET = 10
_PAD_INPUT_OPSET = 11


def _identity(call: Call) -> Sequence[SSAValue]:
    return [call.input(0)]


def _dropout(call: Call) -> Sequence[SSAValue]:
    """Nothing at inference: a mask that keeps everything."""
    if call.has(2) and call.known_scalar(2, "training_mode"):
        raise call.error("only inference is supported")
    for name in ("ratio", "seed", "is_test"):
        call.attribute(name, None)
    x = call.input(0)
    return [x, call.emit.filled(1, shape_of(x), i1)][: len(call.node.outputs)]


def _reshape(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    have = shape_of(x)
    wanted = call.attribute("shape", None)
    if wanted is None:
        wanted = call.known_integers(1, "the shape")
    keeps_zeros = bool(call.attribute("allowzero", 0))
    if not keeps_zeros and any(n == 0 for n in wanted[len(have) :]):
        raise call.misfit(f"its shape {list(wanted)} keeps a size that {list(have)} does not have")
    shape = [have[d] if n == 0 and not keeps_zeros else int(n) for d, n in enumerate(wanted)]
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = prod(have) // rest if rest else 0
    return [call.emit.reshape(x, shape)]


def _flatten(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    axis, rank = int(call.attribute("axis", 1)), len(shape_of(x))
    axis = rank if axis == rank else call.axis(axis, rank)
    return [call.emit.reshape(x, (prod(shape_of(x)[:axis]), prod(shape_of(x)[axis:])))]


def _transpose(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    axes = range(len(shape_of(x)))
    order = call.integers("perm", axes[::-1])
    if sorted(order) != list(axes):
        raise call.misfit(f"'perm' {list(order)} is not an order of {len(axes)} axes")
    return [call.emit.transpose(x, order)]


def _axes(call: Call, default: Sequence[int] | None) -> list[int] | None:
    if call.opset >= _AXES_INPUT_OPSET:
        given = call.known_integers(1, "the axes") if call.has(1) else default
    else:
        given = call.attribute("axes", default)
    return None if given is None else [int(axis) for axis in given]


def _squeeze(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    shape = shape_of(x)
    axes = _axes(call, [dim for dim, size in enumerate(shape) if size == 1]) or []
    axes = call.axes(axes, len(shape))
    if any(shape[axis] != 1 for axis in axes):
        raise call.misfit(f"axes {axes} of {list(shape)} are not all of size 1")
    return [call.emit.reshape(x, [n for d, n in enumerate(shape) if d not in axes])]


def _unsqueeze(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    axes = _axes(call, None)
    if axes is None:
        raise call.error("its axes are missing")
    rank = len(shape_of(x)) + len(axes)
    axes = call.axes(axes, rank)
    sizes = iter(shape_of(x))
    return [call.emit.reshape(x, [1 if d in axes else next(sizes) for d in range(rank)])]


def _concat(call: Call) -> Sequence[SSAValue]:
    parts = call.inputs
    shape = list(shape_of(parts[0]))
    axis = call.axis(int(call.attribute("axis", 1)), len(shape))
    for part in parts:
        others = [n for d, n in enumerate(shape_of(part)) if d != axis]
        if others != [n for d, n in enumerate(shape) if d != axis] or element_of(
            part
        ) != element_of(parts[0]):
            raise call.misfit(f"{parts[0].type} and {part.type} differ beside axis {axis}")
    if len(parts) == 1:
        return parts
    shape[axis] = sum(shape_of(part)[axis] for part in parts)
    result = TensorType(element_of(parts[0]), shape)
    return [call.emit.insert(tensor.ConcatOp(parts, axis, result))]


def _split(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    shape = list(shape_of(x))
    axis = call.axis(int(call.attribute("axis", 0)), len(shape))
    sizes = call.attribute("split", None)
    if call.opset >= _AXES_INPUT_OPSET and call.has(1):
        sizes = call.known_integers(1, "the sizes")
    if sizes is None:
        count = call.count("num_outputs", len(call.node.outputs))
        if count != len(call.node.outputs):
            raise call.error(f"'num_outputs' is {count}, it has {len(call.node.outputs)} outputs")
        part = -(-shape[axis] // count)
        sizes = [part] * (count - 1) + [shape[axis] - part * (count - 1)]
    if sum(sizes) != shape[axis]:
        raise call.misfit(f"the sizes {list(sizes)} do not make up {shape[axis]}")
    parts: list[SSAValue] = []
    offsets = [0] * len(shape)
    for size in sizes:
        part_shape = [*shape[:axis], int(size), *shape[axis + 1 :]]
        parts.append(call.emit.extract(x, offsets, part_shape, [1] * len(shape)))
        offsets[axis] += int(size)
    if len(parts) != len(call.node.outputs):
        raise call.error(f"{len(parts)} sizes for {len(call.node.outputs)} outputs")
    return parts


def _slice(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    shape = shape_of(x)
    if call.opset < _SLICE_INPUT_OPSET:
        starts, ends = list(call.attribute("starts")), list(call.attribute("ends"))
        axes, steps = call.attribute("axes", range(len(starts))), [1] * len(starts)
    else:
        starts, ends = (call.known_integers(i, "the bounds") for i in (1, 2))
        axes = call.known_integers(3, "the axes") if call.has(3) else range(len(starts))
        steps = call.known_integers(4, "the steps") if call.has(4) else [1] * len(starts)
    if len({len(starts), len(ends), len(axes), len(steps)}) != 1:
        raise call.error("its bounds, axes and steps are not as many as each other")
    chosen = [range(size) for size in shape]
    axes = call.axes(axes, len(shape))
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0:  # Backwards from the first one at least: Python begins in front of it.
            start = max(start, -shape[axis])
        chosen[axis] = range(shape[axis])[slice(start, end, step)]
    for axis, indices in enumerate(chosen):
        if indices.step < 0:
            x = strided(call.emit, x, axis, indices.start, len(indices), indices.step)
            chosen[axis] = range(len(indices))
    offsets = [indices.start for indices in chosen]
    return [call.emit.extract(x, offsets, [len(i) for i in chosen], [i.step for i in chosen])]


def _expand(call: Call) -> Sequence[SSAValue]:
    return [call.emit.broadcast(call.input(0), call.known_integers(1, "the shape"))]


def _tile(call: Call) -> Sequence[SSAValue]:
    x, times = call.input(0), call.known_integers(1, "the repeats")
    shape = shape_of(x)
    if len(times) != len(shape) or min(times, default=0) < 0:
        raise call.error(f"{list(times)} are not {len(shape)} repeats of {list(shape)}")
    paired = [size for pair in zip(times, shape, strict=True) for size in pair]
    ones = [size for pair in zip([1] * len(shape), shape, strict=True) for size in pair]
    repeated = call.emit.broadcast(call.emit.reshape(x, ones), paired)
    return [call.emit.reshape(repeated, [a * b for a, b in zip(times, shape, strict=True)])]


def _pad(call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    rank, element = len(shape_of(x)), element_of(x)
    mode = call.choice("mode", "constant", ("constant", "edge", "reflect", "wrap"))
    if call.opset < _PAD_INPUT_OPSET:
        amounts, value = call.integers("pads", [0] * (2 * rank)), call.number("value", 0)
        axes = list(range(rank))
    else:
        amounts = call.known_integers(1, "the padding")
        value = call.known_scalar(2, "the value") if call.has(2) else 0
        given = call.known_integers(3, "the axes") if call.has(3) else range(rank)
        axes = call.axes(given, rank)
    if len(amounts) != 2 * len(axes):
        raise call.error(f"{len(amounts)} amounts of padding for {len(axes)} axes")
    low, high = [0] * rank, [0] * rank
    for position, axis in enumerate(axes):
        low[axis], high[axis] = amounts[position], amounts[len(axes) + position]
    if mode == "constant":
        return [call.emit.pad(x, low, high, call.emit.number(value, element))]
    return [_padded_with_itself(call, x, low, high, mode)]


def _padded_with_itself(
    call: Call, x: SSAValue, low: Sequence[int], high: Sequence[int], mode: str
) -> SSAValue:
    """`x` with its edge, its mirror image or itself around it: indices are moved inside."""
    shape = shape_of(x)
    for size, before, after in zip(shape, low, high, strict=True):
        most = {"reflect": size - 1, "wrap": size}.get(mode, max(before, after))
        if min(before, after) < 0 or max(before, after) > most:
            raise call.error(f"padding {before}, {after} of a dimension of size {size}")
    sizes = [a + n + b for a, n, b in zip(low, shape, high, strict=True)]
    init = call.emit.empty(sizes, element_of(x))
    identity = [AffineExpr.dimension(dim) for dim in range(len(shape))]

    def read(body: ScalarBuilder, _args: Sequence[SSAValue]) -> SSAValue:
        indices: list[SSAValue] = []
        for dim, (size, before) in enumerate(zip(shape, low, strict=True)):
            index = body.index(dim)
            if before or sizes[dim] != size:
                index = _index_inside(body, index, before, size, mode)
            indices.append(index)
        return body.insert(tensor.ExtractOp(x, indices, element_of(x)))

    return call.emit.generic([], (init, identity), len(shape), 0, read)


def _index_inside(
    body: ScalarBuilder, index: SSAValue, before: int, size: int, mode: str
) -> SSAValue:
    """Which index of a dimension of `size` stands at `index` of the padded one."""

    def number(value: int) -> SSAValue:
        return body.number(value, index.type)

    if mode == "wrap":
        turned = body.insert(arith.AddiOp(index, number(size - before)))
        return body.insert(arith.RemSIOp(turned, number(size)))
    moved = body.insert(arith.SubiOp(index, number(before)))
    if mode == "edge":
        above = body.insert(arith.MaxSIOp(moved, number(0)))
        return body.insert(arith.MinSIOp(above, number(size - 1)))
    mirrored = body.insert(arith.MaxSIOp(moved, body.insert(arith.SubiOp(number(0), moved))))
    return body.insert(
        arith.MinSIOp(mirrored, body.insert(arith.SubiOp(number(2 * (size - 1)), mirrored)))
    )


def _constant_of_shape(call: Call) -> Sequence[SSAValue]:
    value = call.attribute("value", np.zeros(1, np.float32))
    element = element_type_of_array(value)
    if element is None:
        raise call.error(f"elements of type {value.dtype} are not supported")
    shape = call.known_integers(0, "the shape")
    return [call.emit.filled(value.item(), shape, element)]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": _identity,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
