"""Models of one node, of any element types, and what they give on the host."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from onnx_cases import Array, model_of, node

from convir.api.compile import compile as convir_compile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FLOATS: Mapping[str, np.dtype[Any]] = {
    "f32": np.dtype("f4"),
    "f16": np.dtype("f2"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f64": np.dtype("f8"),
}
INTEGERS: Mapping[str, np.dtype[Any]] = {f"i{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)}
TYPES: Mapping[str, np.dtype[Any]] = {**FLOATS, **INTEGERS, "bool": np.dtype(bool)}


def code(dtype: np.dtype[Any]) -> int:
    """The `TensorProto.DataType` of a dtype."""
    helper: Any = import_module("onnx.helper")
    return helper.np_dtype_to_tensor_dtype(dtype)


def one_node(
    op: str,
    arrays: Mapping[str, Array],
    wanted: Sequence[np.dtype[Any]],
    constants: Mapping[str, Array] | None = None,
    **attributes: Any,
) -> Any:
    """A model of one node, whose inputs are the arrays, in order, and whose outputs are `wanted`.

    Those in `constants` are the model's own; a blank name is an input that is left out.
    """
    helper: Any = import_module("onnx.helper")
    outputs = [f"y{i}" for i in range(len(wanted))]
    inputs = [name.strip() for name in arrays]
    made = model_of([node(op, inputs, outputs, **attributes)], {"x": ()}, outputs, constants)
    made.opset_import[0].version = 20
    del made.graph.input[:], made.graph.output[:]
    for name, array in arrays.items():
        if name.strip() and name not in (constants or {}):
            port = helper.make_tensor_value_info(name, code(array.dtype), array.shape)
            made.graph.input.append(port)
    for name, dtype in zip(outputs, wanted, strict=True):
        made.graph.output.append(helper.make_tensor_value_info(name, code(dtype), None))
    return made


def results_of(
    op: str,
    arrays: Mapping[str, Array],
    wanted: Sequence[np.dtype[Any]],
    constants: Mapping[str, Array] | None = None,
    **attributes: Any,
) -> list[Array]:
    """What one node gives, of the dtypes `wanted`; as `one_node`."""
    made = one_node(op, arrays, wanted, constants, **attributes)
    given = [
        array for name, array in arrays.items() if name.strip() and name not in (constants or {})
    ]
    result: Any = convir_compile(made, device="host")(*given)
    results: list[Array] = list(result) if isinstance(result, tuple) else [result]  # pyright: ignore[reportUnknownArgumentType]
    assert [one.dtype for one in results] == list(wanted)
    return results


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Small integers of a type."""
    if dtype.kind == "b":
        return rng.integers(0, 2, tuple(shape)).astype(bool)
    return rng.integers(-4, 5, tuple(shape)).astype(dtype)
