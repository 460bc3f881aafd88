"""Calls that move elements and compute none."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from convir.frontends.pytorch.errors import UnsupportedError
from convir.frontends.pytorch.spelling import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.pytorch.call import AtenCall, Operator
    from convir.frontends.pytorch.spelling import Spelling


def _reshape(call: AtenCall) -> Value:
    return call.spell.reshape(call.value(), call.shape)


def _permute(call: AtenCall) -> Value:
    return call.spell.transpose(call.value(), [int(axis) for axis in call["dims"]])


def _transpose(call: AtenCall) -> Value:
    x = call.value()
    if "dim0" not in call.arguments:  # aten.t
        return call.spell.transpose(x, list(range(x.rank))[::-1])
    order = list(range(x.rank))
    if order:
        first, second = call.axis("dim0"), call.axis("dim1")
        order[first], order[second] = second, first
    return call.spell.transpose(x, order)


def _expand(call: AtenCall) -> Value:
    return call.spell.expand(call.value(), call.shape)


def _tensors(call: AtenCall) -> list[Value]:
    """The list of tensors of a call, of its dtype."""
    found = call["tensors"]
    if not all(isinstance(each, Value) for each in found):
        raise UnsupportedError("its argument 'tensors' is no list of tensors")
    return [call.spell.cast(each, call.dtype) for each in found]


def _concat(call: AtenCall) -> Value:
    values = _tensors(call)
    rank = len(call.shape)
    if 0 in call.shape:
        return _full_like(0, call)
    # PyTorch leaves out what has one dimension of no elements, whatever the others have.
    values = [each for each in values if each.rank == rank and (each.size or rank > 1)]
    axis = int(call["dim"]) % max(rank, 1)
    return call.spell.concat([each for each in values if each.shape[axis]], axis)


def _stack(call: AtenCall) -> Value:
    axis = int(call["dim"]) % len(call.shape)
    wide = [
        call.spell.reshape(each, [*each.shape[:axis], 1, *each.shape[axis:]])
        for each in _tensors(call)
    ]
    return call.spell.concat(wide, axis)


def _bounds(call: AtenCall, size: int) -> tuple[int, int, int]:
    start, end = call.get("start", 0), call.get("end", size)
    start, end = (min(max(x + size if x < 0 else x, 0), size) for x in (start, end))
    return start, max(start, end), int(call.get("step", 1))


def _slice(call: AtenCall) -> Value:
    x, axis = call.value(), call.axis()
    return call.spell.slice(x, axis, *_bounds(call, x.shape[axis]))


def _selected(spell: Spelling, x: Value, axis: int, index: int) -> Value:
    index %= x.shape[axis]
    one = spell.slice(x, axis, index, index + 1)
    return spell.reshape(one, [*x.shape[:axis], *x.shape[axis + 1 :]])


def _select(call: AtenCall) -> Value:
    return _selected(call.spell, call.value(), call.axis(), int(call["index"]))


def _unbind(call: AtenCall) -> Sequence[Value]:
    x, axis = call.value(), call.axis()
    return [_selected(call.spell, x, axis, i) for i in range(x.shape[axis])]


def _split(call: AtenCall) -> Sequence[Value]:
    """Parts of the sizes that the results have."""
    x, axis = call.value(), call.axis()
    parts: list[Value] = []
    start = 0
    for result in call.results:
        assert result is not None
        end = start + result[0][axis]
        parts.append(call.spell.slice(x, axis, start, end))
        start = end
    return parts


def _flip(call: AtenCall) -> Value:
    x = call.value()
    for axis in call.axes("dims"):
        bounds = [call.spell.integers([n]) for n in (-1, -x.shape[axis] - 1, axis, -1)]
        x = call.spell.node("Slice", [x, *bounds], x.shape)
    return x


def _listed(given: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", given) if isinstance(given, list | tuple) else [given]


def _roll(call: AtenCall) -> Value:
    x, spell = call.value(), call.spell
    shifts, axes = (_listed(call[name]) for name in ("shifts", "dims"))
    if not axes:
        flat = spell.reshape(x, [x.size])
        return spell.reshape(_rolled(spell, flat, 0, shifts[0]), x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(spell, x, int(axis) % x.rank, int(shift))
    return x


def _rolled(spell: Spelling, x: Value, axis: int, shift: int) -> Value:
    size = x.shape[axis]
    if not size or shift % size == 0:
        return x
    place = size - shift % size
    return spell.concat([spell.slice(x, axis, place, size), spell.slice(x, axis, 0, place)], axis)


def _repeat(call: AtenCall) -> Value:
    x, times = call.value(), [int(each) for each in call["repeats"]]
    x = call.spell.reshape(x, [*[1] * (len(times) - x.rank), *x.shape])
    return call.spell.node("Tile", [x, call.spell.integers(times)], call.shape)


def _padding(given: Sequence[int], rank: int) -> list[int]:
    """PyTorch's padding, the last dimension first, as ONNX has it."""
    pairs = [(int(a), int(b)) for a, b in zip(given[::2], given[1::2], strict=True)][::-1]
    pairs = [(0, 0)] * (rank - len(pairs)) + pairs
    return [first for first, _ in pairs] + [last for _, last in pairs]


