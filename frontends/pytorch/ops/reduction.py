"""Sums, means, extrema, softmax, and normalisations."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

import torch

from convir.frontends.pytorch.spelling import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.pytorch.call import AtenCall, Operator
    from convir.frontends.pytorch.spelling import Spelling

_WIDE_SUMS = (torch.float16, torch.bfloat16)


def _kept(call: AtenCall, axes: Sequence[int]) -> list[int]:
    """The shape of the operand with 1 along `axes`."""
    return [1 if i in axes else size for i, size in enumerate(call.value().shape)]


def _reduced(op: str, call: AtenCall, x: Value, axes: Sequence[int]) -> Value:
    """`x` reduced along `axes`, in the shape of the result."""
    if not axes:
        return call.spell.reshape(x, call.shape)
    kept = call.spell.node(op, [x, call.spell.integers(axes)], _kept(call, axes), keepdims=1)
    return call.spell.reshape(kept, call.shape)


def _along(op: str, call: AtenCall) -> Value:
    axes = call.axes() if "dim" in call.arguments else list(range(call.value().rank))
    return _reduced(op, call, call.spell.cast(call.value(), call.dtype), axes)


def _extremum(op: str, call: AtenCall) -> Value:
    call.check(call.dtype != torch.bool, "booleans are no numbers")
    return _along(op, call)


def _with_indices(op: str, call: AtenCall) -> Sequence[Value]:
    """The extremum along a dimension, and where it is."""
    axis, keeps = call.axis(), int(call.get("keepdim", False))
    values = _reduced(op, call, call.value(), [axis])
    argument = {"ReduceMax": "ArgMax", "ReduceMin": "ArgMin"}[op]
    return [
        values,
        call.spell.node(
            argument, [call.value()], call.shape, torch.int64, axis=axis, keepdims=keeps
        ),
    ]


def _place(op: str, call: AtenCall) -> Value:
    x = call.value()
    if call.get("dim") is None:
        x, axis = call.spell.reshape(x, [x.size]), 0
    else:
        axis = call.axis()
    keeps = int(call.get("keepdim", False) and call.get("dim") is not None)
    shape = call.shape if call.get("dim") is not None or not keeps else [1]
    found = call.spell.node(op, [x], shape, torch.int64, axis=axis, keepdims=keeps)
    return call.spell.reshape(found, call.shape)


def _variance(call: AtenCall) -> Value:
    x, axes = call.floats(), call.axes()
    mean = call.spell.node(
        "ReduceMean", [x, call.spell.integers(axes)], _kept(call, axes), keepdims=1
    )
    return _spread(call, x, mean, axes)


def _spread(call: AtenCall, x: Value, mean: Value, axes: Sequence[int]) -> Value:
    spell, count = call.spell, prod(x.shape[axis] for axis in axes)
    if "unbiased" in call.arguments:
        correction = float(bool(call["unbiased"]))
    else:
        correction = call.get("correction", 1)
    call.check(count > correction, "the variance of too few elements")
    centered = spell.node("Sub", [x, mean], x.shape)
    squares = spell.node("Mul", [centered, centered], x.shape)
    mean_square = _reduced("ReduceMean", call, squares, axes)
    if correction == 0:
        return mean_square
    factor = spell.number(count / (count - correction), x.dtype)
    return spell.node("Mul", [mean_square, factor], mean_square.shape)


def _deviation(call: AtenCall) -> Value:
    variance = _variance(call)
    return call.spell.node("Sqrt", [variance], variance.shape)


def _variance_and_mean(call: AtenCall) -> Sequence[Value]:
    x, axes = call.floats(), call.axes()
    mean = call.spell.node(
        "ReduceMean", [x, call.spell.integers(axes)], _kept(call, axes), keepdims=1
    )
    return [_spread(call, x, mean, axes), call.spell.reshape(mean, call.shape)]


def _norm(call: AtenCall) -> Value:
    order = call.get("ord", call.get("p", 2))
    call.check(order in (1, 2), f"the norm of order {order}")
    x, spell = call.spell.cast(call.floats(), call.dtype), call.spell
    axes = call.axes()
    if order == 1:
        return _reduced("ReduceSum", call, spell.node("Abs", [x], x.shape), axes)
    total = _reduced("ReduceSum", call, spell.node("Mul", [x, x], x.shape), axes)
    return spell.node("Sqrt", [total], total.shape)


def _softmax(op: str, call: AtenCall) -> Value:
    x = call.spell.cast(call.value(), call.dtype)
    return call.spell.node(op, [x], call.shape, axis=call.axis())


def _any(call: AtenCall) -> Value:
    return _of_flags("ReduceMax", call)


def _all(call: AtenCall) -> Value:
    return _of_flags("ReduceMin", call)


def _of_flags(op: str, call: AtenCall) -> Value:
    flags = call.spell.cast(call.spell.cast(call.value(), torch.bool), torch.float32)
    axes = call.axes() if "dim" in call.arguments else list(range(flags.rank))
    return call.spell.cast(_reduced(op, call, flags, axes), torch.bool)


def _parameter(call: AtenCall, name: str, count: int, value: float) -> Value:
    """A parameter of `count` elements; all `value` where it is left out."""
    found = call.get(name)
    if isinstance(found, Value):
        return found
    dtype = call.value("input").dtype
    return call.spell.tensor(torch.full((count,), value, dtype=dtype))


def _inverse_root(spell: Spelling, value: Value) -> Value:
    """What a row is multiplied by, which costs each of its elements less than a division."""
    root = spell.node("Sqrt", [value], value.shape)
    return spell.node("Div", [spell.number(1, value.dtype), root], value.shape)


def _normalized_by_itself(call: AtenCall) -> Value:
    """Each channel by the mean and variance of all its elements."""
    x, spell = call.floats("input"), call.spell
    axes = [axis for axis in range(x.rank) if axis != 1]
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    wide = spell.cast(x, torch.float32)
    along = spell.integers(axes)
    mean = spell.node("ReduceMean", [wide, along], kept, keepdims=1)
    centered = spell.node("Sub", [wide, mean], x.shape)
    squares = spell.node("Mul", [centered, centered], x.shape)
    variance = spell.node("ReduceMean", [squares, along], kept, keepdims=1)
    shifted = spell.node("Add", [variance, spell.number(float(call["eps"]), wide.dtype)], kept)
    result = spell.node("Mul", [centered, _inverse_root(spell, shifted)], x.shape)
    for op, name in (("Mul", "weight"), ("Add", "bias")):
        found = call.get(name)
        if isinstance(found, Value):
            by = spell.reshape(spell.cast(found, wide.dtype), kept)
            result = spell.node(op, [result, by], x.shape)
    return spell.cast(result, x.dtype)


def _batch_norm(call: AtenCall) -> Value:
    if not isinstance(call.get("running_mean"), Value):
        return _normalized_by_itself(call)
    call.check(
        not call.get("training", False), "batch normalisation in training: call .eval() on it"
    )
    x = call.floats("input")
    channels = x.shape[1]
    names = (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0))
    parameters = [_parameter(call, name, channels, value) for name, value in names]
    parameters = [call.spell.cast(each, x.dtype) for each in parameters]
    return call.spell.node(
        "BatchNormalization", [x, *parameters], call.shape, epsilon=float(call["eps"])
    )


def _batch_norm_alone(call: AtenCall) -> Sequence[Value | None]:
    return [_batch_norm(call), *[None] * (len(call.results) - 1)]


def _layer_norm(call: AtenCall) -> Value:
    x, sizes = call.floats("input"), list(call["normalized_shape"])
    first = x.rank - len(sizes)
    gain = call.get("weight")
    if not isinstance(gain, Value):
        gain = call.spell.tensor(torch.ones(sizes, dtype=x.dtype))
    operands: list[Value | None] = [x, call.spell.cast(gain, x.dtype)]
    bias = call.get("bias")
    if isinstance(bias, Value):
        operands.append(call.spell.cast(bias, x.dtype))
    return call.spell.node(
        "LayerNormalization", operands, call.shape, axis=first, epsilon=float(call["eps"])
    )


def _layer_norm_alone(call: AtenCall) -> Sequence[Value | None]:
    return [_layer_norm(call), None, None]


def _groups_normalized(call: AtenCall, groups: int, eps: float) -> Value:
    x = call.floats("input")
    channels = x.shape[1]
    names = (("weight", 1.0), ("bias", 0.0))
    parameters = [
        call.spell.cast(_parameter(call, name, channels, value), x.dtype) for name, value in names
    ]
    return call.spell.node(
        "GroupNormalization", [x, *parameters], call.shape, num_groups=groups, epsilon=eps
    )


def _group_norm(call: AtenCall) -> Value:
    return _groups_normalized(call, int(call["num_groups"]), float(call["eps"]))


def _group_norm_alone(call: AtenCall) -> Sequence[Value | None]:
    return [_groups_normalized(call, int(call["group"]), float(call["eps"])), None, None]


def _instance_norm(call: AtenCall) -> Value:
    call.check(bool(call["use_input_stats"]), "running statistics of instances")
    return _groups_normalized(call, call.value("input").shape[1], float(call["eps"]))


def _rms_norm(call: AtenCall) -> Value:
    x, spell = call.floats("input"), call.spell
    axes = list(range(x.rank - len(call["normalized_shape"]), x.rank))
    eps = call.get("eps", torch.finfo(x.dtype).eps)
    wide = spell.cast(x, torch.float32) if x.dtype in _WIDE_SUMS else x
    kept = [1 if i in axes else size for i, size in enumerate(x.shape)]
    squares = spell.node("Mul", [wide, wide], x.shape)
    mean = spell.node("ReduceMean", [squares, spell.integers(axes)], kept, keepdims=1)
    shifted = spell.node("Add", [mean, spell.number(eps, wide.dtype)], kept)
    result = spell.node("Mul", [wide, _inverse_root(spell, shifted)], x.shape)
    gain = call.get("weight")
    if isinstance(gain, Value):
        result = spell.node("Mul", [result, spell.cast(gain, wide.dtype)], x.shape)
    return spell.cast(result, x.dtype)


def _running_sum(call: AtenCall) -> Value:
    x, axis = call.spell.cast(call.value(), call.dtype), call.axis()
    return call.spell.node("CumSum", [x, call.spell.number(axis, torch.int64)], call.shape)


def _largest(call: AtenCall) -> Sequence[Value]:
    x, axis = call.value(), call.axis()
    call.check(int(call["k"]) <= x.shape[axis] if x.rank else True, "more elements than there are")
    results = [each for each in call.results if each is not None]
    return call.spell.nodes(
        "TopK",
        [x, call.spell.integers([int(call["k"])])],
        results,
        axis=axis,
        largest=int(call["largest"]),
        sorted=int(call["sorted"]),
    )


OPERATORS: Mapping[str, Operator] = {
    **{f"aten.sum.{kind}": partial(_along, "ReduceSum") for kind in ("default", "dim_IntList")},
    **{f"aten.mean.{kind}": partial(_along, "ReduceMean") for kind in ("default", "dim")},
    **{f"aten.amax.{kind}": partial(_extremum, "ReduceMax") for kind in ("default",)},
    **{f"aten.amin.{kind}": partial(_extremum, "ReduceMin") for kind in ("default",)},
    "aten.max.default": partial(_extremum, "ReduceMax"),
    "aten.min.default": partial(_extremum, "ReduceMin"),
    "aten.max.dim": partial(_with_indices, "ReduceMax"),
    "aten.min.dim": partial(_with_indices, "ReduceMin"),
    "aten.argmax.default": partial(_place, "ArgMax"),
    "aten.argmin.default": partial(_place, "ArgMin"),
    **{f"aten.var.{kind}": _variance for kind in ("dim", "correction")},
    **{f"aten.std.{kind}": _deviation for kind in ("dim", "correction")},
    "aten.var_mean.correction": _variance_and_mean,
    "aten.linalg_vector_norm.default": _norm,
    **{
        f"aten.{name}": partial(_softmax, "Softmax") for name in ("_softmax.default", "softmax.int")
    },
    **{
        f"aten.{name}": partial(_softmax, "LogSoftmax")
        for name in ("_log_softmax.default", "log_softmax.int")
    },
    **{f"aten.any.{kind}": _any for kind in ("default", "dim", "dims")},
    **{f"aten.all.{kind}": _all for kind in ("default", "dim", "dims")},
    "aten.batch_norm.default": _batch_norm,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm_alone,
    "aten._native_batch_norm_legit.no_stats": _batch_norm_alone,
    "aten.layer_norm.default": _layer_norm,
    "aten.native_layer_norm.default": _layer_norm_alone,
    "aten.group_norm.default": _group_norm,
    "aten.native_group_norm.default": _group_norm_alone,
    "aten.instance_norm.default": _instance_norm,
    "aten.rms_norm.default": _rms_norm,
    "aten.cumsum.default": _running_sum,
    "aten.topk.default": _largest,
}
