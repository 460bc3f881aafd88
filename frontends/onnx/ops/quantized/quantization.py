"""QuantizeLinear, DequantizeLinear, and what is computed on quantised integers.

Unsigned integers are held in the next wider signed type inside of a model. Their products
are exact: of bf16 summed in f32 where every sum is below 2^24, else of f64.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, bf16, f32, f64, i8, i16, i32

from convir.dialects.conv.ops import FpropOp
from convir.frontends.elements import MEMORY, constant
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.call import Dequantised
from convir.frontends.onnx.ops.convolution import forward
from convir.frontends.onnx.ops.matrix import matrix_product
from convir.frontends.onnx.ops.quantized.integer_layers import Layer, layer_of_integers
from convir.frontends.onnx.ops.quantized.integer_sums import bytes_of, held, real_of, stored
from convir.frontends.onnx.steps import Steps
from convir.frontends.scalar_functions import converted, rounded, wide_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import Attribute, SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call

_HELD: Mapping[str, IntegerType] = {"uint8": i16, "int8": i8, "int16": i16, "int32": i32}
"""How quantised integers are held, by NumPy's name of their type."""
_WIDER: Mapping[str, type[np.generic]] = {"uint8": np.int16}
_EXACT_IN_F32 = 1 << 24
_LARGEST = 255
"""Integers of 8 bits are no farther from their zero point."""


@dataclass(frozen=True)
class _Scale:
    """Real numbers as integers: `real = scale * (integer - zero point)`."""

    scale: Array
    """f32: one number, or one for each element along an axis; broadcasts with the tensor."""
    zero: Array
    """Integers of the quantised type, of the same shape."""

    @property
    def bounds(self) -> tuple[int, int]:
        """The least integer and the largest."""
        info = np.iinfo(self.zero.dtype)
        return int(info.min), int(info.max)


def _scale_of(call: Call, scale: int, zero: int, rank: int, axis: int | None) -> _Scale:
    """The scale and the zero point at two inputs, along `axis` of a tensor of `rank`."""
    factors = call.known(scale, "its scale")
    if factors.dtype != np.float32:
        raise call.error(f"a scale of {factors.dtype} is not supported, only float32")
    zeros = np.zeros(factors.shape, np.uint8)
    if call.has(zero):
        zeros = call.known(zero, "its zero point")
    if zeros.dtype.name not in _HELD:
        raise call.error(f"integers of type {zeros.dtype} are not supported")
    if zeros.size != factors.size:
        raise call.error(f"has {factors.size} scales and {zeros.size} zero points")
    if factors.size == 1:
        return _Scale(factors.reshape(()), zeros.reshape(()))
    if factors.ndim != 1 or axis is None:
        raise call.error(f"scales of shape {list(factors.shape)} are not supported")
    along = [1] * rank
    along[call.axis(axis, rank)] = factors.size
    return _Scale(factors.reshape(along), zeros.reshape(along))


def _tensor(call: Call, array: Array) -> SSAValue:
    """A constant."""
    return call.emit.insert(constant(array, MEMORY, None))