def _pad(call: AtenCall, mode: str, given: Sequence[int], value: float = 0) -> Value:
    x = call.value()
    amounts = _padding(given, x.rank)
    if mode != "constant":
        call.check(min(amounts, default=0) >= 0, "negative padding that is no zeros")
    operands = [x, call.spell.integers(amounts)]
    if mode == "constant":
        operands.append(call.spell.number(value, x.dtype))
    return call.spell.node("Pad", operands, call.shape, mode=mode)


def _constant_pad(call: AtenCall) -> Value:
    return _pad(call, "constant", call["pad"], call.get("value", 0))


def _padded(mode: str, call: AtenCall) -> Value:
    return _pad(call, mode, call["padding"])


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _any_pad(call: AtenCall) -> Value:
    mode = _MODES[str(call.get("mode", "constant"))]
    return _pad(call, mode, call["pad"], call.get("value", 0))


def _pixel_shuffle(call: AtenCall) -> Value:
    x, block = call.value(), int(call["upscale_factor"])
    call.check(x.rank == 4, "a shuffle of other than 4 dimensions")
    return call.spell.node("DepthToSpace", [x], call.shape, blocksize=block, mode="CRD")


def _pixel_unshuffle(call: AtenCall) -> Value:
    x, block, spell = call.value(), int(call["downscale_factor"]), call.spell
    *batch, channels, height, width = x.shape
    order = [*range(len(batch))]
    count = len(batch)
    order += [count + i for i in (0, 2, 4, 1, 3)]
    apart = [*batch, channels, height // block, block, width // block, block]
    return spell.reshape(spell.transpose(spell.reshape(x, apart), order), call.shape)


def _index_select(call: AtenCall) -> Value:
    operands = [call.value(), call.value("index")]
    return call.spell.node("Gather", operands, call.shape, axis=call.axis())


def _gather(call: AtenCall) -> Value:
    operands = [call.value(), call.value("index")]
    return call.spell.node("GatherElements", operands, call.shape, axis=call.axis())


def _embedding(call: AtenCall) -> Value:
    operands = [call.value("weight"), call.value("indices")]
    return call.spell.node("Gather", operands, call.shape, axis=0)


def _index(call: AtenCall) -> Value:
    """Dimensions that lie beside each other, each by a tensor of indices."""
    x, spell, indices = call.value(), call.spell, list(call["indices"])
    places = [i for i, each in enumerate(indices) if each is not None]
    found = [indices[i] for i in places]
    call.check(all(each.dtype in _INDICES for each in found), "a mask as an index")
    beside = places == list(range(places[0], places[0] + len(places)))
    counts = _repeats(spell, x, places[0], found) if beside else None
    if counts is not None:
        return spell.repeated(x, counts)
    if len(places) == 1:
        return spell.node("Gather", [x, found[0]], call.shape, axis=places[0])
    call.check(beside, "indices apart")
    # As one dimension: the place in it is the sum of the places times what lies behind each.
    sizes = [x.shape[i] for i in places]
    shape: Sequence[int] = cast("Any", torch).broadcast_shapes(*(each.shape for each in found))
    total: Value | None = None
    for i, each in enumerate(found):
        size = spell.number(sizes[i], torch.int64)
        each = spell.cast(each, torch.int64)
        zero = spell.number(0, torch.int64)
        negative = spell.node("Less", [each, zero], each.shape, torch.bool)
        wrapped = spell.node("Add", [each, size], each.shape)
        each = spell.node("Where", [negative, wrapped, each], each.shape, torch.int64)
        step = spell.number(prod(sizes[i + 1 :]), torch.int64)
        part = spell.node("Mul", [each, step], each.shape)
        total = part if total is None else spell.node("Add", [total, part], shape)
    assert total is not None
    flat = [*x.shape[: places[0]], prod(sizes), *x.shape[places[-1] + 1 :]]
    return spell.node("Gather", [spell.reshape(x, flat), total], call.shape, axis=places[0])


_INDICES = (torch.int64, torch.int32)


def _repeats(spell: Spelling, x: Value, first: int, indices: Sequence[Value]) -> list[int] | None:
    """How often indices repeat each element along each dimension of `x`, as nearest neighbours of
    an image do that is an integer as large; None where they do something else.

    Args:
        spell: which knows constants.
        x: what is indexed.
        first: the dimension that the first tensor of indices is of.
        indices: of one dimension after another.
    """
    counts = [1] * x.rank
    for i, value in enumerate(indices):
        size, known = x.shape[first + i], spell.known(value)
        if known is None or known.ndim > len(indices) or not size or known.size % size:
            return None
        behind = len(indices) - 1 - i
        along = [1] * (known.ndim - 1 - behind) + [known.size] + [1] * behind
        wanted = np.repeat(np.arange(size), known.size // size)
        if list(known.shape) != along or not np.array_equal(known.reshape(-1), wanted):
            return None
        counts[first + i] = known.size // size
    return counts


def _slice_scatter(call: AtenCall) -> Value:
    """`self` with `src` in place of a slice."""
    x, axis = call.value(), call.axis()
    start, end, step = _bounds(call, x.shape[axis])
    source = call.spell.cast(call.value("src"), x.dtype)
    if step != 1:
        count = len(range(start, end, step))
        index = torch.arange(start, end, step).reshape(
            [count if i == axis else 1 for i in range(x.rank)]
        )
        places = call.spell.tensor(index.expand(source.shape).contiguous())
        return call.spell.node("ScatterElements", [x, places, source], x.shape, axis=axis)
    parts = [
        call.spell.slice(x, axis, 0, start),
        source,
        call.spell.slice(x, axis, end, x.shape[axis]),
    ]
    return call.spell.concat([part for part in parts if part.shape[axis]], axis)


def _select_scatter(call: AtenCall) -> Value:
    x, axis = call.value(), call.axis()
    index = int(call["index"]) % x.shape[axis]
    source = call.spell.cast(call.value("src"), x.dtype)
    source = call.spell.reshape(source, [*x.shape[:axis], 1, *x.shape[axis + 1 :]])
    parts = [
        call.spell.slice(x, axis, 0, index),
        source,
        call.spell.slice(x, axis, index + 1, x.shape[axis]),
    ]
    return call.spell.concat([part for part in parts if part.shape[axis]], axis)


def _triangle(upper: int, call: AtenCall) -> Value:
    offset = call.spell.number(int(call.get("diagonal", 0)), torch.int64)
    return call.spell.node("Trilu", [call.value(), offset], call.shape, upper=upper)


def _full_like(value: Any, call: AtenCall) -> Value:
    fill = call["fill_value"] if value is None else value
    if isinstance(fill, Value):
        raise UnsupportedError("a value that is a tensor")
    return call.spell.expand(call.spell.number(fill, call.dtype), call.shape)


_RESHAPES = (
    *("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints"),
    *("squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default", "unflatten.int"),
    *("view_copy.default", "ravel.default"),
)
_SPLITS = (
    *("split.Tensor", "split_with_sizes.default", "chunk.default", "split.sizes"),
    *("tensor_split.sections",),
)

OPERATORS: Mapping[str, Operator] = {
    **{f"aten.{name}": _reshape for name in _RESHAPES},
    "aten.permute.default": _permute,
    "aten.transpose.int": _transpose,
    "aten.t.default": _transpose,
    **{f"aten.{name}.default": _expand for name in ("expand", "expand_as", "broadcast_to")},
    "aten.cat.default": _concat,
    "aten.stack.default": _stack,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.unbind.int": _unbind,
    **{f"aten.{name}": _split for name in _SPLITS},
    "aten.flip.default": _flip,
    "aten.roll.default": _roll,
    "aten.repeat.default": _repeat,
    "aten.constant_pad_nd.default": _constant_pad,
    "aten.pad.default": _any_pad,
    **{f"aten.reflection_pad{n}d.default": partial(_padded, "reflect") for n in (1, 2, 3)},
    **{f"aten.replication_pad{n}d.default": partial(_padded, "edge") for n in (1, 2, 3)},
    "aten.pixel_shuffle.default": _pixel_shuffle,
    "aten.pixel_unshuffle.default": _pixel_unshuffle,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.embedding.default": _embedding,
    "aten.index.Tensor": _index,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
    "aten.tril.default": partial(_triangle, 0),
    "aten.triu.default": partial(_triangle, 1),
    "aten.full_like.default": partial(_full_like, None),
    "aten.zeros_like.default": partial(_full_like, 0),
    "aten.ones_like.default": partial(_full_like, 1),
}
