"""GroupNorm as exporters write it for opsets that have none: InstanceNormalization of channels that
a Reshape has joined, which another parts again."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import onnxruntime_results

from convir.api.compile import compile as convir_compile
from convir.frontends.sources import read_onnx

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `peers`)")

SHAPE = (2, 12, 5, 7)


def model(joined: tuple[int, ...], shape: tuple[int, ...] = SHAPE) -> Any:
    """Reshape to `joined`, InstanceNormalization, Reshape back, and a gain a channel."""
    helper, numpy_helper = (import_module(f"onnx.{name}") for name in ("helper", "numpy_helper"))
    rng = np.random.default_rng(0)
    constants = {
        "joined": np.array(joined),
        "parted": np.array(shape),
        "scale": rng.standard_normal(joined[1]).astype(np.float32),
        "shift": rng.standard_normal(joined[1]).astype(np.float32),
        "gain": rng.standard_normal((shape[1], 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "joined"], ["runs"]),
        helper.make_node("InstanceNormalization", ["runs", "scale", "shift"], ["normal"]),
        helper.make_node("Reshape", ["normal", "parted"], ["apart"]),
        helper.make_node("Mul", ["apart", "gain"], ["y"]),
    ]
    ends = (helper.make_tensor_value_info(name, 1, shape) for name in ("x", "y"))
    graph = helper.make_graph(
        nodes,
        "group_norm",
        *([end] for end in ends),
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "joined",
    [
        (2, 4, 105),
        (2, 4, 15, 7),
        (2, 12, 35),
        (2, 6, 2, 35),
        # Not runs of channels of one sample.
        (2, 5, 84),
        (4, 3, 70),
        (1, 24, 35),
        (2, 60, 7),
    ],
)
def test_joined_channels(joined: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    import_module("onnx").save(model(joined), path)
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    (expected,) = onnxruntime_results(model(joined), {"x": x})
    result = convir_compile(path, device="host")(x)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


def test_joined_channels_are_parted_before_they_are_normalised(tmp_path: Path) -> None:
    """So that their layout may be that of the convolutions around."""
    path = tmp_path / "model.onnx"
    import_module("onnx").save(model((2, 4, 105)), path)
    text = str(read_onnx(path, ()))
    assert "tensor<2x4x3x5x7xf32>" in text
    assert "tensor<2x4x105xf32>" not in text
