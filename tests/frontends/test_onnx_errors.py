"""Nodes that mean nothing: one error each, which names the node and what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx_cases import Array, model_of, node

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

pytestmark = pytest.mark.fast

SHAPE = (1, 4, 5, 5)
WEIGHTS = np.ones((4, 4, 3, 3), np.float32)
NO_AXIS_9 = "a tensor of rank 4 has no axis 9"


def integers(*values: int) -> Array:
    return np.array(values, np.int64)


def scales(*values: float) -> Array:
    return np.array(values, np.float32)


# The operator, its inputs behind the first one, its attributes, and what the error says.
Case = tuple[str, tuple[Array | None, ...], dict[str, Any], str]
CASES: dict[str, Case] = {
    "axis of Concat": ("Concat", (), {"axis": 9}, NO_AXIS_9),
    "axis of Flatten": ("Flatten", (), {"axis": 9}, NO_AXIS_9),
    "axis of Pad": ("Pad", (integers(1, 1), None, integers(9)), {}, NO_AXIS_9),
    "axis of ReduceMax": ("ReduceMax", (), {"axes": [9]}, NO_AXIS_9),
    "axis of ReduceSum": ("ReduceSum", (integers(9),), {}, NO_AXIS_9),
    "axis of Slice": ("Slice", (integers(0), integers(1), integers(9)), {}, NO_AXIS_9),
    "axis of Softmax": ("Softmax", (), {"axis": 9}, NO_AXIS_9),
    "axis of Squeeze": ("Squeeze", (integers(9),), {}, NO_AXIS_9),
    "axis of Unsqueeze": ("Unsqueeze", (integers(9),), {}, "a tensor of rank 5 has no axis 9"),
    "axes twice": ("Unsqueeze", (integers(0, -6),), {}, "the axes [0, -6] name one twice"),
    "bounds of Slice": (
        *("Slice", (integers(0), integers(1), integers(1, 2)), {}),
        "its bounds, axes and steps are not as many as each other",
    ),
    "blocks of 0": ("DepthToSpace", (), {"blocksize": 0}, "'blocksize' is 0, not at least 1"),
    "blocks of -1": ("SpaceToDepth", (), {"blocksize": -1}, "'blocksize' is -1, not at least 1"),
    "no groups": (
        *("GroupNormalization", (scales(1), scales(1)), {"num_groups": 0}),
        "'num_groups' is 0, not at least 1",
    ),
    "no neighbours": ("LRN", (), {"size": 0}, "'size' is 0, not at least 1"),
    "no window": ("MaxPool", (), {"kernel_shape": [0, 2]}, "'kernel_shape' is [0, 2]"),
    "no stride": (
        *("MaxPool", (), {"kernel_shape": [2, 2], "strides": [1, 0]}),
        "'strides' is [1, 0], not all at least 1",
    ),
    "no dilation": ("Conv", (WEIGHTS,), {"dilations": [1, 0]}, "'dilations' is [1, 0]"),
    "no stride of a transposed one": (
        *("ConvTranspose", (WEIGHTS,), {"strides": [0, 1]}),
        "'strides' is [0, 1], not all at least 1",
    ),
    "one size of two": (
        *("ConvTranspose", (WEIGHTS,), {"output_shape": [9]}),
        "'output_shape' has 1 values, not 2",
    ),
    "order": ("Transpose", (), {"perm": [0, 0, 1, 2]}, "'perm' [0, 0, 1, 2] is no order"),
    "cut too much": ("Pad", (integers(0, 0, 0, -9, 0, 0, 0, 0),), {}, "no tensor has the sizes"),
    "parts below 0": ("Split", (integers(-1, 5),), {"axis": 1}, "no tensor has the sizes"),
    "sizes below 0": ("Reshape", (integers(-5, -20),), {}, "100 elements have no shape"),
    "sizes that are not there": (
        *("Reshape", (integers(0, 0, 0, 0, 0),), {}),
        "its shape [0, 0, 0, 0, 0] keeps a size that [1, 4, 5, 5] does not have",
    ),
    "two scales": ("Resize", (None, scales(1, 1)), {}, "[1.0, 1.0] are not 4 scales above 0"),
    "scales of 0": ("Resize", (None, scales(1, 1, 0, 1)), {}, "are not 4 scales above 0"),
    "resized to nothing": (
        *("Resize", (None, None, integers(1, 4, -3, 2)), {}),
        "sizes [1, 4, 5, 5] are not resized to [1, 4, -3, 2]",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nodes_are_refused(case: Case) -> None:
    op, others, attributes, message = case
    names = ["x", *("" if array is None else f"c{i}" for i, array in enumerate(others))]
    constants = {f"c{i}": array for i, array in enumerate(others) if array is not None}
    model = model_of([node(op, names, ["y"], **attributes)], {"x": SHAPE}, ["y"], constants)
    with pytest.raises(OnnxError, match=rf"node 'y' \({op}\): .*{re.escape(message)}"):
        import_model(model)


def test_images_of_an_empty_batch_are_resized() -> None:
    nodes = [node("Resize", ["x", "", "", "sizes"], ["y"])]
    model = model_of(nodes, {"x": (0, 4, 5, 5)}, ["y"], {"sizes": integers(0, 4, 10, 10)})
    assert "-> tensor<0x4x10x10xf32>" in str(import_model(model))
