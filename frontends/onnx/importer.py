"""A model's nodes, one after the other, as ops of one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, NameLoc, StringAttr, TensorType

from convir.dialects.port_names import name_ports
from convir.frontends.elements import MEMORY, element_type
from convir.frontends.emitter import (
    Emitter,
    erase_dead_ops,
    erase_dead_reshapes,
    shape_of,
    tensor_type,
)
from convir.frontends.onnx.call import Call, Graph, names_read
from convir.frontends.onnx.constant_nodes import MAX_ELEMENTS, constant_results, is_folded
from convir.frontends.onnx.contributed import with_standard_nodes
from convir.frontends.onnx.control import expand, is_control
from convir.frontends.onnx.digests import Digests
from convir.frontends.onnx.errors import NodeError, OnnxError, Refusals, onnx_library
from convir.frontends.onnx.model import read_model
from convir.frontends.onnx.ops import OPERATORS
from convir.frontends.onnx.shapes import bound_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from xdsl.ir import Attribute, SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.onnx.model import Model, Node, Port

    Operator = Callable[[Call], Sequence[SSAValue]]

FUNCTION = "main"

_OF_ELEMENTS = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose results have as many elements as what they are about says."""


def import_model(
    source: str | Path | Any,
    *,
    shapes: Sequence[Sequence[int] | None] = (),
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Array] | None = None,
    parsed: Any = None,
) -> ModuleOp:
    """The module of an ONNX model: `@main` takes the graph's inputs and returns its outputs.

    Args:
        source: the path of a .onnx file, or a `ModelProto`.
        shapes: the shape of each input, in order; None, or none at all, where the model says it.
        sizes: the size of each named dimension that the model leaves open, such as `batch`.
        values: inputs that become constants, by name, such as the operand of a Reshape; they are
            no arguments of the function.
        parsed: the `ModelProto` of a file, where it was parsed already.

    Raises:
        OnnxError: the model cannot be read, a size is open, or a node is not supported.
    """
    model = read_model(source, parsed)
    fixed = _fixed(model, values or {})
    inputs = tuple(port for port in model.inputs if port.name not in fixed)
    model = replace(model, inputs=inputs, constants={**model.constants, **fixed})
    return module_of_model(model, shapes, sizes)


def module_of_model(
    model: Model,
    shapes: Sequence[Sequence[int] | None] = (),
    sizes: Mapping[str, int] | None = None,
) -> ModuleOp:
    """The module of a model that was read; shapes and sizes as `import_model` takes them.

    Raises:
        OnnxError: a size is open, or a node is not supported.
    """
    return _imported(with_standard_nodes(model), bound_shapes(model, shapes, sizes or {}))


