"""Operators that sum or scale elements of f16: they round what they compute in f32, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip
from onnx_cases import model_of, node
from onnx_types import FLOAT_TYPES

import convir.frontends.onnx_backend as backend
from convir.api.compile import compile as compile_module
from convir.frontends.onnx.ops.activation import SELU_ALPHA, SELU_GAMMA
from convir.runtime.bench.peers.onnx_networks import in_element_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from onnx_cases import Array

pytestmark = pytest.mark.fast

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

COUNT = 4096
"""More than 2048, to which one adds nothing in f16."""
SIDE = 64
DEVICES = ("host", pytest.param("cuda", marks=pytest.mark.gpu))
HALF_ULP = 2.0**-11
"""Of a normal number in f16, relative to it."""

SUMS: Mapping[str, tuple[Any, float, float]] = {
    "AveragePool": (node("AveragePool", ["x"], ["y"], kernel_shape=[SIDE, SIDE]), 1, 1),
    "GlobalAveragePool": (node("GlobalAveragePool", ["x"], ["y"]), 1, 1),
    "LogSoftmax": (node("LogSoftmax", ["x"], ["y"], axis=1), 0, -np.log(COUNT)),
    "ReduceMean": (node("ReduceMean", ["x"], ["y"], axes=[1, 2, 3]), 1, 1),
    "ReduceSum": (node("ReduceSum", ["x"], ["y"]), 1, COUNT),
    "Softmax": (node("Softmax", ["x"], ["y"], axis=1), 0, 1 / COUNT),
}
"""The operator, what all elements of its input are, and all of its output."""


def run(model: Any, x: Array, device: str, path: Path) -> Array:
    """The model's output, of f16."""
    import_onnx: Any = pytest.importorskip("onnx")
    if device == "cuda":
        cupy_or_skip()
    import_onnx.save(in_element_type(model, "f16"), path)
    executable = compile_module(path, device=device, shapes=[x.shape])
    result = executable(x)
    return np.asarray(result.get() if device == "cuda" else result, np.float64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SUMS)
def test_sums_go_on_past_what_f16_counts_to(name: str, device: str, tmp_path: Path) -> None:
    operator, filling, expected = SUMS[name]
    shape = (1, COUNT, 1, 1) if "Softmax" in name else (1, 1, SIDE, SIDE)
    x = np.full(shape, filling, np.float16)
    y = run(model_of([operator], {"x": shape}, ["y"]), x, device, tmp_path / "sum.onnx")
    np.testing.assert_array_equal(y, np.float64(np.float16(expected)))


