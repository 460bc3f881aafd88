"""LSTM, GRU and RNN, in one direction or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.tensor import ConcatOp

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.scalar_functions import (
    clamp,
    elu,
    hard_sigmoid,
    leaky,
    scaled,
    sigmoid,
    softplus,
)
from convir.frontends.tensor_functions.recurrence import (
    Direction,
    Layer,
    gru_step,
    lstm_step,
    rnn_step,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call
    from convir.frontends.tensor_functions.recurrence import Activation, Step

MAX_STEPS = 1024
"""Of all directions: each is a contraction and the ops behind it."""

INPUT, WEIGHTS, RECURRENCE, BIAS, LENGTHS, HIDDEN, CELL, PEEPHOLES = range(8)
"""The inputs; the last two are an LSTM's."""

_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@dataclass(frozen=True)
class _Function:
    """An activation with the defaults of its parameters; None where it has none, or no default."""

    build: Callable[[ScalarBuilder, SSAValue, float, float], SSAValue]
    alpha: float | None = None
    beta: float | None = None


def _affine(body: ScalarBuilder, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    return body.insert(arith.AddfOp(scaled(body, x, alpha), body.number(beta, x.type)))


def _softsign(body: ScalarBuilder, x: SSAValue, _alpha: float, _beta: float) -> SSAValue:
    above = body.insert(arith.AddfOp(body.insert(math.AbsFOp(x)), body.number(1, x.type)))
    return body.insert(arith.DivfOp(x, above))


_FUNCTIONS: Mapping[str, _Function] = {
    "affine": _Function(_affine, 1.0, 0.0),
    "elu": _Function(lambda body, x, alpha, _: elu(body, x, alpha), 1.0),
    "hardsigmoid": _Function(hard_sigmoid, 0.2, 0.5),
    "leakyrelu": _Function(lambda body, x, alpha, _: leaky(body, x, alpha), 0.01),
    "relu": _Function(lambda body, x, _a, _b: clamp(body, x, 0, None)),
    "sigmoid": _Function(lambda body, x, _a, _b: sigmoid(body, x)),
    "softplus": _Function(lambda body, x, _a, _b: softplus(body, x)),
    "softsign": _Function(_softsign),
    "tanh": _Function(lambda body, x, _a, _b: body.insert(math.TanhOp(x))),
}


def _activations(call: Call, default: Sequence[str], directions: int) -> list[Activation]:
    """Those of all directions, one after the other."""
    names = list(call.attribute("activations", [*default] * directions))
    if len(names) != len(default) * directions:
        raise call.error(f"{len(names)} activations of {directions} x {len(default)}")
    alphas, betas = (iter(call.attribute(f"activation_{x}", [])) for x in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        text = name.decode() if isinstance(name, bytes) else str(name)
        function = _FUNCTIONS.get(text.lower())
        if function is None:
            raise call.error(f"the activation {text} is not supported")
        alpha = 0.0 if function.alpha is None else next(alphas, function.alpha)
        beta = 0.0 if function.beta is None else next(betas, function.beta)
        found.append(
            lambda body, x, build=function.build, alpha=alpha, beta=beta: build(
                body, x, float(alpha), float(beta)
            )
        )
    return found


def _recurrent(
    call: Call, gates: int, defaults: Sequence[str], step_of: Callable[[int], Step]
) -> Sequence[SSAValue]:
    """All steps of a layer; `step_of` says what a step is in a direction.

    Returns Y and the last states, as the node has them.
    """
    x, w, r = call.floats(INPUT, WEIGHTS, RECURRENCE)
    reversed_ = _DIRECTIONS[call.choice("direction", "forward", tuple(_DIRECTIONS))]
    batch_first = bool(call.attribute("layout", 0))
    emit, count, has_cell = call.emit, len(reversed_), len(defaults) == 3
    for value in (x, w, r):
        if len(shape_of(value)) != 3:
            raise call.misfit(f"its inputs are of 3 dimensions, not {list(shape_of(value))}")
    x = emit.transpose(x, [1, 0, 2]) if batch_first else x
    steps, batch, inputs = shape_of(x)
    units = call.count("hidden_size", shape_of(r)[2])
    if not steps or steps * count > MAX_STEPS:
        raise call.error(f"{steps * count} steps are not supported, only 1 to {MAX_STEPS}")
    call.shaped(w, (count, gates * units, inputs), "its weights")
    call.shaped(r, (count, gates * units, units), "its recurrence weights")
    activations = _activations(call, defaults, count)
    bias = None
    if call.has(BIAS):
        bias = call.shaped(call.floats(INPUT, BIAS)[1], (count, 2 * gates * units), "its bias")

    def state(position: int) -> SSAValue:
        if not call.has(position):
            return emit.filled(0, (count, batch, units), element_of(x))
        value = call.floats(INPUT, position)[1]
        value = emit.transpose(value, [1, 0, 2]) if batch_first else value
        return call.shaped(value, (count, batch, units), "a state")

    starts = [state(position) for position in ((HIDDEN, CELL) if has_cell else (HIDDEN,))]
    layer = Layer(emit, x, _lengths(call, steps, batch), _clip(call))
    outputs: list[SSAValue] = []
    finals: list[list[SSAValue]] = []
    for number, is_reversed in enumerate(reversed_):
        input_bias = state_bias = None
        if bias is not None:
            row, size = _row(call, bias, number), gates * units
            input_bias, state_bias = (emit.extract(row, [n], [size], [1]) for n in (0, size))
        first, *others = [_row(call, start, number) for start in starts]
        each = len(defaults)
        direction = Direction(
            _row(call, w, number),
            _row(call, r, number),
            input_bias,
            state_bias,
            first,
            others[0] if others else None,
            activations[number * each : (number + 1) * each],
            is_reversed,
        )
        hidden, states = run(layer, direction, step_of(number))
        outputs.append(emit.reshape(hidden, [steps, 1, batch, units]))
        finals.append([emit.reshape(last, [1, batch, units]) for last in states])
    y = _joined(call, outputs, 1)
    last = [_joined(call, list(each), 0) for each in zip(*finals, strict=True)]
    if batch_first:
        y = emit.transpose(y, [2, 0, 1, 3])
        last = [emit.transpose(each, [1, 0, 2]) for each in last]
    return [y, *last]


def _row(call: Call, value: SSAValue, number: int) -> SSAValue:
    """One entry of the first dimension, without that."""
    shape = shape_of(value)
    offsets = [number, *([0] * (len(shape) - 1))]
    part = call.emit.extract(value, offsets, [1, *shape[1:]], [1] * len(shape))
    return call.emit.reshape(part, shape[1:])


def _joined(call: Call, parts: Sequence[SSAValue], axis: int) -> SSAValue:
    if len(parts) == 1:
        return parts[0]
    shape = list(shape_of(parts[0]))
    shape[axis] = len(parts)
    return call.emit.insert(ConcatOp(parts, axis, TensorType(element_of(parts[0]), shape)))


def _lengths(call: Call, steps: int, batch: int) -> SSAValue | None:
    """The lengths of the sequences, where they are not all of all steps."""
    if not call.has(LENGTHS):
        return None
    known = call.constant(LENGTHS)
    if known is not None and (known == steps).all():
        return None
    return call.shaped(call.input(LENGTHS), (batch,), "the lengths")


def _clip(call: Call) -> float | None:
    clip = call.attribute("clip", None)
    return None if clip is None else float(clip)


def _lstm(call: Call) -> Sequence[SSAValue]:
    couples = bool(call.attribute("input_forget", 0))
    peepholes = call.floats(INPUT, PEEPHOLES)[1] if call.has(PEEPHOLES) else None

    def step_of(number: int) -> Step:
        weights = None
        if peepholes is not None:
            row = _row(call, peepholes, number)
            weights = call.emit.reshape(row, [1, *shape_of(row)])
        return lstm_step(weights, couples=couples)

    return _recurrent(call, 4, ("Sigmoid", "Tanh", "Tanh"), step_of)


def _gru(call: Call) -> Sequence[SSAValue]:
    linear = bool(call.attribute("linear_before_reset", 0))
    step = gru_step(linear_before_reset=linear)
    return _recurrent(call, 3, ("Sigmoid", "Tanh"), lambda _: step)


def _rnn(call: Call) -> Sequence[SSAValue]:
    return _recurrent(call, 1, ("Tanh",), lambda _: rnn_step)


OPERATORS: Mapping[str, Callable[[Call], Sequence[SSAValue]]] = {
    "GRU": _gru,
    "LSTM": _lstm,
    "RNN": _rnn,
}