def _fixed(model: Model, values: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs that become constants, of the element types that they have as inputs.

    Raises:
        OnnxError: there is no such input, or it has another shape or type.
    """
    ports = {port.name: port for port in model.inputs}
    fixed: dict[str, Array] = {}
    for name, value in values.items():
        if name not in ports:
            known = ", ".join(f"'{each}'" for each in ports) or "none"
            raise OnnxError(model.file, f"there is no input '{name}'; there are {known}")
        fixed[name] = _fixed_input(model, ports[name], value)
    return fixed


def _fixed_input(model: Model, port: Port, value: Any) -> Array:
    helper = onnx_library("onnx.helper", model.file)
    wanted = np.dtype(helper.tensor_dtype_to_np_dtype(port.element))
    array = np.asarray(value, None if hasattr(value, "__array__") else wanted)
    shape = array.shape if port.shape is None else port.shape
    fits = len(shape) == array.ndim and all(
        isinstance(size, str) or size == have for size, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != wanted or not fits:
        declared = f"{wanted}{[size or '?' for size in shape]}"
        message = f"input '{port.name}' is {declared}, its value {array.dtype}{list(array.shape)}"
        raise OnnxError(model.file, message)
    return array


def _imported(model: Model, shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
    """The module, with inputs of the given shapes."""
    file = FileLineColLoc(StringAttr(model.file), IntAttr(0), IntAttr(0))
    function = func.FuncOp(FUNCTION, ([], []))
    function.location = file
    block = function.body.block
    stored = model.stored if model.file != MEMORY else ()
    digests = Digests(model.constants, stored)
    graph = Graph(model, Emitter(block, file), dict(model.constants), digests)
    for port in model.inputs:
        argument_type = _argument_type(graph, port, shapes[port.name])
        graph.define(port.name, block.insert_arg(argument_type, len(block.args)))
    refusals = Refusals()
    _import_nodes(graph, model.nodes, refusals)
    if messages := refusals.messages():
        raise OnnxError(model.file, *messages)
    graph.emit.location = file
    returned = func.ReturnOp(*(_output(graph, port) for port in model.outputs))
    returned.location = file
    block.add_op(returned)
    erase_dead_reshapes(block)
    if graph.requantise or graph.has_dead_ops:
        erase_dead_ops(block)
    function.update_function_type()
    inputs, outputs = ([port.name for port in ends] for ends in (model.inputs, model.outputs))
    name_ports(function, inputs, outputs)
    return ModuleOp([function])


def _argument_type(graph: Graph, port: Port, shape: Sequence[int]) -> TensorType[Attribute]:
    element = element_type(port.element)
    if element is None:
        message = f"input '{port.name}' has elements of TensorProto type {port.element}"
        raise graph.error(message)
    try:
        return tensor_type(element, shape)
    except ValueError as error:
        raise graph.error(f"input '{port.name}': {error}") from error


def _import_nodes(graph: Graph, nodes: Sequence[Node], refusals: Refusals) -> None:
    """Append the ops of `nodes`; those that are refused are remembered, and the rest goes on."""
    outer = graph.emit.location
    for node in nodes:
        if node in graph.taken.values():
            continue
        graph.emit.location = NameLoc(StringAttr(node.title), graph.place)
        if not graph.lost.isdisjoint(names_read(node)):
            graph.lost.update(node.outputs)
            for error in _unknown_operators(graph, node):
                refusals.add(error)
            continue
        try:
            _import_node(graph, node, refusals)
        except NodeError as error:
            refusals.add(error)
            graph.lost.update(graph.taken.get(node.outputs[0], node).outputs)
    graph.emit.location = outer


def _unknown_operators(graph: Graph, node: Node) -> Generator[NodeError]:
    """What is wrong with a node and its subgraphs, whatever it computes with."""
    if not (is_folded(node) or is_control(node)):
        call = Call(node, graph)
        try:
            _operator(call)
        except NodeError as error:
            yield error
    for subgraph in node.subgraphs:
        for inner in subgraph.nodes:
            yield from _unknown_operators(graph, inner)


def _operator(call: Call) -> Operator:
    """The function of a node's operator.

    Raises:
        NodeError: there is none.
    """
    node = call.node
    operator = None if node.domain else OPERATORS.get(node.op)
    if operator is None:
        domain = f" of domain '{node.domain}'" if node.domain else ""
        if not node.domain and node.op in _OF_ELEMENTS:
            raise call.error("the shape of its result depends on the elements of its inputs")
        if is_folded(node):
            raise call.error(f"is computed at import alone: of constants, {MAX_ELEMENTS} at most")
        raise call.error(f"the operator {node.op}{domain} is not supported")
    return operator


def _import_node(graph: Graph, node: Node, refusals: Refusals) -> None:
    call = Call(node, graph)
    for name in filter(None, node.inputs):
        if not graph.is_known(name):
            raise call.error(f"reads '{name}', which nothing before it computes")
    known = constant_results(call, lambda name: _shape(graph, name))
    if known is not None:
        graph.constants.update(zip(node.outputs, known, strict=False))
        return
    if is_control(node):
        expand(call, refusals, lambda nodes, refused: _import_nodes(graph, nodes, refused))
        return
    results = _results(_operator(call), call)
    call.refuse_attributes()
    outputs = graph.taken.get(node.outputs[0], node).outputs
    for position, name in enumerate(outputs):
        if position < len(results):
            graph.define(name, results[position])
        elif graph.reads[name]:
            raise call.error(f"output #{position} is not supported")


def _results(operator: Operator, call: Call) -> Sequence[SSAValue]:
    try:
        return operator(call)
    except ValueError as error:
        raise call.misfit(str(error)) from error


def _shape(graph: Graph, name: str) -> tuple[int, ...] | None:
    if name in graph.constants:
        return tuple(graph.constants[name].shape)
    value = graph.values.get(name)
    return None if value is None else shape_of(value)


def _output(graph: Graph, port: Port) -> SSAValue:
    value = graph.value(port.name)
    if value is None:
        raise graph.error(f"nothing computes the output '{port.name}'")
    return value
