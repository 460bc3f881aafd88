"""Conv and ConvTranspose against onnxruntime: generated ones, and what other importers got wrong.

The backend suite notices neither swapped nor averaged paddings nor reversed strides or dilations;
here every axis has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx_cases import model_of, node, onnxruntime_results, small_integers

import convir.frontends.onnx_backend as backend
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    import numpy.typing as npt

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `peers`)")

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
MAX_PAD = 3


@dataclass(frozen=True)
class Case:
    """One node with its weights, and the shape of its input."""

    op: str
    shape: tuple[int, ...]
    filters: tuple[int, ...]
    bias: int | None
    attributes: dict[str, Any]

    def model(self, rng: np.random.Generator) -> Any:
        """The node with random weights that are integers, so that every sum is exact."""
        constants = {"w": small_integers(rng, self.filters)}
        if self.bias is not None:
            constants["b"] = small_integers(rng, (self.bias,))
        made = node(self.op, ["x", *constants], ["y"], **self.attributes)
        return model_of([made], {"x": self.shape}, ["y"], constants)


def sizes(rank: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=rank, max_size=rank)


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    groups, per_group, filters = (draw(st.integers(1, 3)) for _ in range(3))
    taps, strides, dilations = (
        draw(sizes(rank, 1, 3)),
        draw(sizes(rank, 1, 3)),
        draw(sizes(rank, 1, 3)),
    )
    spatial = [
        extra + (k - 1) * d + 1
        for k, d, extra in zip(taps, dilations, draw(sizes(rank, 0, 5)), strict=True)
    ]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    # onnxruntime refuses dilations with SAME.
    mode = draw(st.sampled_from(AUTO_PADS if max(dilations) == 1 else AUTO_PADS[:2]))
    if mode == "NOTSET":
        attributes["pads"] = draw(sizes(2 * rank, 0, MAX_PAD))
    else:
        attributes["auto_pad"] = mode
    if draw(st.booleans()):
        attributes["kernel_shape"] = taps
    return Case(
        "Conv",
        (draw(st.integers(1, 3)), groups * per_group, *spatial),
        (groups * filters, per_group, *taps),
        groups * filters if draw(st.booleans()) else None,
        attributes,
    )


@st.composite
def transposed_convolutions(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    groups, per_group, filters = (draw(st.integers(1, 3)) for _ in range(3))
    taps, strides, dilations = (
        draw(sizes(rank, 1, 3)),
        draw(sizes(rank, 1, 3)),
        draw(sizes(rank, 1, 3)),
    )
    spatial = draw(sizes(rank, 1, 5))
    extra = [draw(st.integers(0, stride - 1)) for stride in strides]
    attributes: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "group": groups,
        "output_padding": extra,
    }
    reached = [
        (n - 1) * s + (k - 1) * d + 1 + more
        for n, s, k, d, more in zip(spatial, strides, taps, dilations, extra, strict=True)
    ]
    modes = [*AUTO_PADS[:2], "output_shape"]
    # SAME is stride times as many positions; onnxruntime gives fewer where the filter reaches less.
    if all(r >= n * s for r, n, s in zip(reached, spatial, strides, strict=True)):
        modes += AUTO_PADS[2:]
    mode = draw(st.sampled_from(modes))
    if mode == "output_shape":
        attributes["output_shape"] = [draw(st.integers(max(1, n - 4), n)) for n in reached]
    elif mode == "NOTSET":
        pads = [
            (
                draw(st.integers(0, min(MAX_PAD, (n - 1) // 2))),
                draw(st.integers(0, min(MAX_PAD, (n - 1) // 2))),
            )
            for n in reached
        ]
        attributes["pads"] = [low for low, _ in pads] + [high for _, high in pads]
    else:
        attributes["auto_pad"] = mode
    return Case(
        "ConvTranspose",
        (draw(st.integers(1, 3)), groups * per_group, *spatial),
        (groups * per_group, filters, *taps),
        groups * filters if draw(st.booleans()) else None,
        attributes,
    )


def check(case: Case, seed: int = 0) -> npt.NDArray[Any]:
    """The result, after it was found to be onnxruntime's, bit for bit."""
    rng = np.random.default_rng(seed)
    model = case.model(rng)
    x = small_integers(rng, case.shape)
    (expected,) = onnxruntime_results(model, {"x": x})
    (result,) = backend.run_model(model, [x])
    np.testing.assert_array_equal(result, expected)
    return result


@settings(max_examples=40, deadline=None)
@given(case=convolutions(), seed=st.integers(0, 9))
# One row of two is read.
@example(
    case=Case("Conv", (2, 2, 2, 1), (1, 2, 1, 1), None, {"strides": [2, 1], "group": 1}), seed=0
)
def test_generated_convolutions(case: Case, seed: int) -> None:
    check(case, seed)


@settings(max_examples=40, deadline=None)
@given(case=transposed_convolutions(), seed=st.integers(0, 9))
def test_generated_transposed_convolutions(case: Case, seed: int) -> None:
    check(case, seed)


def conv(shape: tuple[int, ...], filters: tuple[int, ...], **attributes: Any) -> Case:
    return Case("Conv", shape, filters, filters[0], attributes)


