"""Quantised models beside onnxruntime: the same integers, per tensor and per channel."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import Array, node

from convir.api.compile import compile as convir_compile
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

U8, I8, F32, I32 = np.uint8, np.int8, np.float32, np.int32


def model(nodes: Sequence[Any], shape: Sequence[int], constants: Mapping[str, Any]) -> Any:
    """A model from `x` to `y`, both of f32."""
    helper: Any = import_module("onnx.helper")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    ports = [
        helper.make_tensor_value_info("x", 1, list(shape)),
        helper.make_tensor_value_info("y", 1, None),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(list(nodes), "quantised", ports[:1], ports[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def both(made: Any, x: Array) -> tuple[Array, Array]:
    """Ours, and onnxruntime's without rewrites of the graph."""
    runtime: Any = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (theirs,) = session.run(None, {"x": x})
    return np.asarray(convir_compile(made, device="host")(x)), theirs


def same(made: Any, x: Array) -> None:
    ours, theirs = both(made, x)
    np.testing.assert_array_equal(ours, theirs, strict=True)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def integers(dtype: type[Any], *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(1).integers(info.min, info.max, shape, dtype, endpoint=True)


Q: Mapping[str, Any] = {"s": F32(0.03), "z": U8(7)}


@pytest.mark.parametrize("zero", [U8(0), U8(128), U8(255), I8(0), I8(-128), I8(5), None])
def test_round_to_nearest_even_within_bounds(zero: Any) -> None:
    quantised = ["s"] if zero is None else ["s", "z"]
    nodes = [
        node("QuantizeLinear", ["x", *quantised], ["q"]),
        node("DequantizeLinear", ["q", *quantised], ["y"]),
    ]
    constants: dict[str, Any] = {"s": F32(0.5)} | ({} if zero is None else {"z": zero})
    steps = np.arange(-600, 600, dtype=F32) / 4
    same(
        model(nodes, [1203], constants), np.concatenate([steps, np.array([1e30, -1e30, -0.0], F32)])
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_along_an_axis(axis: int) -> None:
    count = (3, 4, 5)[axis]
    constants: dict[str, Any] = {
        "s": np.linspace(0.01, 0.09, count, dtype=F32),
        "z": integers(I8, count),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis),
    ]
    same(model(nodes, [3, 4, 5], constants), normal(3, 4, 5))


@pytest.mark.parametrize("weights", [U8, I8])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    ("shape", "filters", "attributes"),
    [
        ((2, 6, 7, 9), (5, 6, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 8, 6, 5), (8, 1, 3, 2), {"group": 8, "strides": [2, 1]}),
        ((1, 90, 4, 4), (3, 90, 3, 3), {"pads": [3, 3, 3, 3], "dilations": [2, 1]}),
        ((3, 4, 11), (6, 2, 4), {"group": 2, "pads": [2, 1]}),
        ((1, 3, 1, 1), (2, 3, 1, 1), {}),
    ],
)
def test_qlinear_convolution(
    shape: Any, filters: Any, attributes: Any, per_channel: bool, weights: Any
) -> None:
    k = filters[0]
    scale, zero = (np.linspace(0.001, 0.004, k, dtype=F32), np.zeros(k, weights))
    if not per_channel:
        scale, zero = F32(0.002), weights(3)
    constants: dict[str, Any] = {
        **Q,
        "w": integers(weights, *filters),
        "ws": scale,
        "wz": zero,
        "ys": F32(0.11),
        "yz": U8(130),
        "b": np.arange(-k, k, 2, dtype=I32) * 100,
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "ys", "yz", "b"], ["r"], **attributes),
        node("DequantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    same(model(nodes, shape, constants), normal(*shape))


@pytest.mark.parametrize("weights", [U8, I8])
@pytest.mark.parametrize(("m", "k", "n"), [(5, 33, 9), (1, 700, 40), (3, 1, 1)])
def test_qlinear_product(m: int, k: int, n: int, weights: Any) -> None:
    constants: dict[str, Any] = {
        **Q,
        "w": integers(weights, k, n),
        "ws": F32(0.01),
        "wz": weights(4),
    }
    constants |= {"ys": F32(0.2), "yz": U8(100)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearMatMul", ["q", "s", "z", "w", "ws", "wz", "ys", "yz"], ["r"]),
        node("DequantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    same(model(nodes, [m, k], constants), normal(m, k))


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("scale", [1.0, 0.0, 1e-3])
def test_dynamic_quantisation(op: str, scale: float) -> None:
    shape = (4, 65) if op == "MatMulInteger" else (2, 3, 8, 7)
    filters = integers(U8, 65, 30) if op == "MatMulInteger" else integers(U8, 5, 3, 3, 3)
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node(op, ["q", "w", "z", "wz"], ["sums"]),
        node("Cast", ["sums"], ["numbers"], to=1),
        node("Mul", ["numbers", "s"], ["y"]),
    ]
    constants: dict[str, Any] = {"w": filters, "wz": U8(120)}
    same(model(nodes, shape, constants), normal(*shape) * F32(scale) + F32(scale / 2))


def test_convolution_between_dequantised_tensors() -> None:
    """In f32: a result may be one step away where it is nearly half way between two."""
    constants: dict[str, Any] = {
        **Q,
        "w": integers(I8, 7, 5, 3, 3),
        "ws": np.linspace(0.001, 0.004, 7, dtype=F32),
        "wz": np.zeros(7, I8),
        "ys": F32(0.1),
        "yz": U8(128),
        "b": np.arange(7, dtype=I32),
        "bs": np.full(7, 1e-3, F32),
        "bz": np.zeros(7, I32),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["dx"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        node("DequantizeLinear", ["b", "bs", "bz"], ["db"], axis=0),
        node("Conv", ["dx", "dw", "db"], ["c"]),
        node("Relu", ["c"], ["a"]),
        node("QuantizeLinear", ["a", "ys", "yz"], ["qc"]),
        node("DequantizeLinear", ["qc", "ys", "yz"], ["dc"]),
        node("MaxPool", ["dc"], ["p"], kernel_shape=[2, 2]),
        node("QuantizeLinear", ["p", "ys", "yz"], ["qp"]),
        node("DequantizeLinear", ["qp", "ys", "yz"], ["y"]),
    ]
    ours, theirs = both(model(nodes, [2, 5, 9, 8], constants), normal(2, 5, 9, 8))
    steps = np.abs(ours - theirs) / F32(0.1)
    assert steps.max() <= 1.01
    assert np.mean(steps > 0.5) < 0.01


@pytest.mark.parametrize(
    ("channels", "largest", "exact"),
    [(8, 127, True), (7, 127, True), (600, 127, True), (66400, 127, False)],
)
def test_integers_are_convolved_where_sums_are_exact(
    channels: int, largest: int, exact: bool
) -> None:
    constants: dict[str, Any] = {**Q, "ws": F32(0.01), "wz": I8(0)}
    constants["w"] = np.full((4, channels, 1, 1), largest, I8)
    constants["w"][1::2] *= -1
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["dx"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["dw"]),
        node("Conv", ["dx", "dw"], ["y"]),
    ]
    made = model(nodes, [1, channels, 2, 3], constants)
    (fprop,) = [line for line in str(import_model(made)).splitlines() if "conv.fprop" in line]
    assert ("xi8>" in fprop) is exact
    x = normal(1, channels, 2, 3)
    ours, theirs = both(made, x)
    integers_of_x = np.clip(np.rint(x / Q["s"]) + 7, 0, 255) - 7
    sums = np.einsum("kc,cyx->kyx", constants["w"][..., 0, 0].astype(float), integers_of_x[0])
    bound = np.abs(constants["w"][0].astype(float)).sum() * np.abs(integers_of_x).max()
    np.testing.assert_allclose(ours[0], sums * 0.0003, rtol=3e-7, atol=bound * 3e-4 * 1e-5)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=bound * 3e-4 * 1e-5)


def test_a_scale_that_is_computed_is_refused() -> None:
    nodes = [node("Abs", ["x"], ["s"]), node("QuantizeLinear", ["x", "s"], ["q"])]
    nodes.append(node("DequantizeLinear", ["q", "s"], ["y"]))
    with pytest.raises(OnnxError, match=r"its scale .* must be a constant"):
        convir_compile(model(nodes, [1], {}), device="host")
