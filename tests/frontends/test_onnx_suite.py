"""ONNX's own backend suite: every pure Conv and ConvTranspose, and the operators around them."""

from __future__ import annotations

from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu import cupy_or_skip
from onnx_cases import SuiteCase, suite

import convir.frontends.onnx_backend as backend
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.ops import OPERATORS as IMPORTED

ONNX_PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"

CONVOLUTIONS = {"Conv", "ConvTranspose"}

NUM_CONVOLUTION_CASES = 47

OPERATORS = {
    *("Abs", "Add", "And", "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "Cast"),
    *("CastLike", "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape", "ConvInteger", "Cos"),
    *("CumSum", "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "DynamicQuantizeLinear"),
    *("Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "GRU", "Gather"),
    *("GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool"),
    *("Greater", "GreaterOrEqual", "GroupNormalization", "HardSigmoid", "HardSwish", "Identity"),
    *("If", "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM", "LayerNormalization"),
    *("LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "Loop", "MatMul", "MatMulInteger"),
    *("Max", "MaxPool", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "PRelu"),
    *("Pad", "Pow", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RNN", "Range", "Reciprocal"),
    *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape"),
    *("Resize", "Round", "Scatter", "ScatterElements", "ScatterND", "Selu", "Shape", "Sigmoid"),
    *("Sign", "Sin", "Size", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split"),
    *("Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK"),
    *("Transpose", "Trilu", "Unsqueeze", "Upsample", "Where", "Xor"),
}
"""What networks need; every node case of these that is not in UNSUPPORTED."""

UNSUPPORTED = {
    "test_batchnorm_example_training_mode": "only inference",
    "test_batchnorm_epsilon_training_mode": "only inference",
    "test_dequantizelinear": "elements of TensorProto type",
    "test_dequantizelinear_axis": "elements of TensorProto type",
    "test_maxpool_with_argmax_2d_precomputed_pads": "output #1",
    "test_maxpool_with_argmax_2d_precomputed_strides": "output #1",
}
"""The case, and what its error says."""

UNSUPPORTED_PATTERNS = {
    "test_convinteger": "elements of TensorProto type",
    "test_matmulinteger": "elements of TensorProto type",
    "test_qlinearconv": "elements of TensorProto type",
    "_int8_float16": "a scale of float16 is not supported",
    "linear_e4m3": "elements of TensorProto type|integers of type",
    "linear_e5m2": "elements of TensorProto type|integers of type",
    "linear_float4": "elements of TensorProto type|integers of type",
    "linear_int2": "elements of TensorProto type|integers of type",
    "linear_int4": "elements of TensorProto type|integers of type",
    "linear_uint": "elements of TensorProto type|integers of type",
    "linear_blocked": "elements of TensorProto type|blocks and other types",
    "uint": "elements of TensorProto type|from .* to TensorProto type",
    "UINT": "elements of TensorProto type|from .* to TensorProto type",
    "INT4": "elements of TensorProto type|from .* to TensorProto type",
    "INT2": "elements of TensorProto type|from .* to TensorProto type",
    "FLOAT8": "elements of TensorProto type|from .* to TensorProto type",
    "FLOAT4": "elements of TensorProto type|from .* to TensorProto type",
    "STRING": "elements of TensorProto type|from .* to TensorProto type",
    "equal_string": "elements of TensorProto type",
    "if_opt": "SequenceConstruct",
    "if_seq": "SequenceConstruct",
    "loop13_seq": "elements of TensorProto type",
    "loop16_seq": "elements of TensorProto type",
    "tf_crop_and_resize": "the region .* must be a constant",
    "training_dropout": "only inference",
    "pow_types_float32_int": "its inputs are of f32 and of i",
    "pow_types_int32_float": "its inputs are of i32 and of f32",
    "pow_types_int64_float": "its inputs are of i64 and of f32",
    "pow_types_int": "is not supported on elements of type i",
    "_bool": "is not supported on elements of type i1",
    "mod_mixed_sign_float": "is not supported on elements of type f",
    "mod_float": "is not supported on elements of type f",
    "identity_opt": "elements of TensorProto type",
    "identity_sequence": "elements of TensorProto type",
}


def _expected_error(name: str) -> str | None:
    if name in UNSUPPORTED:
        return UNSUPPORTED[name]
    return next((text for part, text in UNSUPPORTED_PATTERNS.items() if part in name), None)


def _run(case: SuiteCase, device: str = "CPU") -> None:
    prepared = backend.prepare(case.model, device)
    for inputs, outputs in case.data:
        for result, expected in zip(prepared.run(inputs), outputs, strict=True):
            assert (result.shape, result.dtype) == (np.shape(expected), np.asarray(expected).dtype)
            np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=case.atol)


def test_every_convolution_of_the_suite() -> None:
    cases = [case for case in suite() if case.operators and case.operators <= CONVOLUTIONS]
    assert len(cases) == NUM_CONVOLUTION_CASES
    for case in cases:
        _run(case)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_operators(operator: str) -> None:
    cases = [case for case in suite() if case.operators == {operator}]
    assert cases
    for case in cases:
        error = _expected_error(case.name)
        if error is None:
            _run(case)
            continue
        with pytest.raises(OnnxError, match=error):
            _run(case)


def test_the_list_of_the_documentation() -> None:
    """Every operator that is imported, with how many of its cases pass; `test_operators` says that
    they do."""
    assert {
        *IMPORTED,
        "Constant",
        "If",
        "Loop",
        "Range",
        "Shape",
        "Size",
    } <= OPERATORS | CONVOLUTIONS
    counts: list[str] = []
    for operator in sorted(OPERATORS | CONVOLUTIONS):
        cases = [case for case in suite() if case.operators == {operator}]
        passed = sum(_expected_error(case.name) is None for case in cases)
        every = "" if passed == len(cases) else f" of {len(cases)}"
        counts.append(f"{operator} {passed}{every}")
    text = " ".join(ONNX_PAGE.read_text(encoding="utf-8").split())
    assert f"{', '.join(counts)}." in text


@pytest.mark.gpu
@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_operators_on_a_gpu(operator: str) -> None:
    cupy_or_skip()
    for case in suite():
        if case.operators == {operator} and _expected_error(case.name) is None:
            _run(case, "CUDA")


@pytest.mark.parametrize(
    "case",
    [case for case in suite() if "tf_crop_and_resize" in case.name],
    ids=lambda case: case.name,
)
def test_a_constant_region(case: SuiteCase) -> None:
    """The cases of `tf_crop_and_resize`, whose region is an input, with a constant in its place."""
    numpy_helper: Any = import_module("onnx.numpy_helper")
    for inputs, outputs in case.data:
        model = deepcopy(case.model)
        names = [port.name for port in model.graph.input]
        at = names.index("roi")
        del model.graph.input[at]
        model.graph.initializer.append(numpy_helper.from_array(inputs[at], "roi"))
        rest = [*inputs[:at], *inputs[at + 1 :]]
        _run(SuiteCase(case.name, model, [(rest, outputs)], case.rtol, case.atol))


@pytest.mark.parametrize(
    ("device", "known"), [("CPU", True), ("CPU:0", True), ("host", True), ("TPU", False)]
)
def test_devices(device: str, known: bool) -> None:
    assert backend.supports_device(device) == known
