"""CumSum, TopK, ArgMax and ArgMin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, i1

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.tensor_functions.order import position_of_most, running, top

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.onnx.call import Call

_COUNT_INPUT_OPSET = 10
"""From this version on, TopK takes the number of elements as an input."""

MAX_RANKED = 1 << 14
"""Elements in order of each other: each is compared with each."""


def _numbers(call: Call) -> SSAValue:
    x = call.input(0)
    if element_of(x) == i1:
        raise call.error("is not supported on elements of type i1")
    return x


def _cum_sum(call: Call) -> Sequence[SSAValue]:
    x = _numbers(call)
    axis = call.axis(int(call.known_scalar(1, "the axis")), len(shape_of(x)))
    excludes, is_reversed = (bool(call.attribute(name, 0)) for name in ("exclusive", "reverse"))
    add = arith.AddfOp if isinstance(element_of(x), AnyFloat) else arith.AddiOp
    return [running(call.emit, x, axis, add, 0, excludes=excludes, is_reversed=is_reversed)]


def _top_k(call: Call) -> Sequence[SSAValue]:
    x = _numbers(call)
    shape = shape_of(x)
    axis = call.axis(int(call.attribute("axis", -1)), len(shape))
    if call.opset < _COUNT_INPUT_OPSET:
        count = int(call.attribute("k"))
    else:
        count = int(call.known_scalar(1, "the number of elements"))
    largest = bool(call.attribute("largest", 1))
    call.attribute("sorted", 1)  # They are, whether that is asked for or not.
    if not 0 <= count <= shape[axis]:
        raise call.error(f"there are no {count} elements in a dimension of size {shape[axis]}")
    if shape[axis] > MAX_RANKED:
        raise call.error(
            f"an order of {shape[axis]} elements is not supported, more than {MAX_RANKED}"
        )
    return top(call.emit, x, axis, count, largest=largest)


def _arg(call: Call, *, largest: bool) -> Sequence[SSAValue]:
    x = _numbers(call)
    shape = shape_of(x)
    axis = call.axis(int(call.attribute("axis", 0)), len(shape))
    last = bool(call.attribute("select_last_index", 0))
    if not shape[axis]:
        raise call.error("a dimension of size 0 has no largest or smallest element")
    result = position_of_most(call.emit, x, axis, largest=largest, last=last)
    if not int(call.attribute("keepdims", 1)):
        return [result]
    return [call.emit.reshape(result, [1 if d == axis else n for d, n in enumerate(shape)])]


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "ArgMax": partial(_arg, largest=True),
    "ArgMin": partial(_arg, largest=False),
    "CumSum": _cum_sum,
    "TopK": _top_k,
}
