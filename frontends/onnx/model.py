"""What a model says, in plain data: nodes, constants, inputs and outputs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.frontends.elements import MEMORY, Array
from convir.frontends.onnx.errors import OnnxError, onnx_library
from convir.frontends.onnx.signatures import attribute_refusal, signatures
from convir.frontends.onnx.tensors import TensorReader

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_DOMAINS = ("", "ai.onnx")

_OPEN = -1
"""What some exporters declare where a size is open."""


@dataclass(frozen=True, eq=False)
class Node:
    """One operator of the graph; equal to nothing but itself."""

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    """Names of values; an empty one stands for an input that is left out."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    """Python numbers, strings, lists of them, arrays, and subgraphs."""

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """Those among its attributes."""
        return tuple(x for x in self.attributes.values() if isinstance(x, Subgraph))

    @property
    def label(self) -> str:
        """What errors call it: its name, or that of its result."""
        return self.name or next(iter(self.outputs), "")

    @property
    def title(self) -> str:
        """What remarks and reports call it: its name, or its operator and its result."""
        return self.name or f"{self.op} {self.label}".rstrip()

    def __str__(self) -> str:
        return f"node '{self.label}' ({self.op})"


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The body of an If or a Loop, which also reads values of the graph around it."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Port:
    """An input or an output of the graph."""

    name: str
    element: int
    """A `TensorProto.DataType`."""
    shape: tuple[int | str, ...] | None
    """A number or a symbol ('' if it has no name) per dimension; None if even the rank is open."""


@dataclass(frozen=True)
class Model:
    """A graph whose constants are apart from its computed values."""

    file: str
    """Its path, or `MEMORY`."""
    opset: int
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    stored: frozenset[str]
    """The constants that the file holds as tensors with these names."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def read_model(source: str | Path | Any, parsed: Any = None) -> Model:
    """The model in a file, which somebody may have `parsed` to a `ModelProto`; or a `ModelProto`.

    Raises:
        OnnxError: the package onnx is missing, the file is not a model, or holds what no version
            of this front end reads.
    """
    if not isinstance(source, str | Path):
        return _model(source, MEMORY)
    file = str(source)
    if parsed is not None:
        return _model(parsed, file)
    onnx = onnx_library("onnx", file)
    try:
        proto = onnx.load(file, load_external_data=False)
    except OSError as error:
        raise OnnxError(file, error.strerror or str(error)) from error
    except Exception as error:
        raise OnnxError(file, f"is not an ONNX model: {error}") from error
    return _model(proto, file)


def _model(proto: Any, file: str) -> Model:
    try:
        return _read(proto, file)
    except UnicodeDecodeError as error:
        raise OnnxError(file, f"holds a string that is not UTF-8: {error}") from error


def _read(proto: Any, file: str) -> Model:
    graph = proto.graph
    if not graph.output:
        raise OnnxError(file, "is not an ONNX model: its graph has no outputs")
    if graph.sparse_initializer:
        raise OnnxError(file, "sparse initializers are not supported")
    opsets = [entry.version for entry in proto.opset_import if entry.domain in _DEFAULT_DOMAINS]
    _check_names(graph, file)
    read_tensor = TensorReader(file)
    nodes, constants, stored = _NodeReader(file, read_tensor).graph(graph)
    return Model(
        file=file,
        opset=max(opsets, default=1),
        nodes=nodes,
        constants=constants,
        stored=stored,
        inputs=tuple(_port(x, file) for x in graph.input if x.name not in constants),
        outputs=tuple(_port(value, file) for value in graph.output),
    )


def _text(value: Any) -> str:
    """A string of a model, of which protobuf gives the bytes if they are no UTF-8.

    Raises:
        UnicodeDecodeError: they are none.
    """
    return value if isinstance(value, str) else bytes(value).decode()


def _check_names(graph: Any, file: str) -> None:
    """Refuse a graph in which one name stands for two values.

    Raises:
        OnnxError: there is such a name.
    """
    inputs, constants = ([x.name for x in values] for values in (graph.input, graph.initializer))
    known = {*inputs, *constants}
    for what, names in (("input", inputs), ("initializer", constants)):
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise OnnxError(file, f"{what} '{twice}' is declared twice")
    for name in (name for node in graph.node for name in node.output if name):
        if name in known:
            raise OnnxError(file, f"two nodes, or a node and the graph's inputs, give '{name}'")
        known.add(name)


