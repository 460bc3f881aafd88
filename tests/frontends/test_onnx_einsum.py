"""Einsum: of any operands and labels, what NumPy computes in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_nodes import TYPES, numbers, one_node, results_of

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from onnx_cases import Array

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

KINDS = ("f32", "f16", "bf16", "f64", "i32", "i64")
LABELS = "abcde"


def check(equation: str, arrays: list[Array]) -> None:
    """Of small integers, whose sums of products are exact in f32."""
    dtype = arrays[0].dtype
    named = {f"x{i}": array for i, array in enumerate(arrays)}
    (result,) = results_of("Einsum", named, [dtype], equation=equation)
    wanted = np.einsum(equation, *(array.astype(np.float64) for array in arrays))
    rounded = wanted.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(result.astype(np.float64), rounded)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_equations(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = TYPES[data.draw(st.sampled_from(KINDS))]
    sizes = {label: data.draw(st.integers(1, 4)) for label in LABELS}
    terms = data.draw(st.lists(st.text(LABELS, max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    kept = data.draw(st.permutations([x for x in used if data.draw(st.booleans())]))
    is_explicit = data.draw(st.booleans())
    equation = ",".join(terms) + ("->" + "".join(kept) if is_explicit else "")
    check(equation, [numbers(rng, [sizes[x] for x in term], dtype) for term in terms])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("...i,...i", [(3, 4), (3, 4)]),
        ("i...->...", [(3, 2, 4)]),
        ("ii->i", [(4, 4)]),
        ("b i j -> b", [(2, 3, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ij,ij->ij", [(1, 3), (2, 1)]),
        ("a...,...b->...ab", [(2, 3), (3, 4)]),
        (",i->i", [(), (3,)]),
    ],
)
def test_forms(equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(1)
    check(equation, [numbers(rng, shape, np.dtype(np.float32)) for shape in shapes])


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->ik->", "is no equation of 2 operands"),
        ("ij->i", "is no equation of 2 operands"),
        ("i1,jk->i", "is no equation of 2 operands"),
        ("ijk,jk->i", "'ijk' are not the labels of 2 dimensions"),
        ("i,jk->i", "'i' are not the labels of 2 dimensions"),
        ("ij,jk->iik", "names a dimension of its result twice"),
        ("ij,jk->iz", "no operand has the label 'z' of the result"),
        ("ij,ik->jk", "the label 'i' has the sizes 2 and 3"),
    ],
)
def test_what_is_no_equation(equation: str, message: str) -> None:
    arrays: dict[str, Any] = {"x": np.zeros((2, 3), np.float32), "z": np.zeros((3, 4), np.float32)}
    made = one_node("Einsum", arrays, [np.dtype(np.float32)], equation=equation)
    with pytest.raises(OnnxError, match=rf"node 'y0' \(Einsum\): .*{message}"):
        import_model(made)
