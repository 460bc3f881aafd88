"""Recurrent layers: LSTM, GRU and plain ones, over a sequence of known length, step by step.

The products with the inputs are one contraction for all steps. A step is a contraction with the
state before it, and one elementwise op for each state. States of f16 and bf16 are f32 inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, TensorType, i1
from xdsl.dialects.tensor import ConcatOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from convir.frontends.emitter import Emitter, ScalarBuilder, element_of, shape_of
from convir.frontends.scalar_functions import clamp, compared, converted
from convir.frontends.tensor_functions.contraction import multiply_add

if TYPE_CHECKING:
    from collections.abc import Sequence

Activation: TypeAlias = Callable[[ScalarBuilder, SSAValue], SSAValue]


@dataclass(frozen=True)
class Direction:
    """The weights and states of one direction, of H hidden units and I inputs."""

    input_weights: SSAValue
    """G*H x I, of G gates."""
    state_weights: SSAValue
    """G*H x H."""
    input_bias: SSAValue | None
    """G*H."""
    state_bias: SSAValue | None
    """G*H."""
    hidden: SSAValue
    """B x H, of B sequences: before the first step."""
    cell: SSAValue | None
    """B x H, of an LSTM."""
    activations: Sequence[Activation]
    is_reversed: bool


@dataclass(frozen=True)
class Layer:
    """What all directions of a layer share."""

    emit: Emitter
    sequence: SSAValue
    """T x B x I, of T steps."""
    lengths: SSAValue | None
    """B, of signed integers: steps behind the length of a sequence change nothing, and give 0."""
    clip: float | None
    """The largest magnitude of what gates are computed of."""


Step: TypeAlias = Callable[["Layer", Direction, SSAValue, "list[SSAValue]"], "list[SSAValue]"]
"""The states after a step, of the products with its input, B x G*H, and of the states before."""


def run(layer: Layer, direction: Direction, step: Step) -> tuple[SSAValue, list[SSAValue]]:
    """The hidden states of all steps, T x B x H, and the states after the last one, B x H each.

    Args:
        layer: the sequences.
        direction: the weights.
        step: what kind of layer it is.
    """
    emit, element = layer.emit, element_of(layer.sequence)
    steps, batch, _ = shape_of(layer.sequence)
    products = _input_products(layer, direction)
    wide, columns = element_of(products), shape_of(products)[-1]
    given = [state for state in (direction.hidden, direction.cell) if state is not None]
    states = [_converted(emit, state, wide) for state in given]
    hidden: dict[int, SSAValue] = {}
    order = range(steps)
    for time in reversed(order) if direction.is_reversed else order:
        row = emit.extract(products, [time, 0, 0], [1, batch, columns], [1, 1, 1])
        following = step(layer, direction, emit.reshape(row, [batch, columns]), states)
        if layer.lengths is None:
            states = following
            hidden[time] = states[0]
        else:
            within = _within(emit, layer.lengths, time)
            zero = emit.filled(0, shape_of(states[0]), wide)
            hidden[time] = _chosen(emit, within, following[0], zero)
            states = [
                _chosen(emit, within, new, old) for new, old in zip(following, states, strict=True)
            ]
    rows = [emit.reshape(hidden[time], [1, *shape_of(hidden[time])]) for time in order]
    whole = rows[0]
    if steps > 1:
        whole = emit.insert(ConcatOp(rows, 0, TensorType(wide, [steps, *shape_of(states[0])])))
    return _converted(emit, whole, element), [_converted(emit, x, element) for x in states]


def _input_products(layer: Layer, direction: Direction) -> SSAValue:
    """What the inputs of all steps give to the gates, T x B x G*H."""
    steps, batch, _ = shape_of(layer.sequence)
    columns = shape_of(direction.input_weights)[0]
    time, row, column, depth = (AffineExpr.dimension(loop) for loop in range(4))
    operands = [
        (layer.sequence, [time, row, depth]),
        (direction.input_weights, [column, depth]),
    ]
    return _biased(
        layer.emit,
        multiply_add(layer.emit, operands, (steps, batch, columns)),
        direction.input_bias,
    )


def _state_products(
    layer: Layer, direction: Direction, state: SSAValue, first: int, gates: int
) -> SSAValue:
    """What a state gives to so many gates, B x gates*H, with its bias."""
    emit, (batch, units) = layer.emit, shape_of(state)
    wide, size = element_of(state), gates * units
    weights = emit.extract(direction.state_weights, [first * units, 0], [size, units], [1, 1])
    bias = direction.state_bias
    if bias is not None:
        bias = emit.extract(bias, [first * units], [size], [1])
    row, column, depth = (AffineExpr.dimension(loop) for loop in range(3))
    operands = [(state, [row, depth]), (_converted(emit, weights, wide), [column, depth])]
    return _biased(emit, multiply_add(emit, operands, (batch, size)), bias)


def lstm_step(peepholes: SSAValue | None, *, couples: bool = False) -> Step:
    """That of an LSTM, whose gates are input, output, forget and cell.

    Args:
        peepholes: 1 x 3*H weights, from the cell state to the first three gates.
        couples: whether what is forgotten is what the input does not give.
    """

    def step(
        layer: Layer, direction: Direction, products: SSAValue, states: list[SSAValue]
    ) -> list[SSAValue]:
        emit, (hidden, cell) = layer.emit, states
        wide = element_of(cell)
        gate_of, candidate_of, output_of = direction.activations
        given = _sum(emit, products, _state_products(layer, direction, hidden, 0, 4))
        gates = _gates(emit, given, 4)
        weights = [] if peepholes is None else _gates(emit, peepholes, 3)

        def gate(body: ScalarBuilder, x: SSAValue, *peephole: SSAValue) -> SSAValue:
            if peephole:
                state, weight = peephole
                weight = converted(body, weight, wide)
                x = body.insert(arith.AddfOp(x, body.insert(arith.MulfOp(state, weight))))
            return gate_of(body, _clipped(body, x, layer.clip))

        def next_cell(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            into, forget, candidate, before, *others = args
            i = gate(body, into, *([before, others[0]] if others else []))
            if couples:
                f = body.insert(arith.SubfOp(body.number(1, i.type), i))
            else:
                f = gate(body, forget, *([before, others[1]] if others else []))
            new = candidate_of(body, _clipped(body, candidate, layer.clip))
            kept = body.insert(arith.MulfOp(f, before))
            return body.insert(arith.AddfOp(kept, body.insert(arith.MulfOp(i, new))))

        def next_hidden(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            out, after, *others = args
            o = gate(body, out, *([after, others[0]] if others else []))
            return body.insert(arith.MulfOp(o, output_of(body, after)))

        into, out, forget, candidate = gates
        of_cell = [into, forget, candidate, cell, *weights[::2]]
        after = emit.elementwise(of_cell, next_cell, wide)
        return [emit.elementwise([out, after, *weights[1:2]], next_hidden, wide), after]

    return step


def gru_step(*, linear_before_reset: bool) -> Step:
    """That of a GRU, whose gates are update, reset and hidden.

    Args:
        linear_before_reset: whether the state is multiplied with its weights, and its bias added,
            before it is reset.
    """

    def step(
        layer: Layer, direction: Direction, products: SSAValue, states: list[SSAValue]
    ) -> list[SSAValue]:
        emit, (state,) = layer.emit, states
        gate_of, candidate_of = direction.activations
        update, reset, candidate = _gates(emit, products, 3)
        if linear_before_reset:
            given = _gates(emit, _state_products(layer, direction, state, 0, 3), 3)
        else:
            given = _gates(emit, _state_products(layer, direction, state, 0, 2), 2)

        def gate(body: ScalarBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
            total = body.insert(arith.AddfOp(x, y))
            return gate_of(body, _clipped(body, total, layer.clip))

        def reset_times(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            return body.insert(arith.MulfOp(gate(body, args[0], args[1]), args[2]))

        if linear_before_reset:
            rest = emit.elementwise([reset, given[1], given[2]], reset_times)
        else:
            old = emit.elementwise([reset, given[1], state], reset_times)
            rest = _state_products(layer, direction, old, 2, 1)

        def following(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
            z = gate(body, args[0], args[1])
            total = body.insert(arith.AddfOp(args[2], args[3]))
            new = candidate_of(body, _clipped(body, total, layer.clip))
            share = body.insert(arith.SubfOp(body.number(1, z.type), z))
            kept = body.insert(arith.MulfOp(z, args[4]))
            return body.insert(arith.AddfOp(body.insert(arith.MulfOp(share, new)), kept))

        return [emit.elementwise([update, given[0], candidate, rest, state], following)]

    return step


def rnn_step(
    layer: Layer, direction: Direction, products: SSAValue, states: list[SSAValue]
) -> list[SSAValue]:
    """That of a plain recurrent layer."""
    (activation,) = direction.activations
    given = _state_products(layer, direction, states[0], 0, 1)

    def following(body: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        total = body.insert(arith.AddfOp(args[0], args[1]))
        return activation(body, _clipped(body, total, layer.clip))

    return [layer.emit.elementwise([products, given], following)]


def _gates(emit: Emitter, products: SSAValue, count: int) -> list[SSAValue]:
    """The columns of each gate."""
    batch, columns = shape_of(products)
    units = columns // count
    return [
        emit.extract(products, [0, gate * units], [batch, units], [1, 1]) for gate in range(count)
    ]


def _clipped(body: ScalarBuilder, x: SSAValue, clip: float | None) -> SSAValue:
    return x if clip is None else clamp(body, x, -clip, clip)


def _sum(emit: Emitter, *values: SSAValue) -> SSAValue:
    return emit.elementwise(values, lambda body, args: body.insert(arith.AddfOp(args[0], args[1])))


def _biased(emit: Emitter, value: SSAValue, bias: SSAValue | None) -> SSAValue:
    if bias is None:
        return value
    return _sum(emit, value, _converted(emit, bias, element_of(value)))


def _converted(emit: Emitter, value: SSAValue, element: AnyFloat) -> SSAValue:
    if element_of(value) == element:
        return value
    return emit.elementwise([value], lambda body, args: converted(body, args[0], element), element)


def _within(emit: Emitter, lengths: SSAValue, time: int) -> SSAValue:
    """Whether each sequence is longer than `time` steps, B x 1."""
    flags = emit.elementwise(
        [lengths], lambda b, args: compared(b, "gt", args[0], b.number(time, args[0].type)), i1
    )
    return emit.reshape(flags, [*shape_of(lengths), 1])


def _chosen(emit: Emitter, flags: SSAValue, new: SSAValue, old: SSAValue) -> SSAValue:
    return emit.elementwise(
        [flags, new, old], lambda body, args: body.insert(arith.SelectOp(*args)), element_of(new)
    )
