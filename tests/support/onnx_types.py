"""ONNX models in every float type, and what each operator should give when it rounds once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_cases import Array

F32 = 1
"""`TensorProto.DataType` of f32."""

ALWAYS_F32: Mapping[str, Sequence[int]] = {"Dropout": (1,), "Resize": (1, 2), "Upsample": (1,)}
"""The inputs of operators that are no numbers to compute with: ratios, regions, scales."""

REFERENCE_IN_F32 = {
    *("Erf", "Gelu", "GroupNormalization", "HardSwish", "LRN", "LayerNormalization", "Resize"),
}
"""What the reference evaluator of the package onnx computes in f32, if partly, on f64 too."""


@dataclass(frozen=True)
class FloatType:
    """An element type of models."""

    name: str
    code: int
    """Its `TensorProto.DataType`."""
    dtype: np.dtype[Any]
    half_ulp: float
    """Of a normal number, relative to it."""
    half_step: float
    """Half of the smallest positive number."""
    arithmetic: float
    """What chains of sums in the type that it is computed in come to, of the largest element."""

    @property
    def is_narrow(self) -> bool:
        """Whether it is computed in f32, and rounded."""
        return self.dtype.itemsize < np.dtype(np.float32).itemsize

    def rounding(self, wanted: Array, scale: float = 1.0) -> Array:
        """How far a result may be from `wanted`, of terms of up to `scale`."""
        largest = max(scale, float(np.abs(wanted).max(initial=0)))
        return self.half_ulp * np.abs(wanted) + self.half_step + self.arithmetic * largest


FLOAT_TYPES: Mapping[str, FloatType] = {
    one.name: one
    for one in (
        FloatType("f32", F32, np.dtype(np.float32), 2.0**-24, 0, 1e-5),
        FloatType("f16", 10, np.dtype(np.float16), 2.0**-11, 2.0**-25, 2e-6),
        FloatType("bf16", 16, np.dtype(ml_dtypes.bfloat16), 2.0**-8, 2.0**-134, 2e-6),
        FloatType("f64", 11, np.dtype(np.float64), 2.0**-53, 0, 1e-10),
    )
}


def always_f32(model: Any) -> set[str]:
    """The values of a model that are of f32 whatever it computes in."""
    return {
        node.input[position]
        for node in model.graph.node
        for position in ALWAYS_F32.get(node.op_type, ())
        if position < len(node.input)
    }


def in_type(model: Any, code: int, *types: np.dtype[Any]) -> Any:
    """`model` with another element type, its constants rounded to each of `types` in order."""
    numpy_helper: Any = import_module("onnx.numpy_helper")
    result, kept = deepcopy(model), always_f32(model)
    for tensor in result.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and tensor.name not in kept:
            for dtype in types:
                array = array.astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for port in (*result.graph.input, *result.graph.output):
        if port.type.tensor_type.elem_type == F32 and port.name not in kept:
            port.type.tensor_type.elem_type = code
    del result.graph.value_info[:]
    return result


def rounding_after_each_node(
    model: Any, kind: FloatType, shapes: Mapping[str, Sequence[int]], seed: int | None = None
) -> Any:
    """An f32 model whose values are rounded to `kind` behind each node.

    With a `seed` about each element is one step off: what that comes to at the outputs is how far
    a result may be that rounded another way at some place.
    """
    helper: Any = import_module("onnx.helper")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    result = in_type(model, F32, kind.dtype, np.dtype(np.float32))
    rng = np.random.default_rng(seed)
    nodes: list[Any] = []

    def rounded(name: str, before: str) -> None:
        nodes.append(helper.make_node("Cast", [before], [f"{before}_narrow"], to=kind.code))
        nodes.append(helper.make_node("Cast", [f"{before}_narrow"], [name], to=F32))

    for node in result.graph.node:
        (name,) = node.output
        node.output[0] = f"{name}_wide"
        nodes.append(node)
        if seed is None:
            rounded(name, f"{name}_wide")
            continue
        rounded(f"{name}_once", f"{name}_wide")
        steps = 1 + 2 * kind.half_ulp * rng.integers(-1, 2, tuple(shapes[name]))
        noise = numpy_helper.from_array(steps.astype(np.float32), f"{name}_steps")
        result.graph.initializer.append(noise)
        nodes.append(helper.make_node("Mul", [f"{name}_once", noise.name], [f"{name}_off"]))
        rounded(name, f"{name}_off")
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result
