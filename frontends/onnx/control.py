"""If and Loop, as far as a model says at import what they do: their subgraphs, put in their place.

An If with a constant condition is one of its branches; any other one is both of them, and a choice
between their results. A branch that nothing can run on inputs of these shapes has no results, and
where it is chosen they are NaN. A Loop is its body so many times in a row, for which its trip count
and what its body says of going on must be constants.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, TensorType

from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.errors import Refusals
from convir.frontends.onnx.model import Subgraph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.emitter import ScalarBuilder
    from convir.frontends.onnx.call import Call, Graph
    from convir.frontends.onnx.model import Node

    Import = Callable[[Sequence[Node], Refusals], None]

LOG = logging.getLogger(__name__)

MAX_NODES = 1 << 14
"""Of all subgraphs that are put in their place, those of every trip of a loop."""


def is_control(node: Node) -> bool:
    """Whether a node is about subgraphs."""
    return not node.domain and node.op in _EXPANSIONS


def expand(call: Call, refusals: Refusals, import_nodes: Import) -> None:
    """Import the subgraphs of a node, and call their results what the node calls its own.

    Args:
        call: the node.
        refusals: where nodes of the subgraphs that are refused are remembered.
        import_nodes: appends ops.

    Raises:
        OnnxError: the model does not say what the node does.
    """
    _EXPANSIONS[call.node.op](call, refusals, import_nodes)
    call.refuse_attributes()


def _if(call: Call, refusals: Refusals, import_nodes: Import) -> None:
    branches = [_subgraph(call, f"{name}_branch") for name in ("then", "else")]
    if call.is_known(0):
        chosen = branches[0 if call.known_scalar(0, "the condition") else 1]
        results = _inlined(call, chosen, "branch", {}, refusals, import_nodes)
        for name, result in zip(call.node.outputs, results, strict=False):
            call.graph.alias(name, result)
        return
    condition = call.emit.reshape(call.input(0), [])
    found = [Refusals(), Refusals()]
    both = [
        _inlined(call, branch, f"branch{number}", {}, refused, import_nodes)
        for number, (branch, refused) in enumerate(zip(branches, found, strict=True))
    ]
    missing = _without_results(call, both, found)
    for number, refused in enumerate(found):
        if number != missing:
            refusals.include(refused)
    for name, *names in zip(call.node.outputs, *both, strict=False):
        if call.graph.lost & {one for number, one in enumerate(names) if number != missing}:
            call.graph.lost.add(name)
            continue
        values = [
            _value(call, one) if number != missing else None for number, one in enumerate(names)
        ]
        call.graph.define(name, _chosen(call, condition, values))


def _without_results(
    call: Call, both: Sequence[Sequence[str]], found: Sequence[Refusals]
) -> int | None:
    """The branch that nothing can run on inputs of these shapes, if the other one gives floats."""
    graph, messages = call.graph, [refused.messages() for refused in found]
    if all(messages) or not any(messages):
        return None
    missing = 0 if messages[0] else 1
    results = both[1 - missing]
    if not found[missing].are_misfits or graph.lost & set(results):
        return None
    if not all(isinstance(element_of(_value(call, name)), AnyFloat) for name in results):
        return None
    graph.has_dead_ops = True
    which = ("then", "else")[missing]
    reason = "; ".join(messages[missing])
    LOG.warning("%s: where its %s branch is chosen, it gives NaN: %s", call.node, which, reason)
    return missing


def _chosen(call: Call, condition: SSAValue, values: Sequence[SSAValue | None]) -> SSAValue:
    """The first value where the condition holds, else the second; NaN in the place of none."""
    given = [value for value in values if value is not None]
    first, last = given[0].type, given[-1].type
    if first != last:
        raise call.error(f"its condition is computed, and its branches give {first} and {last}")
    element = element_of(given[0])

    def body(scalars: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        rest = iter(args[1:])
        either = [
            scalars.number(float("nan"), element) if value is None else next(rest)
            for value in values
        ]
        return scalars.insert(arith.SelectOp(args[0], *either))

    return call.emit.elementwise([condition, *given], body, element)


def _loop(call: Call, refusals: Refusals, import_nodes: Import) -> None:
    body, graph = _subgraph(call, "body"), call.graph
    trips = int(call.known_scalar(0, "the trip count")) if call.has(0) else None
    goes_on = call.known_scalar(1, "the condition") if call.has(1) else True
    states: list[str] = list(call.node.inputs[2:])
    collected: list[list[str]] = [[] for _ in body.outputs[1 + len(states) :]]
    trip = 0
    while goes_on and (trips is None or trip < trips):
        prefix = f"trip{trip}"
        counter, flag = (f"{call.node.outputs[0]}/{prefix} {name}" for name in ("number", "on"))
        graph.constants[counter], graph.constants[flag] = np.array(trip, np.int64), np.array(True)
        given = dict(zip(body.inputs, [counter, flag, *states], strict=False))
        condition, *results = _inlined(call, body, prefix, given, refusals, import_nodes)
        if graph.lost & {condition, *results}:
            graph.lost.update(call.node.outputs)
            return
        if call.has(1):
            goes_on = bool(_known(call, condition, trip).all())
        states = results[: len(states)]
        for names, result in zip(collected, results[len(states) :], strict=True):
            names.append(result)
        trip += 1
    for name, state in zip(call.node.outputs, states, strict=False):
        graph.alias(name, state)
    for name, names in zip(call.node.outputs[len(states) :], collected, strict=False):
        _collect(call, name, names)


def _known(call: Call, condition: str, trip: int) -> np.ndarray:
    array = call.graph.constants.get(condition)
    if array is None:
        raise call.error(f"whether it goes on after trip {trip} must be a constant")
    return array


def _collect(call: Call, name: str, names: Sequence[str]) -> None:
    """Call the results of all trips, one after the other in a new dimension, `name`."""
    graph = call.graph
    if all(one in graph.constants for one in names) and names:
        graph.constants[name] = np.stack([graph.constants[one] for one in names])
        return
    if not names:
        raise call.error(f"'{name}' has the results of no trips, of which nothing says the shape")
    values = [_value(call, one) for one in names]
    if any(value.type != values[0].type for value in values):
        raise call.error(f"the trips of '{name}' differ in their types")
    element, shape = element_of(values[0]), shape_of(values[0])
    rows = [call.emit.reshape(value, (1, *shape)) for value in values]
    if len(rows) > 1:
        result = TensorType(element, (len(rows), *shape))
        rows = [call.emit.insert(tensor.ConcatOp(rows, 0, result))]
    graph.define(name, rows[0])


def _subgraph(call: Call, name: str) -> Subgraph:
    return cast("Subgraph", call.attribute(name))


def _value(call: Call, name: str) -> SSAValue:
    value = call.graph.value(name)
    if value is None:
        raise call.error(f"nothing computes '{name}'")
    return value


def _inlined(
    call: Call,
    subgraph: Subgraph,
    prefix: str,
    given: Mapping[str, str],
    refusals: Refusals,
    import_nodes: Import,
) -> list[str]:
    """Import a subgraph, and return what its outputs are called.

    Args:
        call: the node.
        subgraph: of the node.
        prefix: of the names of all that the subgraph defines, behind that of the node.
        given: what its inputs are called in the graph around it.
        refusals: where nodes that are refused are remembered.
        import_nodes: appends ops.
    """
    graph: Graph = call.graph
    graph.inlined += 1 + len(subgraph.nodes)
    if graph.inlined > MAX_NODES:
        raise call.error(f"its subgraphs come to more than {MAX_NODES} nodes, trip by trip")
    defined = [*subgraph.constants, *(name for node in subgraph.nodes for name in node.outputs)]
    names = {name: f"{call.node.outputs[0]}/{prefix}/{name}" for name in defined if name}
    names.update(given)
    nodes = [_renamed(node, names) for node in subgraph.nodes]
    outputs = [names.get(name, name) for name in subgraph.outputs]
    for name, array in subgraph.constants.items():
        graph.constants[names[name]] = array
    graph.announce(nodes, outputs)
    import_nodes(nodes, refusals)
    return outputs


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """A node with other names of values, also where its subgraphs read them."""
    attributes = {
        name: _renamed_around(value, names) if isinstance(value, Subgraph) else value
        for name, value in node.attributes.items()
    }
    inputs, outputs = (
        tuple(names.get(name, name) for name in ends) for ends in (node.inputs, node.outputs)
    )
    return replace(node, inputs=inputs, outputs=outputs, attributes=attributes)


def _renamed_around(subgraph: Subgraph, names: Mapping[str, str]) -> Subgraph:
    """A subgraph that reads values of the graph around it by other names."""
    own = {*subgraph.constants, *subgraph.inputs}
    own |= {name for node in subgraph.nodes for name in node.outputs}
    outer = {name: renamed for name, renamed in names.items() if name not in own}
    nodes = tuple(_renamed(node, outer) for node in subgraph.nodes)
    outputs = tuple(outer.get(name, name) for name in subgraph.outputs)
    return replace(subgraph, nodes=nodes, outputs=outputs)


_EXPANSIONS: Mapping[str, Callable[[Call, Refusals, Import], None]] = {"If": _if, "Loop": _loop}
