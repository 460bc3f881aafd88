"""Convolutions, pooling, and resizing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch

from convir.frontends.pytorch.ops.matrix import product
from convir.frontends.pytorch.spelling import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.pytorch.call import AtenCall, Operator
    from convir.frontends.pytorch.spelling import Spelling


def _each(given: Any, rank: int) -> list[int]:
    """A list of one integer a dimension."""
    several = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given])
    listed = [int(x) for x in several]
    return listed * rank if len(listed) == 1 else listed


def _convolved(
    call: AtenCall, padding: Sequence[int], *, transposed: bool, output_padding: Any = 0
) -> Value:
    x, weight = call.floats("input"), call.floats("weight")
    rank = weight.rank - 2
    is_batch = x.rank == weight.rank
    if not is_batch:  # PyTorch leaves the batch out.
        x = call.spell.reshape(x, [1, *x.shape])
    shape = call.shape if is_batch else (1, *call.shape)
    operands: list[Value | None] = [x, weight]
    bias = call.get("bias")
    if isinstance(bias, Value):
        operands.append(bias)
    attributes: dict[str, Any] = {
        "strides": _each(call["stride"], rank),
        "dilations": _each(call["dilation"], rank),
        "pads": [*padding, *padding],
        "group": int(call["groups"]),
    }
    if transposed:
        attributes["output_padding"] = _each(output_padding, rank)
    op = "ConvTranspose" if transposed else "Conv"
    result = call.spell.node(op, operands, shape, **attributes)
    return call.spell.reshape(result, call.shape)


def _convolution(call: AtenCall) -> Value:
    rank = call.value("weight").rank - 2
    padding, transposed = _each(call["padding"], rank), bool(call["transposed"])
    extra = call["output_padding"]
    return _convolved(call, padding, transposed=transposed, output_padding=extra)


def _conv(call: AtenCall) -> Value:
    padding = _each(call["padding"], call.value("weight").rank - 2)
    return _convolved(call, padding, transposed=False)


def _conv_transpose(call: AtenCall) -> Value:
    padding = _each(call["padding"], call.value("weight").rank - 2)
    extra = call["output_padding"]
    return _convolved(call, padding, transposed=True, output_padding=extra)


def _pooled(op: str, rank: int, call: AtenCall, **attributes: Any) -> Value:
    x = call.floats()
    is_batch = x.rank == rank + 2
    if not is_batch:
        x = call.spell.reshape(x, [1, *x.shape])
    shape = call.shape if is_batch else (1, *call.shape)
    taps = _each(call["kernel_size"], rank)
    padding = _each(call["padding"], rank)
    result = call.spell.node(
        op,
        [x],
        shape,
        kernel_shape=taps,
        strides=_each(call["stride"] or taps, rank),
        pads=[*padding, *padding],
        ceil_mode=int(call.get("ceil_mode", False)),
        **attributes,
    )
    return call.spell.reshape(result, call.shape)


def _max_pool(rank: int, call: AtenCall) -> Value:
    return _pooled("MaxPool", rank, call, dilations=_each(call["dilation"], rank))


def _max_pool_alone(rank: int, call: AtenCall) -> Sequence[Value | None]:
    """Without where the maxima lie."""
    return [_max_pool(rank, call), None]


def _average_pool(rank: int, call: AtenCall) -> Value:
    call.check(call.get("divisor_override") is None, "a divisor of its own")
    return _pooled(
        "AveragePool", rank, call, count_include_pad=int(call.get("count_include_pad", True))
    )


def _weighted_windows(spell: Spelling, x: Value, outputs: Sequence[int]) -> Value:
    """Means of windows of several sizes: a product with their weights, dimension by dimension."""
    dtype = x.dtype
    x = spell.cast(x, torch.promote_types(dtype, torch.float32))
    for axis, out in enumerate(outputs, x.rank - len(outputs)):
        size = x.shape[axis]
        weights = torch.zeros(size, out, dtype=torch.float64)
        for i in range(out):
            window = slice(i * size // out, -(-(i + 1) * size // out))
            weights[window, i] = 1 / len(range(size)[window])
        swapped = list(range(x.rank))
        swapped[axis], swapped[-1] = swapped[-1], axis
        pooled = product(spell, spell.transpose(x, swapped), spell.tensor(weights.to(x.dtype)))
        x = spell.transpose(pooled, swapped)
    return spell.cast(x, dtype)


def _adaptive_pool(op: str, rank: int, call: AtenCall) -> Value:
    x, sizes = call.floats(), call["output_size"]
    spatial = x.shape[-rank:]
    several = cast("Sequence[Any]", sizes if isinstance(sizes, list | tuple) else [sizes] * rank)
    outputs = [
        int(out) if out is not None else size for out, size in zip(several, spatial, strict=True)
    ]
    leading = x.shape[: x.rank - rank]
    if all(out == 1 for out in outputs):
        axes = call.spell.integers(range(len(leading), x.rank))
        name = "ReduceMean" if op == "AveragePool" else "ReduceMax"
        return call.spell.node(name, [x, axes], [*leading, *outputs], keepdims=1)
    if any(size % out for size, out in zip(spatial, outputs, strict=True)):
        call.check(op == "AveragePool", f"windows of several sizes: {list(spatial)} to {outputs}")
        return _weighted_windows(call.spell, x, outputs)
    taps = [size // out for size, out in zip(spatial, outputs, strict=True)]
    wide = x if x.rank == rank + 2 else call.spell.reshape(x, [1, *x.shape])
    shape = [*wide.shape[:2], *outputs]
    pooled = call.spell.node(op, [wide], shape, kernel_shape=taps, strides=taps)
    return call.spell.reshape(pooled, [*leading, *outputs])


def _adaptive_max_pool_alone(rank: int, call: AtenCall) -> Sequence[Value | None]:
    return [_adaptive_pool("MaxPool", rank, call), None]


def _resized(mode: str, rank: int, call: AtenCall) -> Value:
    x = call.floats("input" if "input" in call.arguments else "self")
    spatial, outputs = x.shape[-rank:], call.shape[-rank:]
    given = _given_scales(call, rank)
    scales = [
        scale if scale is not None else out / size
        for scale, out, size in zip(given, outputs, spatial, strict=True)
    ]
    aligned = bool(call.get("align_corners", False))
    exact = all(
        int(size * scale) == out for size, scale, out in zip(spatial, scales, outputs, strict=True)
    )
    target: list[Value | None]
    if exact and not aligned:  # The scale that a caller gives says where results lie.
        from_scales = call.spell.tensor(torch.tensor([1.0] * (x.rank - rank) + scales))
        target = [None, from_scales]
    else:
        target = [None, None, call.spell.integers(call.shape)]
    coordinates = "align_corners" if aligned else "half_pixel"
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return call.spell.node("Resize", [x, *target], call.shape, **attributes)


def _given_scales(call: AtenCall, rank: int) -> list[float | None]:
    listed = call.get("scale_factors")
    if listed is not None:
        return [float(scale) for scale in listed]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
    return [call.get(name) for name in names[rank]]


_RANKS = {"1d": 1, "2d": 2, "3d": 3}
_RESIZED = {
    **{f"upsample_nearest{kind}": ("nearest", rank) for kind, rank in _RANKS.items()},
    **{"upsample_linear1d": ("linear", 1), "upsample_bilinear2d": ("linear", 2)},
    **{"upsample_trilinear3d": ("linear", 3), "upsample_bicubic2d": ("cubic", 2)},
}

OPERATORS: Mapping[str, Operator] = {
    "aten.convolution.default": _convolution,
    **{f"aten.conv{kind}.default": _conv for kind in _RANKS},
    "aten.conv_transpose1d.default": _conv_transpose,
    "aten.conv_transpose2d.input": _conv_transpose,
    "aten.conv_transpose3d.input": _conv_transpose,
    **{f"aten.max_pool{kind}.default": partial(_max_pool, rank) for kind, rank in _RANKS.items()},
    **{
        f"aten.max_pool{kind}_with_indices.default": partial(_max_pool_alone, _RANKS[kind])
        for kind in ("2d", "3d")
    },
    **{
        f"aten.avg_pool{kind}.default": partial(_average_pool, rank)
        for kind, rank in _RANKS.items()
    },
    **{
        f"aten.{name}_avg_pool{kind}.default": partial(_adaptive_pool, "AveragePool", rank)
        for kind, rank in _RANKS.items()
        for name in ("adaptive", "_adaptive")
    },
    **{
        f"aten.adaptive_max_pool{kind}.default": partial(_adaptive_max_pool_alone, rank)
        for kind, rank in _RANKS.items()
    },
    **{
        f"aten.{name}.{kind}": partial(_resized, mode, rank)
        for name, (mode, rank) in _RESIZED.items()
        for kind in ("default", "vec")
    },
}
