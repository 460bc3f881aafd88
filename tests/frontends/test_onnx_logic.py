"""Comparisons, bools, Where and Cast, in every element type, with NaN, infinities and zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import Array, model_of, node
from onnx_nodes import FLOATS, INTEGERS, TYPES, code, results_of

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from collections.abc import Mapping

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")


def result_of(
    op: str, arrays: Mapping[str, Array], wanted: np.dtype[Any], **attributes: Any
) -> Array:
    """What one node gives."""
    return results_of(op, arrays, [wanted], **attributes)[0]


def values(dtype: np.dtype[Any]) -> Array:
    """A few of a type, of which each is compared with each."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype in INTEGERS.values():
        bounds = np.iinfo(dtype)
        return np.array([bounds.min, -2, 0, 1, bounds.max], dtype)
    return np.array([-np.inf, -1.5, -0.0, 0.0, 1, 1.5, np.inf, np.nan]).astype(dtype)


RELATIONS = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", RELATIONS)
def test_relations(op: str, kind: str) -> None:
    x = values(TYPES[kind])
    result = result_of(op, {"a": x[:, None], "b": x}, np.dtype(bool))
    wide = x.astype(np.float64) if kind == "bf16" else x
    np.testing.assert_array_equal(result, RELATIONS[op](wide[:, None], wide))


@pytest.mark.parametrize("kind", TYPES)
def test_where(kind: str) -> None:
    x = values(TYPES[kind])
    condition = np.arange(len(x)) % 2 == 0
    result = result_of("Where", {"c": condition[:, None], "a": x, "b": x[::-1].copy()}, x.dtype)
    wanted = np.where(condition[:, None], x, x[::-1])
    np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8))


def test_a_known_condition_chooses_at_import() -> None:
    constants = {"c": np.ones((3, 1), bool), "b": np.zeros(2, np.float32)}
    module = import_model(
        model_of([node("Where", ["c", "x", "b"], ["y"])], {"x": (2,)}, ["y"], constants)
    )
    assert "arith.select" not in str(module)
    assert "-> tensor<3x2xf32>" in str(module)


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("have", TYPES)
def test_casts(have: str, wanted: str) -> None:
    """What the wanted type holds: numbers beyond it become no number in particular."""
    x = values(TYPES[have])
    wide = x.astype(np.float64)
    if wanted in INTEGERS:
        x = x[np.isfinite(wide) & (np.abs(wide) < 2.0 ** (8 * TYPES[wanted].itemsize - 1))]
    with np.errstate(over="ignore"):
        expected = x.astype(TYPES[wanted])
        if wanted == "bool":
            expected = x.astype(np.float64) != 0
    result = result_of("Cast", {"x": x}, TYPES[wanted], to=code(TYPES[wanted]))
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("kind", FLOATS)
def test_what_is_no_number(kind: str) -> None:
    x = values(FLOATS[kind])
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(result_of("IsNaN", {"x": x}, np.dtype(bool)), np.isnan(wide))
    for negative, positive in ((0, 0), (0, 1), (1, 0), (1, 1)):
        signs = {"detect_negative": negative, "detect_positive": positive}
        result = result_of("IsInf", {"x": x}, np.dtype(bool), **signs)
        expected = ((wide == np.inf) & bool(positive)) | ((wide == -np.inf) & bool(negative))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS])
def test_signs(kind: str) -> None:
    x = values(TYPES[kind])
    expected = np.sign(x.astype(np.float64) if kind == "bf16" else x)
    result = result_of("Sign", {"x": x}, x.dtype)
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize(
    ("op", "kinds", "message"),
    [
        ("And", ("bool", "f32"), "its inputs are of i1 and of f32"),
        ("Not", ("i32",), "is not supported on elements of type i32"),
        ("Where", ("f32", "f32", "f32"), "is not supported on elements of type f32"),
        ("Where", ("bool", "f32", "f64"), "its inputs are of f32 and of f64"),
        ("Less", ("f32", "i64"), "its inputs are of f32 and of i64"),
    ],
)
def test_types_that_do_not_go_together(op: str, kinds: tuple[str, ...], message: str) -> None:
    arrays = {f"x{i}": np.zeros(2, TYPES[kind]) for i, kind in enumerate(kinds)}
    with pytest.raises(OnnxError, match=rf"node 'y0' \({op}\): {message}"):
        result_of(op, arrays, np.dtype(bool))