def test_asymmetric_padding_is_not_averaged() -> None:
    check(conv((1, 2, 5, 6), (3, 2, 3, 3), pads=[0, 1, 2, 0]))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_puts_the_odd_zero_where_it_says(mode: str) -> None:
    check(conv((1, 1, 6, 7), (1, 1, 2, 4), auto_pad=mode, strides=[1, 2]))


def test_dilations_count_once() -> None:
    check(conv((1, 1, 9, 9), (1, 1, 3, 2), dilations=[2, 3], pads=[1, 2, 0, 1]))


def test_missing_padding_is_none() -> None:
    assert check(conv((1, 1, 5, 5), (1, 1, 3, 3))).shape == (1, 1, 3, 3)


def test_output_channels_are_divided_into_groups() -> None:
    check(conv((2, 4, 5, 5), (6, 2, 3, 3), group=2))


def test_two_convolutions_share_an_input() -> None:
    rng = np.random.default_rng(0)
    constants = {"v": small_integers(rng, (3, 2, 3, 3)), "w": small_integers(rng, (3, 2, 1, 1))}
    nodes = [
        node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        node("Conv", ["x", "w"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    model = model_of(nodes, {"x": (2, 2, 5, 5)}, ["y", "a"], constants)
    x = small_integers(rng, (2, 2, 5, 5))
    expected = onnxruntime_results(model, {"x": x})
    for result, wanted in zip(backend.run_model(model, [x]), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_output_shape_splits_the_padding_as_the_mode_says(mode: str) -> None:
    attributes = {"strides": [2, 3], "output_shape": [6, 8], "auto_pad": mode}
    check(Case("ConvTranspose", (1, 2, 3, 3), (2, 2, 4, 3), 2, attributes))


def test_output_padding_of_a_stride_and_more_is_bias_alone() -> None:
    def case(extra: int) -> Case:
        attributes = {"strides": [2], "dilations": [3], "output_padding": [extra]}
        return Case("ConvTranspose", (1, 1, 3), (1, 1, 2), 1, attributes)

    less = check(case(1))
    rng = np.random.default_rng(0)
    model = case(2).model(rng)
    (more,) = backend.run_model(model, [small_integers(rng, (1, 1, 3))])
    np.testing.assert_array_equal(more[..., :-1], less)
    np.testing.assert_array_equal(more[..., -1], less[..., -1])


def test_same_output_size_is_stride_times_the_input_size() -> None:
    made = node("ConvTranspose", ["x", "w"], ["y"], strides=[3], auto_pad="SAME_UPPER")
    model = model_of([made], {"x": (1, 1, 2)}, ["y"], {"w": np.ones((1, 1, 1), np.float32)})
    (result,) = backend.run_model(model, [np.ones((1, 1, 2), np.float32)])
    np.testing.assert_array_equal(result, [[[1, 0, 0, 1, 0, 0]]])


def test_convolution_and_addition_are_one_function_of_both() -> None:
    rng = np.random.default_rng(1)
    constants = {"w": small_integers(rng, (2, 2, 3, 3)), "b": small_integers(rng, (2,))}
    nodes = [
        node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        node("Add", ["a", "r"], ["s"]),
        node("Relu", ["s"], ["y"]),
    ]
    shape = (1, 2, 4, 4)
    model = model_of(nodes, {"x": shape, "r": shape}, ["y"], constants)
    feeds = {"x": small_integers(rng, shape), "r": small_integers(rng, shape)}
    (expected,) = onnxruntime_results(model, feeds)
    np.testing.assert_array_equal(backend.run_model(model, feeds)[0], expected)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_batch_normalization_is_folded_into_the_weights(op: str, groups: int, bias: bool) -> None:
    rng = np.random.default_rng(2)
    channels, filters = 4, 6
    shape = (filters, channels // groups, 3, 3)
    if op == "ConvTranspose":
        shape = (channels, filters // groups, 3, 3)
    constants = {"w": rng.standard_normal(shape).astype(np.float32)}
    if bias:
        constants["b"] = rng.standard_normal(filters).astype(np.float32)
    inputs = ["x", *constants]
    constants |= {
        name: rng.uniform(0.5, 2, filters).astype(np.float32) for name in ("s", "o", "m", "v")
    }
    nodes = [
        node(op, inputs, ["a"], group=groups),
        node("BatchNormalization", ["a", "s", "o", "m", "v"], ["y"], epsilon=1e-3),
    ]
    model = model_of(nodes, {"x": (2, channels, 6, 5)}, ["y"], constants)
    x = rng.standard_normal((2, channels, 6, 5)).astype(np.float32)
    (expected,) = onnxruntime_results(model, {"x": x})
    np.testing.assert_allclose(backend.run_model(model, [x])[0], expected, rtol=1e-4, atol=1e-4)
    # The result is computed by the convolution and one addition.
    assert str(import_model(model)).count("linalg.generic") <= 6 + bias


@pytest.mark.parametrize("bias", [None, 2])
def test_padding_that_leaves_only_output_padding(bias: int | None) -> None:
    attributes = {"strides": [2, 2], "pads": [1, 0, 0, 0], "output_padding": [1, 1]}
    y = check(Case("ConvTranspose", (1, 3, 1, 2), (3, 2, 1, 1), bias, attributes))
    assert y.shape == (1, 2, 1, 4)
