"""Networks that no package ships, written as ONNX models with random weights.

Layers, channels and operators are those of PyTorch's exports: EfficientNet-B0 (arXiv:1905.11946)
MobileNetV2 (arXiv:1801.04381) and ResNet-50 v1.5 (arXiv:1512.03385, with the strides in the 3x3
convolutions) with their normalisations folded into their convolutions, ConvNeXt-T
(arXiv:2201.03545).
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from typing import Any

import numpy as np

OPSET = 20
"""The first with `Gelu`."""

EFFICIENTNET_B0 = (
    # Expansion, kernel, stride, input and output channels, blocks.
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)

MOBILENET_V2 = (
    # Expansion, output channels, blocks, stride of the first.
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

RESNET50 = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Channels inside of the blocks of each stage, and blocks."""

CONVNEXT_TINY = ((96, 3), (192, 3), (384, 9), (768, 3))
"""Channels and blocks of each stage."""

CLASSES = 1000


class _Graph:
    """Nodes and weights, in order."""

    def __init__(self) -> None:
        self._onnx: Any = import_module("onnx")
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._rng = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of a node's result."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """Random numbers whose products keep the size of what they multiply."""
        spread = 1 / np.sqrt(max(1, prod(shape[1:])))
        return self.constant((self._rng.standard_normal(shape) * spread).astype(np.float32))

    def constant(self, values: Any) -> str:
        """The name of a tensor that holds `values`."""
        name = f"w{len(self._weights)}"
        self._weights.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def conv(self, x: str, c: int, k: int, size: int, stride: int = 1, groups: int = 1) -> str:
        """A convolution of `c` to `k` channels with a bias; "same" where the stride is 1."""
        pad = 0 if size == stride else size // 2
        return self.op(
            "Conv",
            x,
            self.weight(k, c // groups, size, size),
            self.weight(k),
            kernel_shape=[size] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=groups,
        )

    def linear(self, x: str, c: int, k: int) -> str:
        """A matrix product over the last dimension, and a bias."""
        return self.op("Add", self.op("MatMul", x, self.weight(c, k)), self.weight(k))

    def norm(self, x: str, c: int) -> str:
        """A normalisation of the last dimension."""
        ones = self.constant(np.ones(c, np.float32))
        return self.op("LayerNormalization", x, ones, self.weight(c), axis=-1, epsilon=1e-6)

    def model(self, result: str) -> Any:
        """The model, for any batch of 224x224 images in NCHW."""
        make = self._onnx.helper
        float32 = self._onnx.TensorProto.FLOAT
        graph = make.make_graph(
            self._nodes,
            "network",
            [make.make_tensor_value_info("x", float32, ["batch", 3, 224, 224])],
            [make.make_tensor_value_info(result, float32, ["batch", CLASSES])],
            self._weights,
        )
        opsets = [make.make_opsetid("", OPSET)]
        return make.make_model(graph, opset_imports=opsets, ir_version=9)


def efficientnet_b0() -> Any:
    """EfficientNet-B0 as `torch.onnx.export` writes it in evaluation."""
    net = _Graph()

    def silu(x: str) -> str:
        return net.op("Mul", x, net.op("Sigmoid", x))

    def excited(x: str, c: int, squeezed: int) -> str:
        mean = net.op("GlobalAveragePool", x)
        scale = net.conv(silu(net.conv(mean, c, squeezed, 1)), squeezed, c, 1)
        return net.op("Mul", net.op("Sigmoid", scale), x)

    x = silu(net.conv("x", 3, 32, 3, 2))
    for expansion, size, first_stride, first_inputs, outputs, blocks in EFFICIENTNET_B0:
        for block in range(blocks):
            inputs, stride = (outputs, 1) if block else (first_inputs, first_stride)
            inner = inputs * expansion
            y = silu(net.conv(x, inputs, inner, 1)) if expansion > 1 else x
            y = silu(net.conv(y, inner, inner, size, stride, inner))
            y = net.conv(excited(y, inner, inputs // 4), inner, outputs, 1)
            x = net.op("Add", y, x) if block else y
    x = net.op("GlobalAveragePool", silu(net.conv(x, 320, 1280, 1)))
    x = net.op("Flatten", x, axis=1)
    return net.model(net.op("Gemm", x, net.weight(CLASSES, 1280), net.weight(CLASSES), transB=1))


def mobilenet_v2() -> Any:
    """MobileNetV2 as `torch.onnx.export` writes it in evaluation."""
    net = _Graph()
    bounds = [net.constant(np.float32(bound)) for bound in (0, 6)]

    def relu6(x: str) -> str:
        return net.op("Clip", x, *bounds)

    x, inputs = relu6(net.conv("x", 3, 32, 3, 2)), 32
    for expansion, outputs, blocks, first_stride in MOBILENET_V2:
        for block in range(blocks):
            inner, stride = inputs * expansion, 1 if block else first_stride
            y = relu6(net.conv(x, inputs, inner, 1)) if expansion > 1 else x
            y = relu6(net.conv(y, inner, inner, 3, stride, inner))
            y = net.conv(y, inner, outputs, 1)
            x, inputs = net.op("Add", x, y) if block else y, outputs
    x = net.op("GlobalAveragePool", relu6(net.conv(x, 320, 1280, 1)))
    x = net.op("Flatten", x, axis=1)
    return net.model(net.op("Gemm", x, net.weight(CLASSES, 1280), net.weight(CLASSES), transB=1))


def resnet50_v1_5() -> Any:
    """ResNet-50 as `torch.onnx.export` writes it in evaluation."""
    net = _Graph()

    def relu(x: str) -> str:
        return net.op("Relu", x)

    x = relu(net.conv("x", 3, 64, 7, 2))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for inner, blocks in RESNET50:
        for block in range(blocks):
            stride, outputs = 1 if block or inner == inputs else 2, 4 * inner
            y = relu(net.conv(x, inputs, inner, 1))
            y = net.conv(relu(net.conv(y, inner, inner, 3, stride)), inner, outputs, 1)
            kept = x if block else net.conv(x, inputs, outputs, 1, stride)
            x, inputs = relu(net.op("Add", y, kept)), outputs
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return net.model(net.op("Gemm", x, net.weight(CLASSES, 2048), net.weight(CLASSES), transB=1))


def convnext_tiny() -> Any:
    """ConvNeXt-T as `torch.onnx.export` writes it in evaluation."""
    net = _Graph()

    def norm_of_channels(x: str, c: int) -> str:
        last = net.norm(net.op("Transpose", x, perm=[0, 2, 3, 1]), c)
        return net.op("Transpose", last, perm=[0, 3, 1, 2])

    x, before = "x", 3
    for stage, (c, blocks) in enumerate(CONVNEXT_TINY):
        if stage:
            x = net.conv(norm_of_channels(x, before), before, c, 2, 2)
        else:
            x = norm_of_channels(net.conv(x, before, c, 4, 4), c)
        for _ in range(blocks):
            y = net.op("Transpose", net.conv(x, c, c, 7, groups=c), perm=[0, 2, 3, 1])
            y = net.op("Gelu", net.linear(net.norm(y, c), c, 4 * c))
            y = net.op("Transpose", net.linear(y, 4 * c, c), perm=[0, 3, 1, 2])
            scale = net.constant(np.full((c, 1, 1), 0.5, np.float32))
            x = net.op("Add", net.op("Mul", y, scale), x)
        before = c
    x = norm_of_channels(net.op("GlobalAveragePool", x), before)
    x = net.op("Flatten", x, axis=1)
    return net.model(net.op("Gemm", x, net.weight(CLASSES, before), net.weight(CLASSES), transB=1))
