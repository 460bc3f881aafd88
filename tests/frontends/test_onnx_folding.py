"""What is known at import is computed then; weights, and what depends on them, are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import Array, model_of, node

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.fast

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


def ops_of(
    nodes: Sequence[Any], constants: dict[str, Array], shape: Sequence[int]
) -> tuple[list[str], str]:
    """The names of the ops that are imported, and the whole text."""
    module = import_model(model_of(nodes, {"x": shape}, ["y"], constants))
    structure = ("builtin.module", "func.func", "func.return", "linalg.yield", "arith.constant")
    return [op.name for op in module.walk() if op.name not in structure], str(module)


SIZE = 80


def test_a_grid_of_anchors_is_one_constant() -> None:
    """Of more elements than a shape has: Range, Expand, Reshape and arithmetic on floats."""
    nodes = [
        node("Shape", ["x"], ["shape"], start=2),
        node("Gather", ["shape", "first"], ["count"], axis=0),
        node("Range", ["zero", "count", "one"], ["places"]),
        node("Cast", ["places"], ["centres"], to=1),
        node("Add", ["centres", "half"], ["shifted"]),
        node("Unsqueeze", ["shifted", "axis"], ["column"]),
        node("Expand", ["column", "shape"], ["grid"]),
        node("Mul", ["x", "grid"], ["y"]),
    ]
    constants = {
        **{"first": np.array(0), "zero": np.array(0), "one": np.array(1)},
        **{"half": np.array(0.5, np.float32), "axis": integers(1)},
    }
    names, text = ops_of(nodes, constants, (1, 1, SIZE, SIZE))
    assert names.count("conv.constant") == 1
    assert names.count("linalg.generic") == 1
    assert f"tensor<{SIZE}x{SIZE}xf32>" in text


def test_the_shape_of_an_expansion_vanishes() -> None:
    """What exporters write for `x.expand(-1, 3, -1)`: a -1 is chosen by Equal and Where."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Equal", ["wanted", "open"], ["is_open"]),
        node("Where", ["is_open", "shape", "wanted"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["zeros"]),
        node("Add", ["x", "zeros"], ["y"]),
    ]
    constants = {"wanted": integers(-1, 3, -1), "open": integers(-1)}
    names, text = ops_of(nodes, constants, (2, 1, 4))
    assert "-> tensor<2x3x4xf32>" in text
    assert "linalg.fill" in names  # rather than as many equal elements


def test_weights_stay_in_the_file() -> None:
    weights = np.ones((64, 32), np.float32)
    nodes = [node("Transpose", ["w"], ["t"]), node("MatMul", ["x", "t"], ["y"])]
    names, _ = ops_of(nodes, {"w": weights}, (1, 32))
    assert names.count("linalg.generic") == 2


def test_an_index_that_is_not_there() -> None:
    nodes = [
        node("Gather", ["list", "far"], ["one"]),
        node("Reshape", ["x", "one"], ["y"]),
    ]
    with pytest.raises(OnnxError, match=r"node 'one' \(Gather\): its constants .* out of bounds"):
        ops_of(nodes, {"list": integers(1, 2), "far": integers(2)}, (2,))
