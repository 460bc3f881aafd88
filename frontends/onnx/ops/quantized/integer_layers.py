"""Operators between DequantizeLinear and QuantizeLinear, on the integers of their operands.

Each is imported as it says, in reals; beside that stands how its result is quantised from integers
alone, which QuantizeLinear takes. What nobody reads in the end is erased.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from convir.frontends.emitter import shape_of
from convir.frontends.onnx.ops import activation, arithmetic, convolution, matrix, pooling
from convir.frontends.onnx.ops.convolution import BIAS, WEIGHTS, forward
from convir.frontends.onnx.ops.quantized.integer_sums import (
    Quantised,
    added,
    bytes_of,
    channel_factor,
    convolved,
    held,
    multiplied,
    requantised,
    scaled,
    signed_weights,
    totals,
    zero_added,
)
from convir.frontends.onnx.ops.shapes import shape
from convir.frontends.onnx.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.onnx.call import Call

    Operator = Callable[[Call], Sequence[SSAValue]]


@dataclass(frozen=True)
class Layer:
    """Where an operator on integers has its inputs."""

    x: int
    w: int
    zeros: tuple[int, int]
    """Of the zero points of both."""
    scales: tuple[int, int, int] | None = None
    """Of both and of the result, whose zero point comes next; None if its result is the sums."""
    bias: int | None = None
    is_matrix: bool = False
    """Whether it multiplies matrices; else it convolves."""


def layer_of_integers(call: Call, layer: Layer) -> SSAValue | None:
    """The result of an operator on integers, one of them known; None where it has no such sums."""
    known, zeros = call.constant(layer.w), call.constant(layer.zeros[1])
    zero = np.zeros((), np.uint8)
    if call.has(layer.zeros[0]):
        given = call.constant(layer.zeros[0])
        if given is None or given.size != 1:
            return None
        zero = given.reshape(())
    if known is None or call.constant(layer.x) is not None or known.dtype.itemsize != 1:
        return None
    if zeros is None and call.has(layer.zeros[1]):
        return None
    axis = -1 if layer.is_matrix else 0
    weights = signed_weights(
        _centred(known, np.zeros((), known.dtype) if zeros is None else zeros, axis)
    )
    steps = Steps.of(np.ones(1, np.float32), zero)
    if weights is None or steps is None or (layer.is_matrix and weights.ndim != 2):
        return None
    bias = None
    if layer.bias is not None and call.has(layer.bias):
        bias = call.known(layer.bias, "its bias")
    x = bytes_of(call, call.node.inputs[layer.x], call.input(layer.x))
    if layer.is_matrix:
        sums = multiplied(call, x, steps.zero, weights, bias)
    else:
        sums = convolved(call, x, steps.zero, weights, partial(forward, call), bias)
    if sums is None or layer.scales is None:
        return sums
    left, right, out = (call.known(at, "its scale") for at in layer.scales)
    end = layer.scales[2] + 1
    out_zero = call.known(end, "its zero point") if call.has(end) else np.zeros((), np.uint8)
    to = Steps.of(out, out_zero)
    if to is None or left.size != 1:
        return None
    factor = left.astype(np.float32).reshape(()) * right.astype(np.float32) / to.scale
    rank = len(shape_of(sums))
    unsigned = requantised(
        call, sums, channel_factor(factor, rank, rank - 1 if layer.is_matrix else 1), to.zero
    )
    call.graph.held_bytes[call.node.outputs[0]] = unsigned
    return held(call, unsigned, out_zero.dtype)


def _centred(integers: Array, zeros: Array, axis: int) -> Array:
    """Integers minus their zero points, which may differ along `axis`."""
    along = [1] * integers.ndim
    if zeros.size > 1:
        along[axis] = zeros.size
    return integers.astype(np.int64) - zeros.astype(np.int64).reshape(along)


def _quantised(call: Call, position: int) -> Quantised | None:
    """An input that is dequantised bytes of one scale."""
    name = call.node.inputs[position]
    found, unsigned = call.graph.dequantised.get(name), call.graph.held_bytes.get(name)
    if found is None or unsigned is None:
        return None
    steps = Steps.of(found.scale, found.zero)
    return None if steps is None else Quantised(unsigned, steps)


def _sums(
    call: Call, outer: int, compute: Callable[[Quantised, Array, Array | None], SSAValue | None]
) -> tuple[SSAValue, Array] | None:
    """The integer sums of a layer, and the f32 scale of each of its results' channels.

    Args:
        call: the node: an image, weights and maybe a bias.
        outer: the dimension of the weights that is not summed over.
        compute: sums, of the image, of the weights minus zero points, and of the bias.
    """
    x, w = _quantised(call, 0), call.graph.dequantised.get(call.node.inputs[WEIGHTS])
    if x is None or w is None or not isinstance(w.integers, np.ndarray):
        return None
    along = w.scale.size == 1 or w.scale.shape[outer] == w.scale.size
    if not along or w.zero.dtype.itemsize != 1:
        return None
    weights = signed_weights(w.integers.astype(np.int64) - w.zero)
    if weights is None:
        return None
    scale = x.steps.scale * w.scale.reshape(-1)
    bias = None
    if call.has(BIAS):
        b = call.graph.dequantised.get(call.node.inputs[BIAS])
        is_sum = b is not None and b.zero.dtype == np.int32 and not np.any(b.zero)
        if b is None or not is_sum or not isinstance(b.integers, np.ndarray):
            return None
        if b.integers.shape != (weights.shape[outer],) or not np.allclose(
            b.scale.reshape(-1), scale, rtol=1e-6, atol=0
        ):
            return None
        bias = b.integers
    sums = compute(x, weights, bias)
    return None if sums is None else (sums, scale.astype(np.float32))


def _conv(call: Call) -> Sequence[SSAValue]:
    found = _sums(
        call,
        0,
        lambda x, w, bias: convolved(
            call, x.unsigned, x.steps.zero, w, partial(forward, call), bias
        ),
    )
    return convolution.OPERATORS["Conv"](call) if found is None else _layer(call, *found, 1)


def _gemm(call: Call) -> Sequence[SSAValue]:
    plain = (call.number("alpha", 1.0), call.number("beta", 1.0), call.attribute("transA", 0))
    flips = bool(call.attribute("transB", 0))
    found = None
    if plain == (1.0, 1.0, 0):
        found = _sums(
            call,
            0 if flips else 1,
            lambda x, w, bias: multiplied(
                call, x.unsigned, x.steps.zero, w.T if flips else w, bias
            ),
        )
    return matrix.OPERATORS["Gemm"](call) if found is None else _layer(call, *found, 1)


def _matmul(call: Call) -> Sequence[SSAValue]:
    w = call.graph.dequantised.get(call.node.inputs[WEIGHTS])
    found = None
    if w is not None and isinstance(w.integers, np.ndarray) and w.integers.ndim == 2:
        found = _sums(
            call, 1, lambda x, w, bias: multiplied(call, x.unsigned, x.steps.zero, w, bias)
        )
    if found is None:
        return matrix.OPERATORS["MatMul"](call)
    return _layer(call, *found, len(shape_of(found[0])) - 1)


def _layer(call: Call, sums: SSAValue, scale: Array, axis: int) -> Sequence[SSAValue]:
    """Sums in reals, and how they are quantised."""
    rank = len(shape_of(sums))

    def requantise(to: Steps, least: int) -> SSAValue:
        factor = channel_factor(scale / to.scale, rank, axis)
        return requantised(call, sums, factor, to.zero, least)

    call.graph.requantise[call.node.outputs[0]] = requantise
    return [scaled(call, sums, channel_factor(scale, rank, axis))]


def _relu(call: Call) -> Sequence[SSAValue]:
    inner = call.graph.requantise.get(call.node.inputs[0])
    if inner is not None:
        known = inner
        call.graph.requantise[call.node.outputs[0]] = lambda to, least: known(
            to, max(least, to.zero)
        )
    return activation.OPERATORS["Relu"](call)


def _add(call: Call) -> Sequence[SSAValue]:
    operands = [_quantised(call, position) for position in (0, 1)]
    found = [operand for operand in operands if operand is not None]
    if len(found) == len(operands):
        call.graph.requantise[call.node.outputs[0]] = lambda to, least: added(
            call, found, to, least
        )
    return arithmetic.OPERATORS["Add"](call)


def _average(call: Call) -> Sequence[SSAValue]:
    """GlobalAveragePool: sums of bytes over the number of them."""
    x = _quantised(call, 0)
    if x is not None:
        count = prod(shape_of(x.unsigned)[2:])
        known = x

        def requantise(to: Steps, least: int) -> SSAValue | None:
            sums = totals(call, known.unsigned, known.steps.zero)
            factor = known.steps.scale / (to.scale * np.float32(count))
            if sums is None:
                return None
            return requantised(call, sums, np.asarray(factor), to.zero, least)

        call.graph.requantise[call.node.outputs[0]] = requantise
    return pooling.OPERATORS["GlobalAveragePool"](call)


def _average_pool(call: Call) -> Sequence[SSAValue]:
    """AveragePool in reals; onnxruntime adds the zero point before it rounds."""
    x = _quantised(call, 0)
    (real,) = results = pooling.OPERATORS["AveragePool"](call)
    if x is not None:
        call.graph.requantise[call.node.outputs[0]] = lambda to, least: zero_added(
            call, real, to, least
        )
    return results


def _moving(operator: Operator, call: Call) -> Sequence[SSAValue]:
    """An operator that changes the shape alone: its bytes stay what they are at the same steps."""
    x = _quantised(call, 0)
    results = operator(call)
    if x is not None:
        known, sizes = x, shape_of(results[0])

        def requantise(to: Steps, least: int) -> SSAValue | None:
            if to != known.steps or least:
                return None
            return call.emit.reshape(known.unsigned, sizes)

        call.graph.requantise[call.node.outputs[0]] = requantise
    return results


OPERATORS: Mapping[str, Operator] = {
    "Add": _add,
    "AveragePool": _average_pool,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _average,
    "MatMul": _matmul,
    "Relu": _relu,
    **{
        name: partial(_moving, shape.OPERATORS[name])
        for name in ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
    },
}
"""The operators that know their operands' integers by name."""