class _NodeReader:
    """Reads nodes of one model."""

    def __init__(self, file: str, read_tensor: TensorReader) -> None:
        self._file = file
        self._read_tensor = read_tensor
        self._value = onnx_library("onnx.helper", file).get_attribute_value
        library = onnx_library("onnx", file)
        self._tensor: type = library.TensorProto
        self._graph: type = library.GraphProto
        self._types = {
            number: name for name, number in library.AttributeProto.AttributeType.items()
        }

    def graph(self, graph: Any) -> tuple[tuple[Node, ...], dict[str, Array], frozenset[str]]:
        """The nodes and the constants of a graph, and which of these are tensors of the file.

        Raises:
            OnnxError: one of them is no such node, or no such tensor, as the standard allows.
        """
        constants = {_text(tensor.name): self._read_tensor(tensor) for tensor in graph.initializer}
        stored = set(constants)
        nodes: list[Node] = []
        for node in map(self, graph.node):
            if node.op == "Constant" and not node.domain:
                constants[node.outputs[0]] = _constant(node, self._file)
                stored |= {node.outputs[0]} if "value" in node.attributes else set()
            else:
                nodes.append(node)
        return tuple(nodes), constants, frozenset(stored)

    def __call__(self, proto: Any) -> Node:
        """The node of a `NodeProto`.

        Raises:
            OnnxError: it is no such node as the standard allows.
        """
        domain = "" if proto.domain in _DEFAULT_DOMAINS else _text(proto.domain)
        inputs, outputs = tuple(map(_text, proto.input)), tuple(map(_text, proto.output))
        node = Node(_text(proto.name), _text(proto.op_type), domain, inputs, outputs, {})
        signature = None if domain else signatures().get(proto.op_type)
        refusal = signature and signature.refusal(inputs, outputs)
        if refusal:
            raise OnnxError(self._file, f"{node}: {refusal}")
        attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            refusal = attribute_refusal(attribute, self._types, signature)
            name = _text(attribute.name)
            if name in attributes:
                refusal = "is given twice"
            if refusal:
                raise OnnxError(self._file, f"{node}: attribute '{name}' {refusal}")
            attributes[name] = self._attribute(node, attribute)
        return replace(node, attributes=attributes)

    def _attribute(self, node: Node, attribute: Any) -> Any:
        value = self._value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, self._tensor):
            return self._read_tensor(value, f"{node}: attribute '{attribute.name}'")
        if isinstance(value, self._graph):
            return self._subgraph(value)
        return value

    def _subgraph(self, graph: Any) -> Subgraph:
        if graph.sparse_initializer:
            raise OnnxError(self._file, "sparse initializers are not supported")
        _check_names(graph, self._file)
        nodes, constants, _ = self.graph(graph)
        inputs, outputs = ([_text(x.name) for x in ends] for ends in (graph.input, graph.output))
        return Subgraph(nodes, constants, tuple(inputs), tuple(outputs))


def _constant(node: Node, file: str) -> Array:
    """The value of a Constant node.

    Raises:
        OnnxError: it holds strings, or a sparse tensor.
    """
    dtypes = {
        "value": None,
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, value in node.attributes.items():
        if name in dtypes:
            return np.asarray(value, dtypes[name])
    raise OnnxError(file, f"{node}: has a value that is not a dense tensor of numbers")


def _symbol(name: str) -> str:
    """The name of an open size; none where an exporter writes a mark, such as `?`."""
    return name if any(map(str.isalpha, name)) else ""


def _port(value: Any, file: str) -> Port:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return Port(_text(value.name), tensor.elem_type, None)
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else _symbol(_text(dim.dim_param))
        for dim in tensor.shape.dim
    )
    for size in shape:
        if isinstance(size, int) and size < _OPEN:
            raise OnnxError(file, f"'{value.name}' declares a size of {size}")
    return Port(
        _text(value.name), tensor.elem_type, tuple("" if size == _OPEN else size for size in shape)
    )
