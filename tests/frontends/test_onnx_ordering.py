"""Running totals, the largest elements, remainders, triangles and one-hot rows, in every type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_nodes import FLOATS, INTEGERS, TYPES, numbers, one_node, results_of

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model
from convir.frontends.onnx.ops.ordering import MAX_RANKED

if TYPE_CHECKING:
    from onnx_cases import Array

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

I64 = np.dtype(np.int64)
NUMBERS = (*FLOATS, *INTEGERS)
EXAMPLES = settings(max_examples=30, deadline=None)
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3)


@EXAMPLES
@given(data=st.data())
def test_running_totals(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = TYPES[data.draw(st.sampled_from(NUMBERS))]
    shape = data.draw(SHAPES)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    shape[axis] = data.draw(st.integers(1, 40))
    exclusive, reverse = (data.draw(st.integers(0, 1)) for _ in range(2))
    x, at = numbers(rng, shape, dtype), np.array(axis)
    attributes: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse}
    (result,) = results_of("CumSum", {"x": x, "a": at}, [dtype], {"a": at}, **attributes)
    wide = x.astype(np.float64)
    wide = np.flip(wide, axis) if reverse else wide
    total = np.cumsum(wide, axis) - (wide if exclusive else 0)
    wanted = np.flip(total, axis) if reverse else total
    if dtype.kind == "i":
        wanted = wanted.astype(np.int64).astype(dtype)
    np.testing.assert_array_equal(result.astype(np.float64), wanted.astype(dtype).astype(float))


def test_a_long_total_is_as_accurate_as_pairwise_sums() -> None:
    x = np.random.default_rng(0).random(1 << 15).astype(np.float32)
    at = np.array(0)
    (result,) = results_of("CumSum", {"x": x, "a": at}, [x.dtype], {"a": at})
    exact = np.cumsum(x.astype(np.float64))
    assert np.abs(result / exact - 1).max() < 5e-7  # One after the other it is 2e-6.


def ordered(x: Array, axis: int, *, largest: bool) -> npt.NDArray[np.int64]:
    """Where the elements are, from the first one in order on; equal ones as they are."""
    keys = x.astype(np.float64)
    keys = np.where(np.isnan(keys), np.inf, keys)
    return np.argsort(-keys if largest else keys, axis, kind="stable")


@EXAMPLES
@given(data=st.data())
def test_top(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = TYPES[data.draw(st.sampled_from(NUMBERS))]
    shape = data.draw(SHAPES)
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = numbers(rng, shape, dtype)
    if dtype.kind != "i" and data.draw(st.booleans()):
        x[rng.random(x.shape) < 0.2] = np.nan
    few = data.draw(st.integers(0, shape[axis]))
    count = np.array([few])
    largest = data.draw(st.booleans())
    values, indices = results_of(
        *("TopK", {"x": x, "k": count}, [dtype, I64], {"k": count}), axis=axis, largest=int(largest)
    )
    wanted = np.take(ordered(x, axis, largest=largest), np.arange(few), axis)
    np.testing.assert_array_equal(indices, wanted)
    expected = np.take_along_axis(x, wanted, axis).astype(np.float64)
    np.testing.assert_array_equal(values.astype(np.float64), expected)


@EXAMPLES
@given(data=st.data())
def test_positions(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = TYPES[data.draw(st.sampled_from(NUMBERS))]
    shape = data.draw(SHAPES)
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = numbers(rng, shape, dtype)
    op, largest = data.draw(st.sampled_from([("ArgMax", True), ("ArgMin", False)]))
    last, keeps = (data.draw(st.integers(0, 1)) for _ in range(2))
    attributes: dict[str, Any] = {"axis": axis, "select_last_index": last, "keepdims": keeps}
    (result,) = results_of(op, {"x": x}, [I64], **attributes)
    find = np.argmax if largest else np.argmin
    if last:
        wanted = shape[axis] - 1 - find(np.flip(x, axis), axis, keepdims=bool(keeps))
    else:
        wanted = find(x, axis, keepdims=bool(keeps))
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("kind", FLOATS)
def test_positions_of_what_is_no_number(kind: str) -> None:
    values = [[1, np.nan, np.inf, np.nan], [-np.inf] * 4, [2, 2, 1, 1]]
    x = np.array(values).astype(FLOATS[kind])
    for op, wanted in (("ArgMax", [1, 0, 0]), ("ArgMin", [1, 0, 2])):
        (result,) = results_of(op, {"x": x}, [I64], axis=1, keepdims=0)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("kind", INTEGERS)
def test_remainders(kind: str, fmod: int) -> None:
    x = np.arange(-7, 8).astype(INTEGERS[kind])
    y = np.array([-5, -3, -1, 1, 2, 3, 7]).astype(x.dtype)
    (result,) = results_of("Mod", {"x": x[:, None], "y": y}, [x.dtype], fmod=fmod)
    np.testing.assert_array_equal(result, (np.fmod if fmod else np.mod)(x[:, None], y))


@pytest.mark.parametrize("kind", TYPES)
def test_triangles(kind: str) -> None:
    x = numbers(np.random.default_rng(0), (2, 4, 5), TYPES[kind])
    for shift in (-5, -1, 0, 2):
        k = np.array(shift)
        for upper, keep in ((1, np.triu), (0, np.tril)):
            (result,) = results_of("Trilu", {"x": x, "k": k}, [x.dtype], {"k": k}, upper=upper)
            np.testing.assert_array_equal(result, keep(x, shift))


@pytest.mark.parametrize("kind", TYPES)
def test_one_hot(kind: str) -> None:
    depth, values = np.array(4), np.array([0, 1]).astype(TYPES[kind])
    constants = {"d": depth, "v": values}
    for indices in (np.array([0, 3, -1, -4, 4, -5]), np.array([0, 1.5, 3, 9], np.float32)):
        (result,) = results_of("OneHot", {"i": indices, **constants}, [values.dtype], constants)
        turned = np.where(indices < 0, indices + 4, indices)
        wanted = (turned[:, None] == np.arange(4)).astype(values.dtype)
        np.testing.assert_array_equal(result, wanted)


X = np.zeros((2, 3), np.float32)
REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "too many": (
        *("TopK", {"x": X, "k": np.array([4])}, {}),
        "there are no 4 elements in a dimension of size 3",
    ),
    "too long": (
        *("TopK", {"x": np.zeros(MAX_RANKED + 1, np.float32), "k": np.array([1])}, {}),
        f"an order of {MAX_RANKED + 1} elements is not supported",
    ),
    "no axis": ("CumSum", {"x": X, "a": np.array(2)}, {}, "a tensor of rank 2 has no axis 2"),
    "bools": ("CumSum", {"x": X > 0, "a": np.array(0)}, {}, "on elements of type i1"),
    "nothing": ("ArgMax", {"x": X[:0]}, {}, "a dimension of size 0 has no largest"),
    "a row": ("Trilu", {"x": X[0]}, {}, "takes 2 dimensions or more, not [3]"),
    "floats": ("Mod", {"x": X, "y": X}, {}, "is not supported on elements of type f32"),
    "a list of values": (
        *("OneHot", {"i": np.array([0]), "d": np.array(3), "v": X}, {}),
        "its values float32[2, 3] and depth 3 mean nothing",
    ),
    "a shape of elements": (
        *("NonZero", {"x": X}, {}),
        "the shape of its result depends on the elements of its inputs",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    op, arrays, attributes, message = REFUSED[case]
    constants = {name: array for name, array in arrays.items() if name not in ("x", "i", "y")}
    outputs = [np.dtype(np.float32)] * (2 if op == "TopK" else 1)
    with pytest.raises(OnnxError) as error:
        import_model(one_node(op, arrays, outputs, constants, **attributes))
    assert f"node 'y0' ({op}): " in str(error.value)
    assert message in str(error.value)


def test_what_only_constants_give() -> None:
    arrays = {"x": np.array(0), "y": np.array(5), "z": np.array(1)}
    with pytest.raises(OnnxError, match=r"\(Range\): is computed at import alone: of constants, "):
        import_model(one_node("Range", arrays, [I64]))
