"""Every operator in every float type: one rounding away from what f64 gives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import suite
from onnx_types import FLOAT_TYPES, REFERENCE_IN_F32, always_f32, in_type

import convir.frontends.onnx_backend as backend
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.ops import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_cases import Array, SuiteCase
    from onnx_types import FloatType

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

RECURRENT = {"GRU", "LSTM", "RNN"}
"""Whose states the evaluator of the package onnx rounds in each step, or does not compute."""

NO_FLOATS = {
    *("And", "ArgMax", "ArgMin", "Cast", "CastLike", "ConstantOfShape", "CumSum", "Einsum"),
    *("Equal", "Mod", "Not", "Or", "Scatter", "Trilu", "Xor"),
}
"""Operators that say the types of their results, or that the suite has no f32 cases of, or the
package onnx no evaluator."""

QUANTIZED = {
    *("ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger"),
    *("QLinearConv", "QLinearMatMul", "QuantizeLinear"),
}
"""Operators of integers, whose tests are `test_onnx_quantization.py`'s."""

OF_FLOATS = sorted(OPERATORS.keys() - NO_FLOATS - QUANTIZED - RECURRENT)

OF_F32 = 2e-6

MAX_CASES = 8
"""Of one operator."""

UNSUPPORTED = (
    *("only inference", "output #1", "must be a constant", "its inputs are of"),
    *("TensorProto type", "is not supported on elements of type i"),
)
"""What the errors say of the cases that are refused in f32 too."""


def cases_of(operator: str) -> list[SuiteCase]:
    """The cases of one node that is `operator`, on f32; of many, some from all of them."""
    cases = [
        case
        for case in suite()
        if [one.op_type for one in case.model.graph.node] == [operator]
        and any(np.asarray(array).dtype == np.float32 for array in case.data[0][0])
    ]
    return cases[:: -(-len(cases) // MAX_CASES)]


def reference(model: Any, kind: FloatType, named: dict[str, Array]) -> Sequence[Array]:
    """What the evaluator of the package onnx computes in f64, from what `kind` holds."""
    evaluator: Any = import_module("onnx.reference").ReferenceEvaluator
    f64 = FLOAT_TYPES["f64"]
    wide = {
        name: array.astype(np.float64) if array.dtype == kind.dtype else array
        for name, array in named.items()
    }
    return evaluator(in_type(model, f64.code, kind.dtype, f64.dtype)).run(None, wide)


def check(case: SuiteCase, kind: FloatType) -> None:
    """The case's inputs rounded to `kind`, and every result found to be rounded once."""
    kept, constants = always_f32(case.model), {one.name for one in case.model.graph.initializer}
    names = [port.name for port in case.model.graph.input if port.name not in constants]
    prepared = backend.prepare(in_type(case.model, kind.code, kind.dtype))
    for inputs, _ in case.data:
        named = {
            name: np.asarray(array).astype(
                kind.dtype
                if np.asarray(array).dtype == np.float32 and name not in kept
                else np.asarray(array).dtype
            )
            for name, array in zip(names, inputs, strict=True)
        }
        results = prepared.run(list(named.values()))
        for result, wanted in zip(results, reference(case.model, kind, named), strict=True):
            assert result.shape == np.shape(wanted)
            wide, exact = result.astype(np.float64), np.asarray(wanted).astype(np.float64)
            with np.errstate(over="ignore"):
                rounded = exact.astype(result.dtype).astype(np.float64)
            is_equal = (wide == rounded) | (np.isnan(wide) & np.isnan(exact))
            finite = np.where(np.isfinite(exact), exact, 0)
            allowed = kind.rounding(finite)
            if kind.name == "f64" and case.operators & REFERENCE_IN_F32:
                allowed = allowed + OF_F32 * max(1.0, np.abs(finite).max(initial=0))
            with np.errstate(invalid="ignore"):
                assert np.all(is_equal | (np.abs(wide - exact) <= allowed)), case.name


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("operator", OF_FLOATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx.reference")
def test_operators_round_once(operator: str, element: str) -> None:
    refused: list[str] = []
    cases = cases_of(operator)
    for case in cases:
        try:
            check(case, FLOAT_TYPES[element])
        except OnnxError as error:
            refused.append(str(error))
    assert len(refused) < len(cases)
    assert all(any(part in text for part in UNSUPPORTED) for text in refused), refused
