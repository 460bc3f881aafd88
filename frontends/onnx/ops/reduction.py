"""Softmax and reductions over given axes."""

from __future__ import annotations

from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import rounded, summed, wide_of, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBody, ScalarBuilder
    from convir.frontends.onnx.call import Call

_ONE_AXIS_OPSET = 13
"""Before this version Softmax normalises all axes from its own on, together."""
_AXES_INPUT_OPSET = {"ReduceSum": 13}
"""From which version on the axes are an input; 18 for the others."""
_DEFAULT_AXES_INPUT_OPSET = 18


def _softmax(call: Call, *, logarithm: bool = False) -> Sequence[SSAValue]:
    """exp(x - max) times 1 / (sum of exp(x - max)), along one axis."""
    (x,) = call.floats(0)
    element, shape = element_of(x), shape_of(x)
    one_axis = call.opset >= _ONE_AXIS_OPSET
    axis = call.axis(int(call.attribute("axis", -1 if one_axis else 1)), len(shape))
    axes = [axis] if one_axis else list(range(axis, len(shape)))
    kept = [1 if dim in axes else size for dim, size in enumerate(shape)]
    emit, wide = call.emit, wide_of(element)

    def total(value: SSAValue, start: float, body: ScalarBody) -> SSAValue:
        return emit.reshape(emit.reduce(value, axes, start, body), kept)

    def difference(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value, most = (widened(body, arg, wide) for arg in args)
        return body.insert(arith.SubfOp(value, most))

    def inverse(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return body.insert(arith.DivfOp(body.number(1, wide), args[0]))

    def share(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return rounded(body, body.insert(arith.MulfOp(args[0], args[1])), element)

    def less_logarithm(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        logarithm_ = body.insert(math.LogOp(args[1]))
        return rounded(body, body.insert(arith.SubfOp(args[0], logarithm_)), element)

    largest = total(x, -inf, lambda b, args: b.insert(arith.MaximumfOp(args[1], args[0])))
    shifted = emit.elementwise([x, largest], difference, wide)
    exponential = emit.elementwise([shifted], lambda b, args: b.insert(math.ExpOp(args[0])))
    denominator = total(exponential, 0, summed)
    if logarithm:
        return [emit.elementwise([shifted, denominator], less_logarithm, element)]
    # One division of a sum instead of one for each element.
    return [
        emit.elementwise([exponential, emit.elementwise([denominator], inverse)], share, element)
    ]


def _multiplied(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    return body.insert(arith.MulfOp(args[1], widened(body, args[0], args[1].type)))


_REDUCTIONS: Mapping[str, tuple[float, ScalarBody]] = {
    "ReduceMax": (-inf, lambda b, args: b.insert(arith.MaximumfOp(args[1], args[0]))),
    "ReduceMean": (0, summed),
    "ReduceMin": (inf, lambda b, args: b.insert(arith.MinimumfOp(args[1], args[0]))),
    "ReduceProd": (1, _multiplied),
    "ReduceSum": (0, summed),
}
"""What a reduction starts from, and how it goes on."""


def _reduce(name: str, call: Call) -> Sequence[SSAValue]:
    (x,) = call.floats(0)
    element, shape = element_of(x), shape_of(x)
    axes = _axes(name, call, len(shape))
    start, body = _REDUCTIONS[name]
    total = wide_of(element) if body in (summed, _multiplied) else element
    result = call.emit.reduce(x, axes, start, body, total) if axes else x
    count = prod(shape[dim] for dim in axes) if name == "ReduceMean" else 1

    def finished(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        (value,) = args
        if count != 1:
            value = body.insert(arith.DivfOp(value, body.number(count, value.type)))
        return rounded(body, value, element)

    if count != 1 or element_of(result) != element:
        result = call.emit.elementwise([result], finished, element)
    if not int(call.attribute("keepdims", 1)):
        return [result]
    return [call.emit.reshape(result, [1 if d in axes else n for d, n in enumerate(shape)])]


def _axes(name: str, call: Call, rank: int) -> list[int]:
    if call.opset >= _AXES_INPUT_OPSET.get(name, _DEFAULT_AXES_INPUT_OPSET):
        given: Sequence[int] = call.known_integers(1, "the axes") if call.has(1) else []
    else:
        given = call.attribute("axes", [])
    is_noop = bool(call.attribute("noop_with_empty_axes", 0))
    if not given:
        return [] if is_noop else list(range(rank))
    return sorted(call.axes(given, rank))


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "LogSoftmax": partial(_softmax, logarithm=True),
    "Softmax": _softmax,
    **{name: partial(_reduce, name) for name in _REDUCTIONS},
}
