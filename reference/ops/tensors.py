"""`tensor`: views where the semantics allow one, copies where an element changes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerAttr, ShapedType

from convir.analysis.slices import dropped_dims
from convir.reference.dtypes import Array, poison
from convir.reference.errors import EvaluationError
from convir.reference.interpreter import Frame, Handlers, require_memory, uniform
from convir.reference.loops import LoopRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import Operation, SSAValue

HANDLERS = Handlers()


def _integers(op: Operation, name: str) -> tuple[int, ...]:
    attribute = op.properties.get(name, op.attributes.get(name))
    if not isinstance(attribute, DenseArrayBase):
        raise EvaluationError(op, f"has no {name}")
    return tuple(int(value) for value in attribute.get_values())


def _segments(op: Operation, operands: Sequence[Array]) -> list[tuple[Array, ...]]:
    """The operands by segment: `operandSegmentSizes` of them each."""
    segments: list[tuple[Array, ...]] = []
    start = 0
    for size in _integers(op, "operandSegmentSizes"):
        segments.append(tuple(operands[start : start + size]))
        start += size
    return segments


def _mixed(op: Operation, static: Iterable[int], dynamic: Sequence[Array]) -> tuple[int, ...]:
    """Static integers with the dynamic ones put in their places."""
    rest = iter(dynamic)
    return tuple(
        uniform(op, next(rest), "size or offset") if value == DYNAMIC_INDEX else value
        for value in static
    )


def _shape_of(op: Operation, value: SSAValue) -> tuple[int, ...]:
    if not isinstance(value.type, ShapedType):
        raise EvaluationError(op, f"has a {value.type} where a tensor is expected")
    return tuple(value.type.get_shape())


def _result_shape(op: Operation, dynamic: Sequence[Array]) -> tuple[int, ...]:
    return _mixed(op, _shape_of(op, op.results[0]), dynamic)


@HANDLERS.handles("tensor.empty")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (poison(_result_shape(op, operands), frame.dtype(op, op.results[0])),)


@HANDLERS.handles("tensor.splat")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return (np.broadcast_to(operands[0], _result_shape(op, operands[1:])),)


@HANDLERS.handles("tensor.from_elements")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    shape = _result_shape(op, ())
    if not operands:
        return (np.zeros(shape, frame.dtype(op, op.results[0])),)
    return (np.stack([np.asarray(operand) for operand in operands]).reshape(shape),)


@HANDLERS.handles("tensor.dim")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source, dim = operands[0], uniform(op, operands[1], "dimension")
    if not 0 <= dim < source.ndim:
        raise EvaluationError(op, f"asks for dimension {dim} of a tensor of rank {source.ndim}")
    return (np.array(source.shape[dim], np.int64),)


@HANDLERS.handles("tensor.cast")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    return operands


@HANDLERS.handles("tensor.collapse_shape")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source = operands[0]
    groups = _reassociation(op)
    if not groups and source.size == 1:
        return (source.reshape(()),)
    if [dim for group in groups for dim in group] != list(range(source.ndim)):
        raise EvaluationError(op, f"does not group the {source.ndim} dimensions of its operand")
    return (source.reshape([prod(source.shape[dim] for dim in group) for group in groups]),)


@HANDLERS.handles("tensor.expand_shape")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source = operands[0]
    static = _integers(op, "static_output_shape")
    shape = _mixed(op, static, operands[1:])
    groups = _reassociation(op)
    sizes = tuple(prod(shape[dim] for dim in group) for group in groups)
    if sizes != source.shape:
        raise EvaluationError(op, f"expands {source.shape} to {shape}, of other sizes")
    return (source.reshape(shape),)


def _reassociation(op: Operation) -> list[list[int]]:
    attribute = op.properties.get("reassociation", op.attributes.get("reassociation"))
    groups: list[list[int]] = []
    for group in getattr(attribute, "data", ()):
        groups.append([dim.value.data for dim in group.data if isinstance(dim, IntegerAttr)])
    return groups


@HANDLERS.handles("tensor.reshape")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source, shape = operands
    sizes = [int(size) for size in shape]
    if prod(sizes) != source.size:
        raise EvaluationError(op, f"reshapes {source.shape} to {tuple(sizes)}, of another size")
    return (source.reshape(sizes),)


@HANDLERS.handles("tensor.concat")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    dim = op.properties["dim"]
    if not isinstance(dim, IntegerAttr):
        raise EvaluationError(op, "has no dimension")
    return (np.concatenate(operands, axis=dim.value.data),)


def _window(
    op: Operation, shape: tuple[int, ...], segments: Sequence[tuple[Array, ...]]
) -> tuple[slice, ...]:
    """The slices of a slice op; `segments` are its dynamic offsets, sizes and strides.

    Raises:
        EvaluationError: the slice does not lie inside `shape`.
    """
    names = ("static_offsets", "static_sizes", "static_strides")
    offsets, sizes, strides = (
        _mixed(op, _integers(op, name), dynamic)
        for name, dynamic in zip(names, segments, strict=True)
    )
    window: list[slice] = []
    for dim, (bound, offset, size, stride) in enumerate(
        zip(shape, offsets, sizes, strides, strict=True)
    ):
        last = offset + (size - 1) * stride
        if size < 0 or stride < 1 or offset < 0 or (size > 0 and last >= bound):
            raise EvaluationError(
                op, f"slices {offset}:+{size}:{stride} of a dimension #{dim} of size {bound}"
            )
        window.append(slice(offset, last + 1 if size > 0 else offset, stride))
    return tuple(window)


@HANDLERS.handles("tensor.extract_slice")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    (source,), *dynamic = _segments(op, operands)
    view = source[_window(op, source.shape, dynamic)]
    declared = _shape_of(op, op.results[0])
    return (view.reshape(_without_dropped(op, view.shape, declared)),)


@HANDLERS.handles("tensor.insert_slice")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    (source,), (dest,), *dynamic = _segments(op, operands)
    window = _window(op, dest.shape, dynamic)
    result = np.array(dest, order="C")
    target = result[window]
    if _without_dropped(op, target.shape, _shape_of(op, op.operands[0])) != source.shape:
        raise EvaluationError(op, f"inserts {source.shape} where {target.shape} is sliced")
    result[window] = source.reshape(target.shape)
    return (result,)


def _without_dropped(
    op: Operation, shape: tuple[int, ...], declared: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape of a slice without the unit dimensions that its type `declared` leaves out.

    Raises:
        EvaluationError: `declared` is not the slice's sizes with unit dimensions left out.
    """
    sizes = _integers(op, "static_sizes")
    dropped = dropped_dims(sizes, declared)
    if dropped is None:
        raise EvaluationError(op, f"has a slice of sizes {sizes} but a type of sizes {declared}")
    return tuple(size for dim, size in enumerate(shape) if dim not in dropped)