def _applied(
    call: Call,
    value: SSAValue,
    arrays: Sequence[Array],
    body: Callable[[ScalarBuilder, Sequence[SSAValue]], SSAValue],
    element: Attribute,
) -> SSAValue:
    """`body` of the elements of `value` and of f32 constants; single numbers stand in the body."""
    tensors = [_tensor(call, array.astype(np.float32)) for array in arrays if array.size > 1]

    def inner(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        beside = iter(args[1:])
        numbers = [
            next(beside) if array.size > 1 else scalars.number(array.item(), f32)
            for array in arrays
        ]
        return body(scalars, [args[0], *numbers])

    return call.emit.elementwise([value, *tensors], inner, element)


def _rounded(call: Call, x: SSAValue, factor: Array, to: _Scale, *, divides: bool) -> SSAValue:
    """`x` in f32 times or over `factor`, as integers: to nearest even, with the zero point added,
    and no farther than the bounds.

    A NaN becomes no integer in particular.
    """
    low, high = to.bounds
    scaled = arith.DivfOp if divides else arith.MulfOp

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value, by, zero = args
        value = scalars.insert(math.RoundEvenOp(scalars.insert(scaled(value, by))))
        value = scalars.insert(arith.AddfOp(value, zero))
        value = scalars.insert(arith.MaximumfOp(value, scalars.number(low, f32)))
        value = scalars.insert(arith.MinimumfOp(value, scalars.number(high, f32)))
        return scalars.insert(arith.FPToSIOp(value, _HELD[to.zero.dtype.name]))

    return _applied(call, x, [factor, to.zero], body, _HELD[to.zero.dtype.name])


def _quantize(call: Call) -> Sequence[SSAValue]:
    (x,) = call.floats(0)
    if element_of(x) != f32:
        raise call.error(f"is not supported on elements of type {element_of(x)}")
    _refuse_blocks(call)
    to = _scale_of(call, 1, 2, len(shape_of(x)), int(call.attribute("axis", 1)))
    steps = Steps.of(to.scale, to.zero)
    if steps is not None:
        return [_bytes(call, x, steps, to.zero.dtype)]
    return [_rounded(call, x, to.scale, to, divides=True)]


def _bytes(call: Call, x: SSAValue, to: Steps, dtype: np.dtype[np.generic]) -> SSAValue:
    """Reals as bytes, of what they were computed from where that is known."""
    requantise = call.graph.requantise.get(call.node.inputs[0])
    unsigned = None if requantise is None else requantise(to, 0)

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        real = scalars.insert(arith.DivfOp(args[0], scalars.number(float(to.scale), f32)))
        return stored(scalars, real, -to.zero, _LARGEST - to.zero, to.zero)

    if unsigned is None:
        unsigned = call.emit.elementwise([x], body, i8)
    call.graph.held_bytes[call.node.outputs[0]] = unsigned
    return held(call, unsigned, dtype)


def _refuse_blocks(call: Call) -> None:
    """Look at the attributes of later versions, which say nothing for integers of 8 bits."""
    call.attribute("saturate", 1)
    if any(call.attribute(name, 0) for name in ("block_size", "output_dtype", "precision")):
        raise call.error("blocks and other types of results are not supported")


def _dequantize(call: Call) -> Sequence[SSAValue]:
    known = call.constant(0)
    _refuse_blocks(call)
    axis = int(call.attribute("axis", 1))
    if known is not None:
        scale = _scale_of(call, 1, 2, known.ndim, axis)
        zero = scale.zero if call.has(2) else np.int64(0)
        call.graph.dequantised[call.node.outputs[0]] = Dequantised(known, scale.scale, scale.zero)
        numbers = (known.astype(np.int64) - zero).astype(np.float32) * scale.scale
        return [_tensor(call, numbers.astype(np.float32))]
    x = call.input(0)
    scale = _scale_of(call, 1, 2, len(shape_of(x)), axis)
    call.graph.dequantised[call.node.outputs[0]] = Dequantised(x, scale.scale, scale.zero)
    steps = Steps.of(scale.scale, scale.zero)
    if steps is not None:
        unsigned = bytes_of(call, call.node.inputs[0], x)
        call.graph.held_bytes[call.node.outputs[0]] = unsigned

        def real(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            factor = scalars.number(float(steps.scale), f32)
            return scalars.insert(arith.MulfOp(real_of(scalars, args[0], steps.zero), factor))

        return [call.emit.elementwise([unsigned], real, f32)]

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value = scalars.insert(arith.SIToFPOp(args[0], f32))
        value = scalars.insert(arith.SubfOp(value, args[2]))
        return scalars.insert(arith.MulfOp(value, args[1]))

    return [_applied(call, x, [scale.scale, scale.zero], body, f32)]


def _dynamic_quantize(call: Call) -> Sequence[SSAValue]:
    """To the 256 steps from the least to the largest element, 0 among them."""
    (x,) = call.floats(0)
    if element_of(x) != f32:
        raise call.error(f"is not supported on elements of type {element_of(x)}")
    axes = range(len(shape_of(x)))

    def extreme(op: Callable[..., Any]) -> SSAValue:
        return call.emit.reduce(x, axes, 0, lambda body, args: body.insert(op(args[0], args[1])))

    least, most = extreme(arith.MinimumfOp), extreme(arith.MaximumfOp)

    def scale_of(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        reach = body.insert(arith.SubfOp(args[1], args[0]))
        # Where all elements are 0 any scale will do, and 0 / 0 will not.
        some = body.insert(arith.CmpfOp(reach, body.number(0, f32), "one"))
        reach = body.insert(arith.DivfOp(reach, body.number(255, f32)))
        return body.insert(arith.SelectOp(some, reach, body.number(1, f32)))

    def within(body: ScalarBuilder, value: SSAValue) -> SSAValue:
        value = body.insert(arith.MaximumfOp(value, body.number(0, f32)))
        return body.insert(arith.MinimumfOp(value, body.number(255, f32)))

    def zero_of(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        first = body.insert(arith.SubfOp(body.number(0, f32), args[0]))
        first = body.insert(arith.DivfOp(first, args[1]))
        return body.insert(math.RoundEvenOp(within(body, first)))

    def steps(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value = body.insert(math.RoundEvenOp(body.insert(arith.DivfOp(args[0], args[1]))))
        value = within(body, body.insert(arith.AddfOp(value, args[2])))
        return body.insert(arith.FPToSIOp(value, i16))

    scale = call.emit.elementwise([least, most], scale_of)
    zero = call.emit.elementwise([least, scale], zero_of)
    held = call.emit.elementwise([zero], lambda b, a: b.insert(arith.FPToSIOp(a[0], i16)), i16)
    return [call.emit.elementwise([x, scale, zero], steps, i16), scale, held]


def _weights(call: Call, position: int, zero: int, axis: int) -> Array | None:
    """Constant integers minus their zero points, which differ along an axis; None if computed."""
    known, zeros = call.constant(position), call.constant(zero)
    if known is None or (zeros is None and call.has(zero)):
        return None
    if known.dtype.name not in _HELD:
        raise call.error(f"integers of type {known.dtype} are not supported")
    if zeros is None:
        return known.astype(np.int64)
    along = [1] * known.ndim
    if zeros.size > 1:
        along[call.axis(axis, known.ndim)] = zeros.size
    return known.astype(np.int64) - zeros.astype(np.int64).reshape(along)


def _integers(call: Call, position: int, zero: int, element: AnyFloat, axis: int) -> SSAValue:
    """An input minus its zero point, as floats that hold the difference exactly.

    Args:
        call: the node.
        position: of the input.
        zero: the position of its zero point, which may be left out.
        element: the type of the floats.
        axis: the dimension along which zero points differ.
    """
    weights = _weights(call, position, zero, axis)
    if weights is not None:
        return _floats(call, weights, element)
    operands = [_held(call, position)]
    if call.has(zero):
        offset = _held(call, zero)
        count = prod(shape_of(offset))
        along = [1] * len(shape_of(operands[0])) if count > 1 else []
        if count > 1:
            along[call.axis(axis, len(along))] = count
        operands.append(call.emit.reshape(offset, along))
    wide = f32 if element == bf16 else element

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value, *zeros = (scalars.insert(arith.SIToFPOp(arg, wide)) for arg in args)
        for offset in zeros:
            value = scalars.insert(arith.SubfOp(value, offset))
        return rounded(scalars, value, element)

    return call.emit.elementwise(operands, body, element)


def _floats(call: Call, integers: Array, element: AnyFloat) -> SSAValue:
    """Constant integers as floats that hold them exactly."""
    return _tensor(call, integers.astype(ml_dtypes.bfloat16 if element == bf16 else np.float64))


def _held(call: Call, position: int) -> SSAValue:
    """An input of quantised integers, as they are held."""
    known = call.constant(position)
    if known is not None and known.dtype.name in _WIDER:
        return _tensor(call, known.astype(_WIDER[known.dtype.name]))
    return call.input(position)


def _exact(weights: Array | None, products: int, axes: tuple[int, ...], beside: int) -> AnyFloat:
    """The type of factors whose sums of products are exact: bf16, summed in f32, or f64.

    Args:
        weights: one of the factors, if it is known.
        products: how many are summed.
        axes: the dimensions of the weights that are summed over.
        beside: the largest number that is added to a sum.
    """
    largest = products * _LARGEST**2
    if weights is not None:
        largest = int(np.abs(weights).sum(axis=axes).max(initial=0)) * _LARGEST
    return bf16 if largest + beside <= _EXACT_IN_F32 else f64


def _shape(call: Call, position: int) -> tuple[int, ...]:
    known = call.constant(position)
    return shape_of(call.input(position)) if known is None else known.shape


def _convolved(call: Call, w: int, zeros: tuple[int, int], beside: int = 0) -> SSAValue:
    """The sums of a convolution of integers, in a float type that holds them."""
    shape = _shape(call, w)
    weights = _weights(call, w, zeros[1], 0)
    element = _exact(weights, prod(shape[1:]), tuple(range(1, len(shape))), beside)
    x = _integers(call, 0, zeros[0], element, 1)
    return _sums(call, x, _integers(call, w, zeros[1], element, 0))


def _sums(call: Call, x: SSAValue, w: SSAValue) -> SSAValue:
    shape, geometry = forward(call, x, w)
    wide = wide_of(element_of(x))
    init = call.emit.filled(0, shape, wide)
    return call.emit.insert(FpropOp(x, w, init, geometry, wide))


def _multiplied(call: Call, b: int, zeros: tuple[int, int]) -> SSAValue:
    """The sums of a product of matrices of integers, in a float type that holds them."""
    rows, columns = _shape(call, 0), _shape(call, b)
    weights = _weights(call, b, zeros[1], -1)
    depth = max(0, len(columns) - 2)
    element = _exact(weights, rows[-1] if rows else 1, (depth,) if columns else (), 0)
    left = _integers(call, 0, zeros[0], element, -2 if len(rows) > 1 else -1)
    right = _integers(call, b, zeros[1], element, -1)
    return matrix_product(call, left, right, wide_of(element))


def _as_i32(call: Call, sums: SSAValue) -> SSAValue:
    return call.emit.elementwise(
        [sums], lambda body, args: body.insert(arith.FPToSIOp(args[0], i32)), i32
    )


def _requantized(call: Call, sums: SSAValue, scales: tuple[int, int, int], axis: int) -> SSAValue:
    """Sums in the integers of the result: times the scales of both operands over the result's.

    Args:
        call: the node.
        sums: exact.
        scales: the inputs that hold the scales of both operands and of the result.
        axis: the dimension of the result along which the second one's scales differ.
    """
    rank = len(shape_of(sums))
    left, right, out = (
        _scale_of(call, scale, scale + 1, rank, axis if scale == scales[1] else None)
        for scale in scales
    )
    factor = (left.scale * right.scale / out.scale).astype(np.float32)
    single = call.emit.elementwise([sums], lambda body, args: converted(body, args[0], f32), f32)
    return _rounded(call, single, factor, out, divides=False)


def _qlinear_conv(call: Call) -> Sequence[SSAValue]:
    exact = layer_of_integers(call, Layer(0, 3, (2, 5), (1, 4, 6), bias=8))
    if exact is not None:
        return [exact]
    bias = call.known(8, "its bias") if call.has(8) else np.zeros(1, np.int32)
    sums = _convolved(call, 3, (2, 5), int(np.abs(bias.astype(np.int64)).max(initial=0)))
    if bias.any():
        along = [-1, *([1] * (len(shape_of(sums)) - 2))]
        element = element_of(sums)
        numbers = bias.astype(np.float32 if element == f32 else np.float64).reshape(along)
        sums = call.emit.elementwise(
            [sums, _tensor(call, numbers)],
            lambda body, args: body.insert(arith.AddfOp(args[0], args[1])),
        )
    return [_requantized(call, sums, (1, 4, 6), 1)]


def _qlinear_matmul(call: Call) -> Sequence[SSAValue]:
    exact = layer_of_integers(call, Layer(0, 3, (2, 5), (1, 4, 6), is_matrix=True))
    if exact is not None:
        return [exact]
    return [_requantized(call, _multiplied(call, 3, (2, 5)), (1, 4, 6), -1)]


def _conv_integer(call: Call) -> Sequence[SSAValue]:
    exact = layer_of_integers(call, Layer(0, 1, (2, 3)))
    return [_as_i32(call, _convolved(call, 1, (2, 3))) if exact is None else exact]


def _matmul_integer(call: Call) -> Sequence[SSAValue]:
    exact = layer_of_integers(call, Layer(0, 1, (2, 3), is_matrix=True))
    return [_as_i32(call, _multiplied(call, 1, (2, 3))) if exact is None else exact]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
}
