"""A model's nodes, one after the other, as ops of one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, NameLoc, StringAttr, TensorType

from convir.frontends.elements import element_type
from convir.frontends.emitter import Emitter, erase_dead_reshapes, shape_of, tensor_type
from convir.frontends.onnx.call import Call, Graph
from convir.frontends.onnx.constant_nodes import constant_results
from convir.frontends.onnx.model import read_model
from convir.frontends.onnx.ops import OPERATORS
from convir.frontends.onnx.shapes import bound_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from xdsl.ir import Attribute, SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.onnx.model import Model, Node, Port

FUNCTION = "main"


def import_model(
    source: str | Path | Any,
    *,
    shapes: Sequence[Sequence[int] | None] = (),
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Array] | None = None,
) -> ModuleOp:
    """The module of an ONNX model: `@main` takes the graph's inputs and returns its outputs.

    Args:
        source: the path of a .onnx file, or a `ModelProto`.
        shapes: the shape of each input, in order; None, or none at all, where the model says it.
        sizes: the size of each named dimension that the model leaves open, such as `batch`.
        values: inputs that become constants, by name, such as the operand of a Reshape; they are
            no arguments of the function.

    Raises:
        OnnxError: the model cannot be read, a size is open, or a node is not supported.
    """
    model = read_model(source)
    fixed = values or {}
    inputs = tuple(port for port in model.inputs if port.name not in fixed)
    model = replace(model, inputs=inputs, constants={**model.constants, **fixed})
    return _imported(model, bound_shapes(model, shapes, sizes or {}))


def _imported(model: Model, shapes: Mapping[str, Sequence[int]]) -> ModuleOp:
    """The module, with inputs of the given shapes."""
    file = FileLineColLoc(StringAttr(model.file), IntAttr(0), IntAttr(0))
    function = func.FuncOp(FUNCTION, ([], []))
    function.location = file
    block = function.body.block
    graph = Graph(model, Emitter(block, file), dict(model.constants))
    for port in model.inputs:
        argument_type = _argument_type(graph, port, shapes[port.name])
        graph.define(port.name, block.insert_arg(argument_type, len(block.args)))
    for node in model.nodes:
        if node not in graph.taken.values():
            graph.emit.location = NameLoc(StringAttr(node.name or node.op), file)
            _import_node(graph, node)
    graph.emit.location = file
    returned = func.ReturnOp(*(_output(graph, port) for port in model.outputs))
    returned.location = file
    block.add_op(returned)
    erase_dead_reshapes(block)
    function.update_function_type()
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


def _import_node(graph: Graph, node: Node) -> None:
    call = Call(node, graph)
    for name in filter(None, node.inputs):
        if name not in graph.values and name not in graph.constants:
            raise call.error(f"reads '{name}', which nothing before it computes")
    known = constant_results(call, lambda name: _shape(graph, name))
    if known is not None:
        graph.constants.update(zip(node.outputs, known, strict=False))
        return
    operator = None if node.domain else OPERATORS.get(node.op)
    if operator is None:
        domain = f" of domain '{node.domain}'" if node.domain else ""
        raise call.error(f"the operator {node.op}{domain} is not supported")
    results = _results(operator, call)
    call.refuse_attributes()
    outputs = graph.taken.get(node.outputs[0], node).outputs
    for position, name in enumerate(outputs):
        if position < len(results):
            graph.define(name, results[position])
        elif graph.model.readers.get(name):
            raise call.error(f"output #{position} is not supported")


def _results(operator: Callable[[Call], Sequence[SSAValue]], call: Call) -> Sequence[SSAValue]:
    try:
        return operator(call)
    except ValueError as error:
        raise call.error(str(error)) from error


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
