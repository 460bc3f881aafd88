"""Resize and Upsample, one dimension after the other: each output is a weighted sum of few inputs.

Which inputs, and with which weights, is computed here in f64 from the attributes; the ops gather
and sum. Where every weight is 1 (nearest neighbours) all dimensions are gathered at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, f32, f64
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.ops.tables import INDEX_ENTRIES, check_table
from convir.frontends.scalar_functions import wide_of, widened
from convir.frontends.tensor_functions.gather import Lookup, looked_up, repeated, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

_ROI_OPSET = 11
"""From this version on Resize has the inputs X, roi, scales, sizes; before, X and scales."""

_COORDINATES: Mapping[str, Callable[[Array, float, float, int, int], Array]] = {
    "half_pixel": lambda x, scale, _length, _size, _out: (x + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda x, scale, length, size, out: (
        size / 2 * (1 - out / length) + (x + 0.5) / scale - 0.5
    ),
    "pytorch_half_pixel": lambda x, scale, length, _size, _out: (
        (x + 0.5) / scale - 0.5 if length > 1 else np.zeros_like(x)
    ),
    "align_corners": lambda x, _scale, length, size, _out: (
        x * (size - 1) / (length - 1) if length > 1 else np.zeros_like(x)
    ),
    "asymmetric": lambda x, scale, _length, _size, _out: x / scale,
}
"""The input position of output position x; with the scale, size * scale, and both sizes."""

_CROPPED = "tf_crop_and_resize"
"""Coordinates that depend on a region of interest, and may lie outside of the input."""

_WHOLE = (0.0, 1.0)
"""The region that is all of a dimension."""

_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class _Taps:
    """How one dimension is resized."""

    indices: Array
    """outputs x taps, of int64."""
    weights: Array
    """outputs x taps, of f64."""


def _resize(call: Call) -> Sequence[SSAValue]:
    (x,) = call.floats(0)
    mode = call.choice("mode", "nearest", ("nearest", "linear", "cubic"))
    beyond = call.number("extrapolation_value", 0.0)
    antialias = bool(call.attribute("antialias", 0))
    old = call.opset < _ROI_OPSET
    transform = call.choice(
        "coordinate_transformation_mode",
        "asymmetric" if old else "half_pixel",
        (*_COORDINATES, _CROPPED),
    )
    rounding = call.choice(
        "nearest_mode", "floor" if old else "round_prefer_floor", tuple(_ROUNDINGS)
    )
    cubic = call.number("cubic_coeff_a", -0.75)
    excludes = bool(call.attribute("exclude_outside", 0))
    scales, lengths, sizes = _target(call, shape_of(x), old=old)
    crops = _crops(call, len(scales)) if transform == _CROPPED else {}
    taps: dict[int, _Taps] = {}
    outside: dict[int, Array] = {}
    targets = zip(shape_of(x), scales, lengths, sizes, strict=True)
    for dim, (size, scale, length, out) in enumerate(targets):
        if size == out and scale == 1 and crops.get(dim, _WHOLE) == _WHOLE:
            continue
        check_table(out * INDEX_ENTRIES)
        places = np.arange(out, dtype=np.float64)
        if transform == _CROPPED:
            positions = _cropped(places, length, size, crops.get(dim, _WHOLE))
            outside[dim] = (positions < 0) | (positions > size - 1)
        else:
            positions = _COORDINATES[transform](places, scale, length, size, out)
        if antialias and mode != "nearest":
            taps[dim] = _stretched(mode, positions, size, min(scale, 1.0), cubic, excludes)
        else:
            taps[dim] = _taps(mode, positions, size, _ROUNDINGS[rounding], cubic, excludes)
    x = _gathered(call, x, taps) if mode == "nearest" else _interpolated(call, x, taps)
    for dim, is_outside in outside.items():
        x = _replaced(call, x, dim, is_outside, beyond)
    return [x]


def _crops(call: Call, rank: int) -> dict[int, tuple[float, float]]:
    """Where in each dimension the part begins and ends that is resized, 0 to 1."""
    given = call.attribute("axes", None)
    axes = list(range(rank)) if given is None else call.axes(given, rank)
    region = call.known_numbers(1, "the region")
    if len(region) != 2 * len(axes):
        raise call.error(f"{len(region)} ends of a region for {len(axes)} axes")
    if not np.isfinite(region).all():
        raise call.error(f"the ends {region} of a region are not all finite")
    ends = zip(region[: len(axes)], region[len(axes) :], strict=True)
    return dict(zip(axes, ends, strict=True))


def _cropped(places: Array, length: float, size: int, crop: tuple[float, float]) -> Array:
    """The input positions of a part of a dimension, whose corners are aligned."""
    start, end = crop
    within = places / (length - 1) if length > 1 else np.full_like(places, 1 / 2)
    return (start + within * (end - start)) * (size - 1)


def _replaced(call: Call, x: SSAValue, dim: int, is_outside: Array, value: float) -> SSAValue:
    """`x` with `value` at the places of dimension `dim` that `is_outside` says."""
    if not is_outside.any():
        return x
    ones = [1] * (len(shape_of(x)) - 1 - dim)
    flags = table(call.emit, is_outside.astype(np.float32))
    flags = call.emit.reshape(flags, [len(is_outside), *ones])

    def choose(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        kept, flag = args
        is_set = body.insert(arith.CmpfOp(flag, body.number(0, f32), "one"))
        return body.insert(arith.SelectOp(is_set, body.number(value, kept.type), kept))

    return call.emit.elementwise([x, flags], choose)


def _upsample(call: Call) -> Sequence[SSAValue]:
    """The deprecated form: asymmetric coordinates, rounded down."""
    (x,) = call.floats(0)
    mode = call.choice("mode", "nearest", ("nearest", "linear"))
    given = call.attribute("scales", None)
    given = call.known_numbers(1, "the scales") if given is None else given
    scales = _scales(call, given, len(shape_of(x)))
    taps = {
        dim: _taps(mode, _places(size, scale) / scale, size, np.floor, 0, False)
        for dim, (size, scale) in enumerate(zip(shape_of(x), scales, strict=True))
        if scale != 1
    }
    return [_gathered(call, x, taps) if mode == "nearest" else _interpolated(call, x, taps)]


def _places(size: int, scale: float) -> Array:
    """The output positions of a dimension of `size` that is scaled."""
    check_table(size * scale * INDEX_ENTRIES)
    return np.arange(int(size * scale))


def _target(
    call: Call, shape: Sequence[int], *, old: bool
) -> tuple[list[float], list[float], list[int]]:
    """The scale, the scaled length and the size of every dimension.

    Lengths are those of sizes that are given: a size times its scale may round to another number.
    """
    rank = len(shape)
    given = call.attribute("axes", None)
    axes = list(range(rank)) if given is None else call.axes(given, rank)
    policy = call.choice(
        "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller")
    )
    at_scales = 1 if old else 2
    scales, sizes = [1.0] * rank, list(shape)
    if call.has(at_scales) and call.known(at_scales, "the scales").size:
        given = call.known_numbers(at_scales, "the scales")
        for axis, scale in zip(axes, _scales(call, given, len(axes)), strict=True):
            check_table(shape[axis] * scale * INDEX_ENTRIES)
            scales[axis], sizes[axis] = scale, int(np.floor(shape[axis] * scale))
        return scales, _scaled(shape, scales), sizes
    wanted = call.known_integers(3, "the sizes")
    have = [shape[axis] for axis in axes]
    if len(wanted) != len(have) or any(
        size != old and min(size, old) < 1 for size, old in zip(wanted, have, strict=True)
    ):
        raise call.error(f"sizes {have} are not resized to {wanted}")
    ratios = [1.0 if n == size else size / n for n, size in zip(have, wanted, strict=True)]
    if policy != "stretch":
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [ratio] * len(axes)
        wanted = [int(np.floor(shape[axis] * ratio + 0.5)) for axis in axes]
    for axis, ratio, size in zip(axes, ratios, wanted, strict=True):
        scales[axis], sizes[axis] = ratio, size
    lengths = list(map(float, sizes)) if policy == "stretch" else _scaled(shape, scales)
    return scales, lengths, sizes


def _scales(call: Call, given: Sequence[float], count: int) -> list[float]:
    """What a node gives as the scales of so many dimensions."""
    if len(given) != count or not all(0 < scale < inf for scale in given):
        raise call.error(f"{list(given)} are not {count} scales above 0")
    return [float(scale) for scale in given]


def _scaled(shape: Sequence[int], scales: Sequence[float]) -> list[float]:
    return [size * scale for size, scale in zip(shape, scales, strict=True)]


def _taps(
    mode: str,
    positions: Array,
    size: int,
    rounding: Callable[[Array], Array],
    cubic: float,
    exclude_outside: bool,
) -> _Taps:
    """The inputs around each position, and their weights; those outside are the edge's."""
    if mode == "nearest":
        indices = np.clip(rounding(positions).astype(np.int64), 0, size - 1)[:, None]
        return _Taps(indices, np.ones(indices.shape))
    if mode == "linear":
        positions = np.clip(positions, 0, size - 1)
    first = np.floor(positions)
    ratio = (positions - first)[:, None]
    if mode == "linear":
        offsets = np.array([0, 1])
        weights = np.concatenate([1 - ratio, ratio], axis=1)
    else:
        offsets = np.array([-1, 0, 1, 2])
        weights = _cubic_weights(np.abs(ratio - offsets[None, :]), cubic)
    indices = first.astype(np.int64)[:, None] + offsets[None, :]
    if exclude_outside:
        weights = np.where((indices >= 0) & (indices < size), weights, 0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return _Taps(np.clip(indices, 0, size - 1), weights)


def _stretched(
    mode: str, positions: Array, size: int, scale: float, cubic: float, exclude_outside: bool
) -> _Taps:
    """As `_taps`, with filters as wide as `1 / scale` of them, so that every input counts."""
    reach = {"linear": 1, "cubic": 2}[mode]
    check_table(len(positions) * 2 * reach / scale)
    first = int(np.floor(-reach / scale)) + 1
    offsets = np.arange(first, 2 - first)
    base = np.ceil(positions).astype(np.int64) - 1
    distance = np.abs(offsets[None, :] - (positions - base)[:, None]) * scale
    if mode == "linear":
        weights = np.clip(1 - distance, 0, 1)
    else:
        weights = np.where(distance < reach, _cubic_weights(distance, cubic), 0)
    indices = base[:, None] + offsets[None, :]
    if exclude_outside:
        weights = np.where((indices >= 0) & (indices < size), weights, 0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return _Taps(np.clip(indices, 0, size - 1), weights)


def _cubic_weights(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel at distances of up to 2."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, far)


def _gathered(call: Call, x: SSAValue, taps: Mapping[int, _Taps]) -> SSAValue:
    """`x` with each dimension of `taps` read at one index for each output."""
    shape = shape_of(x)
    if prod(shape) and not taps:
        return x
    counts = _repeats(shape, taps)
    if counts is not None:
        return repeated(call.emit, x, counts)
    sizes = [len(taps[d].indices) if d in taps else n for d, n in enumerate(shape)]
    sources = [
        Lookup(table(call.emit, taps[dim].indices[:, 0]), [dim], is_inside=True)
        if dim in taps
        else dim
        for dim in range(len(shape))
    ]
    return looked_up(call.emit, x, sizes, sources)


def _repeats(shape: Sequence[int], taps: Mapping[int, _Taps]) -> list[int] | None:
    """How often each element is read along each dimension, one behind the other; None where they
    are read otherwise."""
    counts = [1] * len(shape)
    for dim, found in taps.items():
        indices = found.indices[:, 0]
        counts[dim] = max(1, len(indices) // max(1, shape[dim]))
        if not np.array_equal(indices, np.repeat(np.arange(shape[dim]), counts[dim])):
            return None
    return counts


def _interpolated(call: Call, x: SSAValue, taps: Mapping[int, _Taps]) -> SSAValue:
    """`x` with each dimension of `taps` replaced by weighted sums of its elements.

    Those of f16 and bf16 are f32 until all dimensions are done, and rounded once.
    """
    total = x
    for dim, found in taps.items():
        total = _weighted_sums(call, total, dim, found)
    return call.converted(total, element_of(x))


def _weighted_sums(call: Call, x: SSAValue, dim: int, taps: _Taps) -> SSAValue:
    """One dimension of `x`; the sums are f32 or f64."""
    element, wide = element_of(x), wide_of(element_of(x))
    rank = len(shape_of(x))
    outputs = len(taps.indices)
    sizes = [outputs if d == dim else n for d, n in enumerate(shape_of(x))]
    loops = [AffineExpr.dimension(loop) for loop in range(rank + 1)]
    weights = taps.weights.astype(np.float64 if wide == f64 else np.float32)
    tables = [
        (table(call.emit, taps.indices), [loops[dim], loops[rank]]),
        (table(call.emit, weights), [loops[dim], loops[rank]]),
    ]

    def add(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        index, weight, total = args
        position = body.insert(arith.IndexCastOp(index, IndexType()))
        indices = [position if d == dim else body.index(d) for d in range(rank)]
        value = widened(body, body.insert(tensor.ExtractOp(x, indices, element)), wide)
        return body.insert(arith.AddfOp(total, body.insert(arith.MulfOp(weight, value))))

    init = call.emit.filled(0, sizes, wide)
    return call.emit.generic(tables, (init, loops[:rank]), rank, 1, add)


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "Resize": _resize,
    "Upsample": _upsample,
}
