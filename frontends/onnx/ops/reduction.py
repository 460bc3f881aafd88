"""Softmax and reductions over given axes."""

from __future__ import annotations

from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat

from convir.frontends.emitter import element_of, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBody
    from convir.frontends.onnx.call import Call

_ONE_AXIS_OPSET = 13
"""Before this version Softmax normalises all axes from its own on, together."""
_AXES_INPUT_OPSET = {"ReduceSum": 13}
"""From which version on the axes are an input; 18 for the others."""
_DEFAULT_AXES_INPUT_OPSET = 18


def _softmax(call: Call, *, logarithm: bool = False) -> Sequence[SSAValue]:
    """exp(x - max) / sum of exp(x - max), along one axis."""
    x = call.input(0)
    element, shape = element_of(x), shape_of(x)
    if not isinstance(element, AnyFloat):
        raise call.error(f"is not supported on elements of type {element}")
    one_axis = call.opset >= _ONE_AXIS_OPSET
    axis = int(call.attribute("axis", -1 if one_axis else 1)) % max(len(shape), 1)
    axes = [axis] if one_axis else list(range(axis, len(shape)))
    kept = [1 if dim in axes else size for dim, size in enumerate(shape)]
    emit = call.emit

    def total(value: SSAValue, start: float, body: ScalarBody) -> SSAValue:
        return emit.reshape(emit.reduce(value, axes, start, body), kept)

    largest = total(x, -inf, lambda b, args: b.insert(arith.MaximumfOp(args[1], args[0])))
    shifted = emit.elementwise(
        [x, largest], lambda b, args: b.insert(arith.SubfOp(args[0], args[1]))
    )
    exponential = emit.elementwise([shifted], lambda b, args: b.insert(math.ExpOp(args[0])))
    summed = total(exponential, 0, lambda b, args: b.insert(arith.AddfOp(args[1], args[0])))
    if logarithm:
        return [
            emit.elementwise(
                [shifted, summed],
                lambda b, args: b.insert(arith.SubfOp(args[0], b.insert(math.LogOp(args[1])))),
            )
        ]
    return [
        emit.elementwise(
            [exponential, summed], lambda b, args: b.insert(arith.DivfOp(args[0], args[1]))
        )
    ]


_REDUCTIONS: Mapping[str, tuple[float, ScalarBody]] = {
    "ReduceMax": (-inf, lambda b, args: b.insert(arith.MaximumfOp(args[1], args[0]))),
    "ReduceMean": (0, lambda b, args: b.insert(arith.AddfOp(args[1], args[0]))),
    "ReduceMin": (inf, lambda b, args: b.insert(arith.MinimumfOp(args[1], args[0]))),
    "ReduceSum": (0, lambda b, args: b.insert(arith.AddfOp(args[1], args[0]))),
}
"""What a reduction starts from, and how it goes on."""


def _reduce(name: str, call: Call) -> Sequence[SSAValue]:
    x = call.input(0)
    element, shape = element_of(x), shape_of(x)
    if not isinstance(element, AnyFloat):
        raise call.error(f"is not supported on elements of type {element}")
    axes = _axes(name, call, len(shape))
    start, body = _REDUCTIONS[name]
    result = call.emit.reduce(x, axes, start, body) if axes else x
    if name == "ReduceMean":
        count = prod(shape[dim] for dim in axes)
        result = call.emit.elementwise(
            [result], lambda b, args: b.insert(arith.DivfOp(args[0], b.number(count, element)))
        )
    if not int(call.attribute("keepdims", 1)):
        return [result]
    return [call.emit.reshape(result, [1 if d in axes else n for d, n in enumerate(shape)])]


def _axes(name: str, call: Call, rank: int) -> list[int]:
    if call.opset >= _AXES_INPUT_OPSET.get(name, _DEFAULT_AXES_INPUT_OPSET):
        given: Sequence[int] = call.known(1, "the axes").tolist() if call.has(1) else []
    else:
        given = call.attribute("axes", [])
    is_noop = bool(call.attribute("noop_with_empty_axes", 0))
    if not given:
        return [] if is_noop else list(range(rank))
    return sorted(int(axis) % rank for axis in given)


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "LogSoftmax": partial(_softmax, logarithm=True),
    "Softmax": _softmax,
    **{name: partial(_reduce, name) for name in _REDUCTIONS},
}
