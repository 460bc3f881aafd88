"""What a model says, in plain data: nodes, constants, inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.frontends.elements import MEMORY, Array
from convir.frontends.onnx.errors import OnnxError, onnx_library

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_DOMAINS = ("", "ai.onnx")


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
    """Python numbers, strings, lists of them, and arrays."""

    def __str__(self) -> str:
        label = self.name or next(iter(self.outputs), "")
        return f"node '{label}' ({self.op})"


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
    readers: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many times each value is read, as an output of the graph too."""


def read_model(source: str | Path | Any) -> Model:
    """The model in a file, or a `ModelProto`.

    Raises:
        OnnxError: the package onnx is missing, the file is no model, or holds what no version
            of this front end reads.
    """
    if not isinstance(source, str | Path):
        return _model(source, MEMORY)
    file = str(source)
    onnx = onnx_library("onnx", file)
    try:
        proto = onnx.load(file)
    except OSError as error:
        raise OnnxError(file, error.strerror or str(error)) from error
    except Exception as error:
        raise OnnxError(file, f"is no ONNX model: {error}") from error
    return _model(proto, file)


def _model(proto: Any, file: str) -> Model:
    to_array = onnx_library("onnx.numpy_helper", file).to_array
    graph = proto.graph
    if not graph.output:
        raise OnnxError(file, "is no ONNX model: its graph has no outputs")
    if graph.sparse_initializer:
        raise OnnxError(file, "sparse initializers are not supported")
    opsets = [entry.version for entry in proto.opset_import if entry.domain in _DEFAULT_DOMAINS]
    constants: dict[str, Array] = {x.name: to_array(x) for x in graph.initializer}
    stored = set(constants)
    nodes: list[Node] = []
    for node in map(_Reader(file), graph.node):
        if node.op == "Constant":
            constants[node.outputs[0]] = _constant(node, file)
            stored |= {node.outputs[0]} if "value" in node.attributes else set()
        else:
            nodes.append(node)
    outputs = tuple(_port(value) for value in graph.output)
    readers: dict[str, int] = {}
    for name in (*(name for node in nodes for name in node.inputs), *(x.name for x in outputs)):
        readers[name] = readers.get(name, 0) + 1
    return Model(
        file=file,
        opset=max(opsets, default=1),
        nodes=tuple(nodes),
        constants=constants,
        stored=frozenset(stored),
        inputs=tuple(_port(x) for x in graph.input if x.name not in constants),
        outputs=outputs,
        readers=readers,
    )


class _Reader:
    """Reads nodes of one model."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._value = onnx_library("onnx.helper", file).get_attribute_value
        self._tensor: type = onnx_library("onnx", file).TensorProto
        self._to_array = onnx_library("onnx.numpy_helper", file).to_array

    def __call__(self, proto: Any) -> Node:
        """The node of a `NodeProto`."""
        attributes = {attribute.name: self._attribute(attribute) for attribute in proto.attribute}
        return Node(
            proto.name,
            proto.op_type,
            "" if proto.domain in _DEFAULT_DOMAINS else proto.domain,
            tuple(proto.input),
            tuple(proto.output),
            attributes,
        )

    def _attribute(self, attribute: Any) -> Any:
        value = self._value(attribute)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, self._tensor):
            return self._to_array(value)
        return value


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
    raise OnnxError(file, f"{node}: has a value that is no dense tensor of numbers")


def _port(value: Any) -> Port:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return Port(value.name, tensor.elem_type, None)
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else str(dim.dim_param)
        for dim in tensor.shape.dim
    )
    return Port(value.name, tensor.elem_type, shape)
