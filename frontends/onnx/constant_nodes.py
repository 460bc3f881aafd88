"""Nodes that are known at import: shapes, and integer arithmetic on them.

Exporters compute the operands of Reshape, Resize and Slice from shapes, which are static here.
Such chains hold a handful of integers; they are evaluated by the reference of the package onnx.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from convir.frontends.onnx.errors import onnx_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from convir.frontends.elements import Array
    from convir.frontends.onnx.call import Call

MAX_ELEMENTS = 1024
"""More is data, not shapes."""

_ELEMENTWISE = frozenset(
    {"Add", "Div", "Equal", "Max", "Min", "Mod", "Mul", "Sub", "Where"},
)
"""What broadcasts its operands."""

_SHAPE_ARITHMETIC = _ELEMENTWISE | {
    *("Cast", "Ceil", "Concat", "ConstantOfShape", "Floor", "Gather", "Identity"),
    *("Neg", "Range", "ReduceProd", "Reshape", "Slice"),
    *("Split", "Squeeze", "Unsqueeze", "Transpose"),
}


def constant_results(
    call: Call, shape_of: Callable[[str], tuple[int, ...] | None]
) -> tuple[Array, ...] | None:
    """The results of a node of which all that matters is known; None if it is not such a node.

    Raises:
        OnnxError: the reference of the package onnx cannot evaluate it.
    """
    node = call.node
    if node.domain:
        return None
    if node.op in ("Shape", "Size"):
        shape = shape_of(node.inputs[0])
        return None if shape is None else (_shape_result(call, shape),)
    if node.op not in _SHAPE_ARITHMETIC:
        return None
    constants = call.graph.constants
    arrays = {name: constants[name] for name in node.inputs if name in constants}
    if any(name and name not in arrays for name in node.inputs):
        return None
    if any(array.size > MAX_ELEMENTS for array in arrays.values()):
        return None
    if _elements(call, arrays) > MAX_ELEMENTS:
        return None
    return _evaluated(call, arrays)


def _elements(call: Call, arrays: Mapping[str, Array]) -> float:
    """How many elements the result of a node has that may have more than its operands have."""
    given = [arrays[name] for name in call.node.inputs if name]
    if call.node.op == "ConstantOfShape":
        return prod(map(int, given[0].reshape(-1)))
    if call.node.op == "Range":
        start, end, step = (float(array.reshape(-1)[0]) if array.size else 0 for array in given)
        return (end - start) / step if step else 0
    if call.node.op in _ELEMENTWISE:
        try:
            return prod(np.broadcast_shapes(*(array.shape for array in given)))
        except ValueError as error:
            raise call.error(str(error)) from error
    return 0


def _shape_result(call: Call, shape: tuple[int, ...]) -> Array:
    if call.node.op == "Size":
        return np.array(prod(shape), np.int64)
    start, end = call.attribute("start", 0), call.attribute("end", len(shape))
    call.refuse_attributes()
    return np.array(shape[start:end], np.int64)


def _evaluated(call: Call, arrays: dict[str, Array]) -> tuple[Array, ...]:
    node, file = call.node, call.graph.model.file
    helper = onnx_library("onnx.helper", file)
    reference = onnx_library("onnx.reference", file)
    numpy_helper = onnx_library("onnx.numpy_helper", file)
    attributes = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
    }
    proto = helper.make_node(node.op, node.inputs, node.outputs, **attributes)
    graph = helper.make_graph(
        [proto],
        "constants",
        [helper.make_empty_tensor_value_info(name) for name in arrays],
        [helper.make_empty_tensor_value_info(name) for name in node.outputs],
    )
    opset = helper.make_opsetid("", call.opset)
    try:
        model = helper.make_model(graph, opset_imports=[opset])
        with np.errstate(divide="raise", over="ignore", invalid="ignore"):
            results = reference.ReferenceEvaluator(model).run(None, arrays)
    except Exception as error:
        raise call.error(f"its constants cannot be evaluated: {error}") from error
    return tuple(np.asarray(result) for result in results)
