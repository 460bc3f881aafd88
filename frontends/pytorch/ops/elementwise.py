"""Calls that compute each element of the result of one element of each operand."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import torch

from convir.frontends.pytorch.errors import UnsupportedError
from convir.frontends.pytorch.spelling import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.frontends.pytorch.call import AtenCall, Operator

_UNARY = {
    **{"abs": "Abs", "ceil": "Ceil", "floor": "Floor", "neg": "Neg", "relu": "Relu"},
    **{"round": "Round"},
}
"""Of numbers."""
_FLOAT_UNARY = {
    **{"cos": "Cos", "erf": "Erf", "exp": "Exp", "hardswish": "HardSwish", "log": "Log"},
    **{"mish": "Mish", "reciprocal": "Reciprocal", "sigmoid": "Sigmoid", "sin": "Sin"},
    **{"sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh"},
}
"""Of floats: integers become floats first."""
_COMPARISONS = {"eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater"} | {
    "le": "LessOrEqual",
    "lt": "Less",
}
_LOGICAL = {"and": "And", "or": "Or", "xor": "Xor"}


def _unary(op: str, call: AtenCall) -> Value:
    return call.spell.node(op, [call.spell.cast(call.value(), call.dtype)], call.shape)


def _binary(op: str, call: AtenCall, first: str = "self", second: str = "other") -> Value:
    operands = [call.operand(name, call.dtype) for name in (first, second)]
    return call.spell.node(op, operands, call.shape)


def _scaled(call: AtenCall, name: str) -> Value:
    """An operand times `alpha`."""
    value, alpha = call.operand(name, call.dtype), call.get("alpha", 1)
    if alpha == 1:
        return value
    return call.spell.node("Mul", [value, call.spell.number(alpha, call.dtype)], value.shape)


def _add(call: AtenCall) -> Value:
    call.check(call.dtype != torch.bool, "booleans are no numbers")
    operands = [call.operand("self", call.dtype), _scaled(call, "other")]
    return call.spell.node("Add", operands, call.shape)


def _sub(call: AtenCall) -> Value:
    operands = [call.operand("self", call.dtype), _scaled(call, "other")]
    return call.spell.node("Sub", operands, call.shape)


def _rsub(call: AtenCall) -> Value:
    operands = [call.operand("other", call.dtype), _scaled(call, "self")]
    return call.spell.node("Sub", operands, call.shape)


def _mul(call: AtenCall) -> Value:
    return _binary("And" if call.dtype == torch.bool else "Mul", call)


def _div(call: AtenCall) -> Value:
    mode = call.get("rounding_mode")
    if mode is None:
        return _binary("Div", call)
    call.check(call.dtype.is_floating_point and mode == "floor", f"rounding mode '{mode}'")
    # Of the exact quotient: 1.5 / 0.3 is less than 5, which it rounds to.
    wide = torch.float64
    operands = [call.spell.cast(call.operand(name, call.dtype), wide) for name in ("self", "other")]
    quotient = call.spell.node("Div", operands, call.shape)
    return call.spell.cast(call.spell.node("Floor", [quotient], call.shape), call.dtype)


def _sign(call: AtenCall) -> Value:
    """0 of NaN."""
    x = call.value()
    sign = call.spell.node("Sign", [x], call.shape)
    if not x.dtype.is_floating_point:
        return sign
    is_number = call.spell.node("Equal", [x, x], call.shape, torch.bool)
    zero = call.spell.number(0, x.dtype)
    return call.spell.node("Where", [is_number, sign, zero], call.shape, x.dtype)


def _pow(call: AtenCall) -> Value:
    exponent = call["exponent"]
    base = call.operand("self", call.dtype)
    if exponent == 2:
        return call.spell.node("Mul", [base, base], call.shape)
    call.check(call.dtype.is_floating_point, f"elements of {call.dtype}")
    if exponent == 0.5:
        return call.spell.node("Sqrt", [base], call.shape)
    return call.spell.node("Pow", [base, call.operand("exponent", call.dtype)], call.shape)


def _extremum(op: str, of_flags: str, call: AtenCall) -> Value:
    return _binary(of_flags if call.dtype == torch.bool else op, call)


def _compare(op: str, call: AtenCall) -> Value:
    dtype = call.promoted()
    operands = [call.operand(name, dtype) for name in ("self", "other")]
    return call.spell.node(op, operands, call.shape, torch.bool)


def _not_equal(call: AtenCall) -> Value:
    return call.spell.node("Not", [_compare("Equal", call)], call.shape)


def _logical(op: str, call: AtenCall) -> Value:
    operands = [call.spell.cast(call.value(name), torch.bool) for name in ("self", "other")]
    return call.spell.node(op, operands, call.shape, torch.bool)


def _bitwise(op: str, call: AtenCall) -> Value:
    call.check(call.dtype == torch.bool, f"bits of {call.dtype}")
    return _logical(op, call)


def _not(call: AtenCall) -> Value:
    call.check(call.dtype == torch.bool, f"bits of {call.dtype}")
    operand = call.spell.cast(call.value(), torch.bool)
    return call.spell.node("Not", [operand], call.shape, torch.bool)


def _where(call: AtenCall) -> Value:
    condition = call.spell.cast(call.value("condition"), torch.bool)
    operands = [call.operand(name, call.dtype) for name in ("self", "other")]
    return call.spell.node("Where", [condition, *operands], call.shape, call.dtype)


def _masked_fill(call: AtenCall) -> Value:
    operands = [call.spell.cast(call.value("mask"), torch.bool)]
    operands += [call.operand(name, call.dtype) for name in ("value", "self")]
    return call.spell.node("Where", operands, call.shape, call.dtype)


def _clip(call: AtenCall, least: Any, most: Any) -> Value:
    x = call.spell.cast(call.value(), call.dtype)
    bounds = [
        None if bound is None or abs(bound) == inf else call.spell.number(bound, call.dtype)
        for bound in (least, most)
    ]
    return call.spell.node("Clip", [x, *bounds], call.shape)


def _clamp(call: AtenCall) -> Value:
    for name in ("min", "max"):
        if isinstance(call.get(name), Value):
            raise UnsupportedError("bounds that are tensors")
    return _clip(call, call.get("min"), call.get("max"))


def _clamp_min(call: AtenCall) -> Value:
    return _clip(call, call["min"], None)


def _clamp_max(call: AtenCall) -> Value:
    return _clip(call, None, call["max"])


def _hardtanh(call: AtenCall) -> Value:
    return _clip(call, call["min_val"], call["max_val"])


def _relu6(call: AtenCall) -> Value:
    return _clip(call, 0, 6)


def _silu(call: AtenCall) -> Value:
    return call.spell.node("Swish", [call.floats()], call.shape, alpha=1.0)


def _gelu(call: AtenCall) -> Value:
    approximate = call.get("approximate", "none")
    return call.spell.node("Gelu", [call.floats()], call.shape, approximate=approximate)


def _hardsigmoid(call: AtenCall) -> Value:
    return call.spell.node("HardSigmoid", [call.floats()], call.shape, alpha=1 / 6, beta=0.5)


def _leaky_relu(call: AtenCall) -> Value:
    slope = float(call["negative_slope"])
    return call.spell.node("LeakyRelu", [call.floats()], call.shape, alpha=slope)


def _elu(call: AtenCall) -> Value:
    call.check(call.get("scale", 1) == 1 == call.get("input_scale", 1), "scales of elu")
    return call.spell.node("Elu", [call.floats()], call.shape, alpha=float(call["alpha"]))


def _softplus(call: AtenCall) -> Value:
    call.check(call.get("beta", 1) == 1 and call.get("threshold", 20) >= 20, "scales of softplus")
    return call.spell.node("Softplus", [call.floats()], call.shape)


def _prelu(call: AtenCall) -> Value:
    x, slope = call.floats(), call.value("weight")
    if slope.rank == 1 and slope.size > 1 and x.rank > 1:
        slope = call.spell.reshape(slope, [slope.size, *[1] * (x.rank - 2)])
    return call.spell.node("PRelu", [x, slope], call.shape)


def _rsqrt(call: AtenCall) -> Value:
    x = call.spell.cast(call.value(), call.dtype)
    return call.spell.node("Reciprocal", [call.spell.node("Sqrt", [x], x.shape)], call.shape)


def _convert(call: AtenCall) -> Value:
    return call.spell.cast(call.value(), call.dtype)


def _same(call: AtenCall) -> Value:
    return call.value("self" if "self" in call.arguments else "input")


def _dropout(call: AtenCall) -> Value:
    call.check(not call["train"], "dropout in training: call .eval() on the module")
    return call.value("input")


def _copy(call: AtenCall) -> Value:
    source = call.operand("src", call.dtype)
    return call.spell.expand(source, call.shape)


def _rounded_to(call: AtenCall) -> Value:
    call.check(call.get("decimals", 0) == 0, "decimals")
    return _unary("Round", call)


def _named(op: Operator, *overloads: str) -> Mapping[str, Operator]:
    return {f"aten.{overload}": op for overload in overloads}


_CONVERSIONS = ("_to_copy.default", "to.dtype", "to.dtype_layout", "type_as.default", "to.device")
_COPIES = ("alias.default", "clone.default", "contiguous.default", "detach.default")

OPERATORS: Mapping[str, Operator] = {
    **{f"aten.{name}.default": partial(_unary, op) for name, op in _UNARY.items()},
    **{f"aten.{name}.default": partial(_unary, op) for name, op in _FLOAT_UNARY.items()},
    **{
        f"aten.{name}.{kind}": partial(_compare, op)
        for name, op in _COMPARISONS.items()
        for kind in ("Tensor", "Scalar")
    },
    **_named(_not_equal, "ne.Tensor", "ne.Scalar"),
    **{f"aten.logical_{name}.default": partial(_logical, op) for name, op in _LOGICAL.items()},
    **{f"aten.bitwise_{name}.Tensor": partial(_bitwise, op) for name, op in _LOGICAL.items()},
    **_named(_not, "logical_not.default", "bitwise_not.default"),
    **_named(_add, "add.Tensor", "add.Scalar"),
    **_named(_sub, "sub.Tensor", "sub.Scalar"),
    **_named(_rsub, "rsub.Tensor", "rsub.Scalar"),
    **_named(_mul, "mul.Tensor", "mul.Scalar"),
    **_named(_div, "div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode"),
    **_named(_pow, "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar"),
    **_named(partial(_extremum, "Max", "Or"), "maximum.default"),
    **_named(partial(_extremum, "Min", "And"), "minimum.default"),
    **_named(_where, "where.self", "where.ScalarOther", "where.ScalarSelf"),
    **_named(_masked_fill, "masked_fill.Scalar", "masked_fill.Tensor"),
    **_named(_clamp, "clamp.default"),
    **_named(_clamp_min, "clamp_min.default"),
    **_named(_clamp_max, "clamp_max.default"),
    **_named(_hardtanh, "hardtanh.default"),
    **_named(_relu6, "relu6.default"),
    **_named(_silu, "silu.default"),
    **_named(_gelu, "gelu.default"),
    **_named(_hardsigmoid, "hardsigmoid.default"),
    **_named(_leaky_relu, "leaky_relu.default"),
    **_named(_elu, "elu.default"),
    **_named(_softplus, "softplus.default"),
    **_named(_prelu, "prelu.default", "_prelu_kernel.default"),
    **_named(_rsqrt, "rsqrt.default"),
    **_named(_sign, "sign.default"),
    **_named(_rounded_to, "round.decimals"),
    **_named(_convert, *_CONVERSIONS),
    **_named(_same, *_COPIES, "lift_fresh_copy.default"),
    **_named(_dropout, "dropout.default"),
    **_named(_copy, "copy.default"),
}
