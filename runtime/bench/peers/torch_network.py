"""An ONNX network of convolutions as PyTorch runs it: the peer of whole networks on a GPU."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class TorchNetwork:
    """The nodes of a model, run one by one in its order; images have their channels last."""

    def __init__(self, model: Any, device: str) -> None:
        """Take the weights to `device`; batch normalisations become a factor and a sum."""
        self._torch: Any = import_module("torch")
        self._helper: Any = import_module("onnx.helper")
        to_array = import_module("onnx.numpy_helper").to_array
        self._nodes = list(model.graph.node)
        self._input = model.graph.input[0].name
        self._outputs = [port.name for port in model.graph.output]
        self._weights: dict[str, Any] = {}
        for tensor in model.graph.initializer:
            array = to_array(tensor).copy()
            # NumPy's bf16 has no place in PyTorch's list of types, but equal bits.
            words = array.view("int16") if array.dtype.name == "bfloat16" else array
            weight = self._torch.from_numpy(words).to(device)
            if words is not array:
                weight = weight.view(self._torch.bfloat16)
            self._weights[tensor.name] = self._arranged(weight)

    def __call__(self, x: Any) -> list[Any]:
        """The outputs for an image N x C x H x W."""
        values: dict[str, Any] = {**self._weights, self._input: self._arranged(x)}
        with self._torch.inference_mode():
            for node in self._nodes:
                inputs = [values[name] for name in node.input]
                attributes = {a.name: self._helper.get_attribute_value(a) for a in node.attribute}
                run = _OPERATORS[node.op_type]
                values[node.output[0]] = run(self._torch, inputs, attributes)
        return [values[name] for name in self._outputs]

    def _arranged(self, x: Any) -> Any:
        rank_of_images = 4
        if x.dim() != rank_of_images:
            return x
        return x.contiguous(memory_format=self._torch.channels_last)


def _convolution(torch: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    pads = attributes.get("pads", [0, 0, 0, 0])
    return torch.nn.functional.conv2d(
        *inputs,
        stride=attributes.get("strides", 1),
        padding=pads[: len(pads) // 2],
        dilation=attributes.get("dilations", 1),
        groups=attributes.get("group", 1),
    )


def _transposed(torch: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return torch.nn.functional.conv_transpose2d(*inputs, stride=attributes.get("strides", 1))


def _normalised(torch: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    x, scale, bias, mean, variance = inputs
    epsilon = attributes.get("epsilon", 1e-5)
    return torch.nn.functional.batch_norm(x, mean, variance, scale, bias, eps=epsilon)


def _pooled(torch: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    (x,) = inputs
    top, left, bottom, right = attributes["pads"]
    padded = torch.nn.functional.pad(x, (left, right, top, bottom), value=float("-inf"))
    taps, strides = attributes["kernel_shape"], attributes["strides"]
    return torch.nn.functional.max_pool2d(padded, taps, strides)


_OPERATORS: Mapping[str, Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]] = {
    "Add": lambda _, x, __: x[0] + x[1],
    "BatchNormalization": _normalised,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Gemm": lambda torch, x, _: torch.addmm(x[2], x[0], x[1].t()),
    "GlobalAveragePool": lambda _, x, __: x[0].mean((2, 3), keepdim=True),
    "MaxPool": _pooled,
    "Relu": lambda torch, x, _: torch.relu(x[0]),
    "Reshape": lambda _, x, __: x[0].flatten(1),
    "Sigmoid": lambda torch, x, _: torch.sigmoid(x[0]),
    "Softmax": lambda torch, x, _: torch.softmax(x[0], -1),
    "Sum": lambda _, x, __: x[0] + x[1],
}
"""The operators of `onnx_networks.NETWORKS`, with the attributes that they have there."""
