"""Nodes that are known at import: shapes, and what is computed of constants.

Exporters compute the operands of Reshape, Resize and Slice from shapes, which are static here, and
tables such as the grid of a detector's anchors. Such chains are evaluated by the reference of the
package onnx. Weights are no such tables: what is computed of them stays an op of the module.
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
    from convir.frontends.onnx.model import Node

MAX_ELEMENTS = 1 << 18
"""More is data, no table: the result stays in the program, which computes it."""
MAX_STORED_FLOATS = 1024
"""A tensor of the file that has more floats is a weight."""

_ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "And", "Cast", "Ceil", "Cos", "Div", "Equal", "Exp", "Floor", "Greater"),
        *("GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul"),
        *("Neg", "Not", "Or", "Pow", "Reciprocal", "Round", "Sign", "Sin", "Sqrt", "Sub"),
        *("Where", "Xor"),
    }
)
"""What broadcasts its operands."""

_NO_LARGER = frozenset(
    {
        *("Concat", "CumSum", "Flatten", "NonZero", "ReduceMax", "ReduceMin", "ReduceProd"),
        *("ReduceSum", "Reshape", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze"),
        *("Transpose", "Trilu", "Unsqueeze"),
    }
)
"""Whose result has about as many elements as its operands have together."""

_FOLDED = (
    _ELEMENTWISE
    | _NO_LARGER
    | {"ConstantOfShape", "Expand", "Gather", "GatherElements", "GatherND", "Range", "Tile"}
)


_OF_SHAPES = frozenset({"Shape", "Size"})
"""What is known of any tensor."""


def is_folded(node: Node) -> bool:
    """Whether a node's results are known if its operands are."""
    return not node.domain and node.op in _FOLDED | _OF_SHAPES


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
    if node.op in _OF_SHAPES:
        shape = shape_of(node.inputs[0])
        return None if shape is None else (_shape_result(call, shape),)
    if node.op not in _FOLDED:
        return None
    constants = call.graph.constants
    arrays = {name: constants[name] for name in node.inputs if name in constants}
    if any(name and name not in arrays for name in node.inputs):
        return None
    if any(_is_data(call, name, array) for name, array in arrays.items()):
        return None
    if _elements(call, arrays) > MAX_ELEMENTS:
        return None
    return _evaluated(call, arrays)


def _is_data(call: Call, name: str, array: Array) -> bool:
    """Whether a constant is more than a table."""
    is_stored = name in call.graph.model.stored and array.dtype.kind not in "iub"
    return array.size > (MAX_STORED_FLOATS if is_stored else MAX_ELEMENTS)


def _elements(call: Call, arrays: Mapping[str, Array]) -> float:
    """How many elements the result of a node has that may have more than its operands have."""
    given = [arrays[name] for name in call.node.inputs if name]
    try:
        match call.node.op:
            case "ConstantOfShape":
                return prod(map(int, given[0].reshape(-1)))
            case "Range":
                start, end, step = (float(x.reshape(-1)[0]) if x.size else 0 for x in given)
                return (end - start) / step if step else 0
            case "Expand":
                return prod(np.broadcast_shapes(given[0].shape, _sizes(given[1])))
            case "Tile":
                return given[0].size * prod(_sizes(given[1]))
            case "Gather":
                axis = int(call.node.attributes.get("axis", 0))
                others = list(given[0].shape)
                del others[call.axis(axis, len(others))]
                return prod(others) * given[1].size
            case "GatherND" if given[1].size:
                return given[1].size // given[1].shape[-1] * given[0].size
            case "GatherElements":
                return given[1].size
            case op if op in _ELEMENTWISE:
                return prod(np.broadcast_shapes(*(array.shape for array in given)))
            case _:
                return 0
    except (OverflowError, ValueError) as error:
        raise call.error(str(error)) from error


def _sizes(array: Array) -> tuple[int, ...]:
    return tuple(array.astype(np.int64).reshape(-1).tolist())


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
    at_zero = "raise" if all(array.dtype.kind in "iu" for array in arrays.values()) else "ignore"
    try:
        model = helper.make_model(graph, opset_imports=[opset])
        with np.errstate(divide=at_zero, over="ignore", invalid="ignore"):
            results = reference.ReferenceEvaluator(model).run(None, arrays)
    except Exception as error:
        raise call.error(f"its constants cannot be evaluated: {error}") from error
    return tuple(np.asarray(result) for result in results)