@pytest.mark.parametrize("device", DEVICES)
def test_a_normalisation_rounds_once(device: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    shape, names = (2, 96, 3, 3), ("scale", "bias", "mean", "variance")
    parameters = {
        name: np.abs(rng.standard_normal(96)).astype(np.float16).astype(np.float32)
        for name in names
    }
    graph = [
        node("Relu", ["x"], ["r"]),
        node("BatchNormalization", ["r", *names], ["y"], epsilon=0.0),
    ]
    x = rng.standard_normal(shape).astype(np.float16)
    model = model_of(graph, {"x": shape}, ["y"], parameters)
    y = run(model, x, device, tmp_path / "normalisation.onnx")
    scale, bias, mean, variance = (
        parameters[name].astype(np.float64)[:, None, None] for name in names
    )
    expected = (np.maximum(x, 0).astype(np.float64) - mean) * scale / np.sqrt(variance) + bias
    terms = np.maximum(x, 0) * scale / np.sqrt(variance) + np.abs(mean * scale) + np.abs(bias)
    # One rounding of the result, and a few of f32 of the terms.
    allowed = HALF_ULP * np.abs(expected) + 1e-6 * terms + 2.0**-25
    assert np.all(np.abs(y - expected) <= allowed)


ACTIVATIONS: Mapping[str, tuple[float, Callable[[float], float]]] = {
    "Elu": (-(2.0**-12), np.expm1),
    "HardSigmoid": (-2.4746, lambda x: 0.2 * x + 0.5),
    "HardSwish": (-2.984, lambda x: x * (x / 6 + 0.5)),
    "LeakyRelu": (-24.78, lambda x: 0.01 * x),
    "Selu": (-(2.0**-12), lambda x: SELU_GAMMA * SELU_ALPHA * np.expm1(x)),
    "Sigmoid": (-12.0, lambda x: 1 / (1 + np.exp(-x))),
    "Softplus": (12.0, lambda x: np.log1p(np.exp(x))),
    "Softsign": (-15.18, lambda x: x / (1 + abs(x))),
}
"""An argument at which steps of f16 are far off, and the function."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_round_once(name: str, device: str, tmp_path: Path) -> None:
    argument, function = ACTIVATIONS[name]
    x = np.full((1, 1, 1, 8), argument, np.float16)
    operator = node(name, ["x"], ["y"])
    y = run(model_of([operator], {"x": x.shape}, ["y"]), x, device, tmp_path / "activation.onnx")
    expected = function(float(x.flat[0]))
    # One rounding of the result, and those of f32 on the way, of terms of about 1.
    assert np.all(np.abs(y - expected) <= HALF_ULP * abs(expected) + 2.0**-22)


def test_a_mean_of_large_numbers_is_none_of_their_sum(tmp_path: Path) -> None:
    x = np.full((1, 1, 1, 4), 60000, np.float16)
    model = model_of([node("Mean", ["x", "x", "x"], ["y"])], {"x": x.shape}, ["y"])
    np.testing.assert_array_equal(run(model, x, "host", tmp_path / "mean.onnx"), x)


def test_a_bias_is_added_before_the_result_is_rounded(tmp_path: Path) -> None:
    x = np.full((1, 1, 1, 4), 1 + 2.0**-10, np.float32).astype(np.float16)
    constants = {"w": np.full((1, 1, 1, 1), 1 + 2.0**-10, np.float32), "b": -np.ones(1, np.float32)}
    model = model_of([node("Conv", ["x", "w", "b"], ["y"])], {"x": x.shape}, ["y"], constants)
    y = run(model, x, "host", tmp_path / "bias.onnx")
    exact = x.astype(np.float64) * (1 + 2.0**-10) - 1
    np.testing.assert_array_equal(y, exact.astype(np.float16))


def test_between_types_of_sixteen_bits() -> None:
    f16, bf16 = FLOAT_TYPES["f16"], FLOAT_TYPES["bf16"]
    x = np.array([[1 + 2.0**-10, -65504, 2.0**-24, np.inf]], np.float16)
    model = model_of([node("Cast", ["x"], ["y"], to=bf16.code)], {"x": x.shape}, ["y"])
    model.graph.input[0].type.tensor_type.elem_type = f16.code
    model.graph.output[0].type.tensor_type.elem_type = bf16.code
    (y,) = backend.run_model(model, [x])
    assert y.dtype == bf16.dtype
    np.testing.assert_array_equal(y, x.astype(np.float32).astype(bf16.dtype))


@pytest.mark.parametrize("stash", ["f32", "f16"])
def test_statistics_are_of_the_type_that_is_asked_for(stash: str) -> None:
    kind = FLOAT_TYPES[stash]
    operator = node(
        "LayerNormalization", ["x", "s"], ["y", "m", "d"], axis=-1, stash_type=kind.code
    )
    x = np.arange(12, dtype=np.float16).reshape(3, 4)
    model = model_of([operator], {"x": x.shape}, ["y", "m", "d"], {"s": np.ones(4, np.float32)})
    model = in_element_type(model, "f16")
    for port in model.graph.output[1:]:
        port.type.tensor_type.elem_type = kind.code
    y, mean, inverse = backend.run_model(model, [x])
    assert (y.dtype, mean.dtype, inverse.dtype) == (np.float16, kind.dtype, kind.dtype)
    np.testing.assert_array_equal(mean, x.mean(axis=1, keepdims=True))
