"""What is read and written at indices: constant and computed ones, in every element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_cases import Array, model_of, node
from onnx_nodes import TYPES, numbers, one_node, results_of

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

KINDS = ("f32", "f16", "bf16", "f64", "i8", "i32", "i64", "bool")
EXAMPLES = settings(max_examples=30, deadline=None)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


class Drawn:
    """Arrays and indices that hypothesis draws."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 999)))
        self.dtype = TYPES[data.draw(st.sampled_from(KINDS))]
        self.shape = tuple(data.draw(SHAPES))
        self.axis = data.draw(st.integers(0, len(self.shape) - 1))
        self.is_constant = data.draw(st.booleans())

    def tensor(self, shape: tuple[int, ...]) -> Array:
        return numbers(self.rng, shape, self.dtype)

    def indices(self, shape: tuple[int, ...], *sizes: int) -> Array:
        """From the start or the end; of each of `sizes` along the last dimension."""
        size = np.array(sizes[0] if len(sizes) == 1 else sizes)
        found = self.rng.integers(np.broadcast_to(-size, shape), np.broadcast_to(size, shape))
        return found.astype(self.data.draw(st.sampled_from((np.int32, np.int64))))

    def result(self, op: str, arrays: dict[str, Array], **attributes: Any) -> Array:
        constants = {"i": arrays["i"]} if self.is_constant else {}
        return results_of(op, arrays, [self.dtype], constants, **attributes)[0]


@EXAMPLES
@given(data=st.data())
def test_gather(data: st.DataObject) -> None:
    d = Drawn(data)
    x = d.tensor(d.shape)
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=2)))
    i = d.indices(shape, d.shape[d.axis])
    result = d.result("Gather", {"x": x, "i": i}, axis=d.axis)
    np.testing.assert_array_equal(result, np.take(x, i, d.axis))


@EXAMPLES
@given(data=st.data())
def test_gather_and_scatter_elements(data: st.DataObject) -> None:
    d = Drawn(data)
    x = d.tensor(d.shape)
    sizes = [data.draw(st.integers(1, size)) for size in d.shape]
    sizes[d.axis] = data.draw(st.integers(1, d.shape[d.axis]))
    i = d.indices(tuple(sizes), d.shape[d.axis])
    part = x[tuple(slice(n) if dim != d.axis else slice(None) for dim, n in enumerate(sizes))]
    result = d.result("GatherElements", {"x": x, "i": i}, axis=d.axis)
    np.testing.assert_array_equal(result, np.take_along_axis(part, i.astype(int), d.axis))
    u = d.tensor(tuple(sizes))
    i = np.argsort(d.rng.random(part.shape), d.axis)[tuple(map(slice, sizes))]  # Each once.
    expected = x.copy()
    for place in np.ndindex(*sizes):
        expected[(*place[: d.axis], i[place], *place[d.axis + 1 :])] = u[place]
    result = d.result("ScatterElements", {"x": x, "i": i, "u": u}, axis=d.axis)
    np.testing.assert_array_equal(result, expected)


@EXAMPLES
@given(data=st.data())
def test_gather_nd(data: st.DataObject) -> None:
    d = Drawn(data)
    x = d.tensor(d.shape)
    batch = data.draw(st.integers(0, len(d.shape) - 1))
    depth = data.draw(st.integers(1, len(d.shape) - batch))
    places = (*d.shape[:batch], *data.draw(st.lists(st.integers(1, 3), max_size=2)))
    i = d.indices((*places, depth), *d.shape[batch : batch + depth])
    result = d.result("GatherND", {"x": x, "i": i}, batch_dims=batch)
    expected = np.empty((*places, *d.shape[batch + depth :]), d.dtype)
    for place in np.ndindex(*places):
        expected[place] = x[(*place[:batch], *i[place])]
    np.testing.assert_array_equal(result, expected)