@HANDLERS.handles("tensor.pad")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    (source,), low_sizes, high_sizes = _segments(op, operands)
    low = _mixed(op, _integers(op, "static_low"), low_sizes)
    high = _mixed(op, _integers(op, "static_high"), high_sizes)
    if min((*low, *high), default=0) < 0:
        raise EvaluationError(op, "has a negative padding")
    shape = tuple(map(sum, zip(low, source.shape, high, strict=True)))
    require_memory(op, prod(shape) * source.dtype.itemsize)
    result = np.empty(shape, source.dtype)
    result[...] = _region_over(op, shape, frame)
    result[tuple(slice(a, a + n) for a, n in zip(low, source.shape, strict=True))] = source
    return (result,)


@HANDLERS.handles("tensor.generate")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    shape = _result_shape(op, operands)
    return (np.array(np.broadcast_to(_region_over(op, shape, frame), shape)),)


def _region_over(op: Operation, shape: tuple[int, ...], frame: Frame) -> Array:
    """What the region of `op` yields at every index of `shape`, broadcastable."""
    loops = LoopRange.full(shape)
    block = op.regions[0].block
    inner = Frame(frame.interpreter, {}, loops, frame)
    for dim, argument in enumerate(block.args):
        inner.values[argument] = loops.index(dim)
    (value,) = frame.interpreter.run_block(block, inner)
    return value


@HANDLERS.handles("tensor.insert")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    scalar, dest, *indices = operands
    position = tuple(uniform(op, index, "index") for index in indices)
    _require_inside(op, dest.shape, indices)
    result = np.array(dest, order="C")
    result[position] = scalar
    return (result,)


@HANDLERS.handles("tensor.extract")
def _(op: Operation, operands: tuple[Array, ...], frame: Frame) -> tuple[Array, ...]:
    source, *indices = operands
    if len(indices) != source.ndim:
        raise EvaluationError(op, f"has {len(indices)} indices into a rank of {source.ndim}")
    if not indices:
        return (source,)
    _require_inside(op, source.shape, indices)
    axes = [_varying_axis(index) for index in indices]
    varying = [axis for axis in axes if axis is not None]
    if None in axes or len(set(varying)) != len(varying):
        return (source[tuple(indices)],)
    return (_outer_extract(source, indices, varying),)


def _require_inside(op: Operation, shape: tuple[int, ...], indices: Sequence[Array]) -> None:
    for dim, (index, size) in enumerate(zip(indices, shape, strict=True)):
        if index.size and (index.min() < 0 or index.max() >= size):
            raise EvaluationError(
                op, f"reads {index.min()} to {index.max()} of a dimension #{dim} of size {size}"
            )


def _varying_axis(index: Array) -> int | None:
    """The one axis along which an index array varies (any, if none), or None if several."""
    axes = [axis for axis, size in enumerate(index.shape) if size != 1]
    if len(axes) > 1 or index.ndim == 0:
        return None
    return axes[0] if axes else None


def _outer_extract(source: Array, indices: Sequence[Array], axes: Sequence[int]) -> Array:
    """`source[ix_(*indices)]` with the dimension d on the axis `axes[d]`: slices and takes."""
    for dim, index in enumerate(indices):
        source = _take(source, index.reshape(-1), dim)
    rank = indices[0].ndim
    absent = [axis for axis in range(rank) if axis not in axes]
    spread = source.reshape(*source.shape, *([1] * len(absent)))
    return spread.transpose(np.argsort([*axes, *absent]))


def _take(source: Array, index: Array, dim: int) -> Array:
    """`np.take` along `dim`, as a view where the indices are evenly spaced."""
    step = int(index[1] - index[0]) if index.size > 1 else 1
    if index.size == 0 or step == 0 or np.any(np.diff(index) != step):
        return np.take(source, index, axis=dim)
    first, last = int(index[0]), int(index[-1])
    end = last + (1 if step > 0 else -1)
    return source[(slice(None),) * dim + (slice(first, end if end >= 0 else None, step),)]
