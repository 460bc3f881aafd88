"""Small networks as onnxruntime's quantisation writes them: its integers, in every format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from pathlib import Path

F32 = np.float32
SHAPE = (2, 3, 20, 18)


class Network:
    """Nodes and weights of a model from `x`."""

    def __init__(self, seed: int) -> None:
        self.helper: Any = import_module("onnx.helper")
        self.numpy_helper: Any = import_module("onnx.numpy_helper")
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.rng = np.random.default_rng(seed)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(self.numpy_helper.from_array(np.asarray(values, F32), name))
        return name

    def weight(self, *shape: int) -> str:
        spread = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        return self.constant(self.rng.standard_normal(shape) * spread)

    def conv(self, x: str, c: int, k: int, size: int, stride: int = 1, groups: int = 1) -> str:
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
        filters = self.weight(k, c // groups, size, size)
        return self.op("Conv", x, filters, self.weight(k), group=groups, **shape)

    def model(self, result: str) -> Any:
        make = self.helper
        ports = [make.make_tensor_value_info("x", 1, SHAPE)]
        ends = [make.make_tensor_value_info(result, 1, None)]
        graph = make.make_graph(self.nodes, "network", ports, ends, self.weights)
        return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)


def classifier(seed: int) -> Any:
    """Residual and depthwise convolutions of channels that are no words, and all kinds of ops."""
    net = Network(seed)
    x = net.op("Relu", net.conv("x", 3, 10, 3, 2))
    bounds = [net.constant(bound) for bound in (0, 6)]
    y = net.op("Clip", net.conv(x, 10, 10, 3, 1, 10), *bounds)
    x = net.op("Add", x, net.conv(y, 10, 10, 1))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = net.op("Relu", net.conv(x, 10, 24, 3))
    x = net.op("Mul", y, net.op("Sigmoid", net.conv(x, 10, 24, 1)))
    x = net.op("Relu", net.conv(net.op("Concat", x, y, axis=1), 48, 16, 3, 1, 2))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    x = net.op("Relu", net.op("Gemm", x, net.weight(20, 16), net.weight(20), transB=1))
    return net.model(net.op("Add", net.op("MatMul", x, net.weight(20, 7)), net.weight(7)))


class Images:
    """What ranges of activations are measured on."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.left = [{"x": rng.standard_normal(SHAPE).astype(F32)} for _ in range(3)]

    def get_next(self) -> Any:
        return self.left.pop() if self.left else None


def quantised(model: Any, folder: Path, form: str, types: str, **options: Any) -> Path:
    """The file of a model whose activations and weights have types such as `us`."""
    tools: Any = pytest.importorskip("onnxruntime.quantization")
    single, made = folder / "f32.onnx", folder / "int8.onnx"
    import_module("onnx").save(model, single)
    kinds = {"u": tools.QuantType.QUInt8, "s": tools.QuantType.QInt8}
    symmetric = options.pop("symmetric")
    tools.quantize_static(
        str(single),
        str(made),
        Images(),
        quant_format=tools.QuantFormat[form],
        activation_type=kinds[types[0]],
        weight_type=kinds[types[1]],
        extra_options={
            "ActivationSymmetric": symmetric,
            "WeightSymmetric": symmetric or types[1] == "s",
        },
        **options,
    )
    return made


def results(file: Path, *, keeps_u8: bool = True) -> tuple[Any, Any]:
    """Ours, and onnxruntime's with all its optimisations.

    Its sums of products of u8 and i8 saturate at 16 bits on a CPU without VNNI, unless an option
    says otherwise, by which it has no kernel for activations of i8 in its own operators.
    """
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", str(int(keeps_u8)))
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(7).standard_normal(SHAPE).astype(F32)
    return np.asarray(convir_compile(file, device="host")(x)), session.run(None, {"x": x})[0]


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize(
    ("types", "per_channel", "symmetric"),
    [("us", True, False), ("uu", False, False), ("ss", True, True), ("ss", False, False)],
)
def test_networks(
    form: str, types: str, per_channel: bool, symmetric: bool, tmp_path: Path
) -> None:
    file = quantised(
        classifier(len(types)), tmp_path, form, types, per_channel=per_channel, symmetric=symmetric
    )
    ours, theirs = results(file, keeps_u8=form == "QDQ" or types[0] == "u")
    np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize(
    ("kind", "share"),
    # onnxruntime's Softmax of integers does not round to nearest.
    [("AveragePool", 0.03), ("LeakyRelu", 0.001), ("Softmax", 0.25)],
)
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_operators_of_reals_are_a_step_away_at_most(
    form: str, kind: str, share: float, tmp_path: Path
) -> None:
    net = Network(0)
    x = net.conv("x", 3, 5, 3)
    attributes: Any = {
        "AveragePool": {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        "LeakyRelu": {"alpha": 0.1},
        "Softmax": {"axis": 1},
    }[kind]
    result = net.op(kind, x, **attributes)
    file = quantised(net.model(result), tmp_path, form, "us", per_channel=True, symmetric=False)
    ours, theirs = results(file)
    found = np.unique(theirs)
    step = np.diff(found).min()
    assert np.abs(ours - theirs).max() <= 1.01 * step
    assert np.mean(ours != theirs) < share


def test_other_contributed_operators_are_refused(tmp_path: Path) -> None:
    net = Network(0)
    name = net.op("FusedConv", "x", net.weight(3, 3, 1, 1), domain="com.microsoft")
    with pytest.raises(OnnxError, match=r"FusedConv of domain 'com.microsoft' is not supported"):
        import_model(net.model(name))