REDUCED = {"none": None, "add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_scatter_nd(data: st.DataObject) -> None:
    """Several updates of one place too: the last one counts, or all are combined in any order."""
    d = Drawn(data)
    reduction = data.draw(st.sampled_from([*REDUCED])) if d.dtype.kind != "b" else "none"
    x = d.tensor(d.shape)
    depth = data.draw(st.integers(1, len(d.shape)))
    places = tuple(data.draw(st.lists(st.integers(1, 4), max_size=2)))
    i = d.indices((*places, depth), *d.shape[:depth])
    u = d.tensor((*places, *d.shape[depth:]))
    if reduction == "mul":
        x, u = np.sign(x), np.sign(u)
    expected = x.astype(np.float64)
    for place in np.ndindex(*places):
        at, combine = tuple(i[place]), REDUCED[reduction]
        new = u[place].astype(np.float64)
        expected[at] = new if combine is None else combine(expected[at], new)
    given = {} if reduction == "none" else {"reduction": reduction}
    result = d.result("ScatterND", {"x": x, "i": i, "u": u}, **given)
    np.testing.assert_array_equal(result.astype(np.float64), expected)


@EXAMPLES
@given(data=st.data())
def test_slices_with_steps(data: st.DataObject) -> None:
    d = Drawn(data)
    x = d.tensor(d.shape)
    step = data.draw(st.integers(-3, 3).filter(bool))
    start, end = (data.draw(st.integers(-7, 7)) for _ in range(2))
    bounds = [np.array([n]) for n in (start, end, d.axis, step)]
    arrays = {"x": x, **{f"b{n}": array for n, array in enumerate(bounds)}}
    constants = {f"b{n}": array for n, array in enumerate(bounds)}
    (result,) = results_of("Slice", arrays, [d.dtype], constants)
    if step < 0:  # NumPy may begin in front of the first element, where ONNX begins with it.
        start = max(start, -d.shape[d.axis])
    chosen = [slice(None)] * len(d.shape)
    chosen[d.axis] = slice(start, end, step)
    np.testing.assert_array_equal(result, x[tuple(chosen)])


@EXAMPLES
@given(data=st.data())
def test_expand_and_tile(data: st.DataObject) -> None:
    d = Drawn(data)
    sizes = tuple(size if data.draw(st.booleans()) else 1 for size in d.shape)
    x = d.tensor(sizes)
    shape = np.array([*data.draw(st.lists(st.integers(1, 2), max_size=1)), *d.shape])
    (result,) = results_of("Expand", {"x": x, "s": shape}, [d.dtype], {"s": shape})
    np.testing.assert_array_equal(result, np.broadcast_to(x, shape))
    times = d.rng.integers(0, 4, len(sizes))
    (result,) = results_of("Tile", {"x": x, "t": times}, [d.dtype], {"t": times})
    np.testing.assert_array_equal(result, np.tile(x, times))


@pytest.mark.parametrize("kind", ["f32", "bf16", "i64"])
def test_computed_indices_that_are_not_there(kind: str) -> None:
    """They read NaN, or the nearest element where there is none; and they write nothing."""
    x, i = np.arange(1, 4).astype(TYPES[kind]), np.array([-9, -4, -3, 2, 3, 2**40])
    (result,) = results_of("Gather", {"x": x, "i": i}, [x.dtype])
    outside = [np.nan, np.nan, 1, 3, np.nan, np.nan]
    nearest = [1, 1, 1, 3, 3, 3]
    wanted = np.array(nearest if kind == "i64" else outside).astype(x.dtype)
    np.testing.assert_array_equal(result.astype(float), wanted.astype(float))
    u = np.arange(10, 16).astype(x.dtype)
    (result,) = results_of("ScatterND", {"x": x, "i": i[:, None], "u": u}, [x.dtype])
    np.testing.assert_array_equal(result, np.array([12, 2, 13]).astype(x.dtype))


CONSTANT_FORMS: dict[str, tuple[Array, list[str]]] = {
    "a scalar": (np.array(2), ["tensor.extract_slice", "tensor.collapse_shape"]),
    "a range": (np.array([1, 2, 3]), ["tensor.extract_slice"]),
    "every second": (np.array([0, 2, 4]), ["tensor.extract_slice"]),
    "from the end": (np.array([-2, -1]), ["tensor.extract_slice"]),
    "all": (np.array([0, 1, 2, 3, 4]), []),
    "backwards": (np.array([4, 3, 2, 1, 0]), ["tensor.empty", "linalg.generic"]),
}


@pytest.mark.parametrize("form", CONSTANT_FORMS)
def test_regular_indices_are_slices(form: str) -> None:
    indices, wanted = CONSTANT_FORMS[form]
    made = model_of(
        [node("Gather", ["x", "i"], ["y"], axis=1)], {"x": (2, 5)}, ["y"], {"i": indices}
    )
    ops = [op.name for op in import_model(made).body.walk()]
    assert [name for name in ops if name.startswith("tensor.") or name == "linalg.generic"] == (
        wanted if form != "backwards" else [*wanted, "tensor.extract"]
    )


X = np.zeros((2, 3), np.float32)
REFUSED: dict[str, tuple[str, dict[str, Array], set[str], dict[str, Any], str]] = {
    "an index that is not there": (
        *("Gather", {"x": X, "i": np.array([0, 3])}, {"i"}, {"axis": 1}),
        "the index 3 is not in a dimension of size 3",
    ),
    "an index before the first": (
        *("GatherND", {"x": X, "i": np.array([[1, -4]])}, {"i"}, {}),
        "the index -4 is not in a dimension of size 3",
    ),
    "floats": (
        *("Gather", {"x": X, "i": X[0]}, {"i"}, {}),
        "its indices are of float32, not of int32 or int64",
    ),
    "computed floats": (
        *("GatherElements", {"x": X, "i": X}, set(), {}),
        "its indices are of f32, not of i32 or i64",
    ),
    "another rank": (
        *("GatherElements", {"x": X, "i": np.array([0])}, set(), {}),
        "its indices [1] do not fit [2, 3] beside axis 0",
    ),
    "more places": (
        *("ScatterElements", {"x": X, "i": np.zeros((1, 4), int), "u": X[:1, :1]}, {"i"}, {}),
        "its updates has the shape [1, 1], not [1, 4]",
    ),
    "too deep": (
        *("GatherND", {"x": X, "i": np.zeros((1, 3), int)}, set(), {}),
        "its indices [1, 3] are of more axes than [2, 3] has",
    ),
    "batches": (
        *("GatherND", {"x": X, "i": np.zeros((3, 1), int)}, set(), {"batch_dims": 1}),
        "[2, 3] and its indices [3, 1] differ in their batches",
    ),
    "updates of another shape": (
        *("ScatterND", {"x": X, "i": np.zeros((1, 1), int), "u": X}, set(), {}),
        "its updates has the shape [2, 3], not [1, 3]",
    ),
    "an unknown reduction": (
        *("ScatterND", {"x": X, "i": np.zeros((2, 1), int), "u": X}, set(), {"reduction": "or"}),
        "'reduction' is 'or'; supported are",
    ),
    "no elements": (
        *("Gather", {"x": X[:0], "i": np.array([0])}, set(), {}),
        "a dimension of size 0 has no elements at any index",
    ),
    "repeats of another rank": (
        *("Tile", {"x": X, "t": np.array([2])}, {"t"}, {}),
        "[2] are not 2 repeats of [2, 3]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    op, arrays, constants, attributes, message = REFUSED[case]
    known = {name: arrays[name] for name in constants}
    made = one_node(op, arrays, [np.dtype(np.float32)], known, **attributes)
    with pytest.raises(OnnxError) as error:
        import_model(made)
    assert message in str(error.value)
    assert f"node 'y0' ({op})" in str(error.value)
