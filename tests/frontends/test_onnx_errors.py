"""Nodes that mean nothing: one error each, which names the node and what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx_cases import Array, model_of, node

from convir.frontends.elements import MEMORY, constant
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model
from convir.frontends.onnx.ops.tables import check_table
from convir.frontends.onnx.signatures import signatures

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
    "order": ("Transpose", (), {"perm": [0, 0, 1, 2]}, "'perm' [0, 0, 1, 2] is not an order"),
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
    "operands of two types": (
        *("Add", (np.ones(SHAPE, np.float64),), {}),
        "its inputs are of f32 and of f64",
    ),
    "a bound of two numbers": ("Clip", (scales(0, 1),), {}, "is not a single number"),
    "a list of lists": ("Squeeze", (np.ones((1, 1), np.int64),), {}, "is not a list of integers"),
    "a list of numbers": ("Squeeze", (scales(0),), {}, "is not a list of integers"),
    "an attribute too many": (
        *("Conv", (WEIGHTS,), {"auto_pad": "SAME"}),
        "'auto_pad' is 'SAME'; supported are",
    ),
    "a size too large": (
        *("MaxPool", (), {"kernel_shape": [2, 2], "strides": [2**31, 1]}),
        "not all at most 2147483647",
    ),
    "groups too many": ("Conv", (WEIGHTS,), {"group": 2**31}, "not at most 2147483647"),
    "an input missing": ("Conv", (), {}, "has 1 inputs"),
    "an input left out": ("Conv", (None, scales(1)), {}, "input #1 is missing"),
    "outputs that are not there": ("Dropout", (), {"outputs": 3}, "has 3 outputs"),
    "a result that is not computed": (
        *("MaxPool", (), {"kernel_shape": [2, 2], "outputs": 2}),
        "output #1 is not supported",
    ),
    "taps of another filter": (
        *("Conv", (WEIGHTS,), {"kernel_shape": [3, 2]}),
        "'kernel_shape' is [3, 2], its filter has [3, 3]",
    ),
    "channels of another filter": (
        *("Conv", (WEIGHTS,), {"group": 2}),
        "filter [4, 4, 3, 3] with 2 groups does not fit the input's 4 channels",
    ),
    "filters in no groups": (
        *("Conv", (np.ones((3, 2, 3, 3), np.float32),), {"group": 2}),
        "filter [3, 2, 3, 3] with 2 groups does not fit the input's 4 channels",
    ),
    "taps of another filter of a transposed one": (
        *("ConvTranspose", (WEIGHTS,), {"kernel_shape": [3, 2]}),
        "'kernel_shape' is [3, 2], its filter has [3, 3]",
    ),
    "channels of another filter of a transposed one": (
        *("ConvTranspose", (np.ones((3, 4, 3, 3), np.float32),), {}),
        "filter [3, 4, 3, 3] with 1 groups does not fit the input's 4 channels",
    ),
    "a transposed one in no groups": (
        *("ConvTranspose", (WEIGHTS,), {"group": 3}),
        "filter [4, 4, 3, 3] with 3 groups does not fit the input's 4 channels",
    ),
    "a result of no size": (
        *("ConvTranspose", (WEIGHTS,), {"pads": [4, 0, 3, 0]}),
        "dimension 0 of its result would have the size 0",
    ),
    "a filter of another rank": (
        *("Conv", (np.ones((4, 4, 3), np.float32),), {}),
        "does not go with a filter of tensor<4x4x3xf32>",
    ),
    "operands that are no matrices": ("Gemm", (WEIGHTS,), {}, "its operands are matrices"),
    "a product with a scalar": (
        *("MatMul", (np.ones((), np.float32),), {}),
        "a scalar has no matrix product",
    ),
    "rows of another number": (
        *("MatMul", (np.ones((4, 5), np.float32),), {}),
        "its operands have 5 columns and 4 rows",
    ),
    "batches of another number": (
        *("MatMul", (np.ones((3, 5, 5), np.float32),), {}),
        "shape mismatch",
    ),
    "parameters of another number": (
        *("BatchNormalization", (scales(1, 1, 1),) * 4, {}),
        "has the shape [3], not [4]",
    ),
    "parameters of another type": (
        *("BatchNormalization", (np.ones(4, np.float64),) * 4, {}),
        "its parameters are of f64, its input of f32",
    ),
    "training": (
        *("BatchNormalization", (scales(1, 1, 1, 1),) * 4, {"training_mode": 1}),
        "only inference with one scale per channel is supported",
    ),
    "channels in no groups": (
        *("GroupNormalization", (scales(1, 1, 1), scales(1, 1, 1)), {"num_groups": 3}),
        "4 channels are no 3 groups",
    ),
    "statistics of integers": (
        *("LayerNormalization", (scales(1, 1, 1, 1, 1),), {"stash_type": 7}),
        "'stash_type' is 7, not a float type",
    ),
    "ends of a region": (
        "Resize",
        (scales(0, 0, 1), None, integers(1, 4, 5, 5)),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "3 ends of a region for 4 axes",
    ),
    "ends that are not finite": (
        "Resize",
        (scales(0, 0, 0, 0, 1, 1, 1, np.inf), None, integers(1, 4, 5, 5)),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "of a region are not all finite",
    ),
    "a dimension squeezed": (
        *("Squeeze", (integers(1),), {}),
        "axes [1] of [1, 4, 5, 5] are not all of size 1",
    ),
    "sizes beside the axis": (
        *("Concat", (WEIGHTS,), {"axis": 1}),
        "tensor<1x4x5x5xf32> and tensor<4x4x3x3xf32> differ beside axis 1",
    ),
    "elements of another type": (
        *("Concat", (np.ones(SHAPE, np.float64),), {"axis": 1}),
        "tensor<1x4x5x5xf32> and tensor<1x4x5x5xf64> differ beside axis 1",
    ),
    "parts of another sum": (
        *("Split", (integers(1, 2),), {"axis": 1, "outputs": 2}),
        "the sizes [1, 2] do not make up 4",
    ),
    "parts of another number": (
        *("Split", (integers(1, 3),), {"axis": 1, "outputs": 3}),
        "2 sizes for 3 outputs",
    ),
    "padding of other axes": (
        *("Pad", (integers(1, 1), None, integers(0, 1)), {}),
        "2 amounts of padding for 2 axes",
    ),
    "a mirror image that is too wide": (
        *("Pad", (integers(0, 0, 5, 0, 0, 0, 0, 0),), {"mode": "reflect"}),
        "padding 5, 0 of a dimension of size 5",
    ),
    "an image around it that is too wide": (
        *("Pad", (integers(0, 0, 0, 0, 0, 0, 6, 0),), {"mode": "wrap"}),
        "padding 0, 6 of a dimension of size 5",
    ),
    "a mirror image that is cut": (
        *("Pad", (integers(0, 0, 0, 0, 0, 0, -1, 0),), {"mode": "edge"}),
        "padding 0, -1 of a dimension of size 5",
    ),
    "floats to unsigned integers": (
        *("Cast", (), {"to": 2}),
        "from f32 to TensorProto type 2 is not supported",
    ),
    "channels of no blocks": (
        *("DepthToSpace", (), {"blocksize": 3}),
        "4 channels are no blocks of 3 x 3",
    ),
    "rows of no blocks": (
        *("SpaceToDepth", (), {"blocksize": 2}),
        "images of 5 x 5 are no blocks of 2 x 2",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nodes_are_refused(case: Case) -> None:
    op, others, given, message = case
    attributes = {name: value for name, value in given.items() if name != "outputs"}
    outputs = ["y", *(f"y{i}" for i in range(1, given.get("outputs", 1)))]
    names = ["x", *("" if array is None else f"c{i}" for i, array in enumerate(others))]
    constants = {f"c{i}": array for i, array in enumerate(others) if array is not None}
    model = model_of([node(op, names, outputs, **attributes)], {"x": SHAPE}, outputs, constants)
    with pytest.raises(OnnxError, match=rf"node 'y' \({op}\): .*{re.escape(message)}"):
        import_model(model)


def test_images_of_an_empty_batch_are_resized() -> None:
    nodes = [node("Resize", ["x", "", "", "sizes"], ["y"])]
    model = model_of(nodes, {"x": (0, 4, 5, 5)}, ["y"], {"sizes": integers(0, 4, 10, 10)})
    assert "-> tensor<0x4x10x10xf32>" in str(import_model(model))


@pytest.mark.parametrize("shape", [(1, -4, 5, 5), (1, 4.5, 5, 5)])
def test_shapes_that_are_given_are_sizes(shape: tuple[Any, ...]) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": SHAPE}, ["y"])
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        OnnxError, match=rf"input 'x' is given the shape {re.escape(str([*shape]))}"
    ):
        import_model(model, shapes=[shape])


def test_a_shape_is_needed() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": SHAPE}, ["y"])
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(OnnxError, match="input 'x' has no shape: give it one"):
        import_model(model)


def test_graphs_without_results_are_no_models() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": SHAPE}, [])
    with pytest.raises(OnnxError, match="is not an ONNX model: its graph has no outputs"):
        import_model(model)


def test_results_that_nothing_computes() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": SHAPE}, ["z"])
    with pytest.raises(OnnxError, match="nothing computes the output 'z'"):
        import_model(model)


def test_operands_that_nothing_computes() -> None:
    model = model_of([node("Relu", ["z"], ["y"])], {"x": SHAPE}, ["y"])
    with pytest.raises(OnnxError, match="reads 'z', which nothing before it computes"):
        import_model(model)


FOLDED: dict[str, tuple[str, tuple[Array, ...], dict[str, Any], list[int]]] = {
    "all of a shape": ("Shape", (), {}, [1, 4, 5, 6]),
    "a shape's end": ("Shape", (), {"start": 2}, [5, 6]),
    "a shape's part": ("Shape", (), {"start": 1, "end": 3}, [4, 5]),
    "a size": ("Size", (), {}, [120]),
    "equal sizes": ("Add", (integers(1), integers(2)), {}, [3]),
}
"""The operator, its inputs (`x` if there are none), its attributes, and its elements."""


@pytest.mark.parametrize("case", FOLDED.values(), ids=FOLDED)
def test_shapes_are_computed_on_import(
    case: tuple[str, tuple[Array, ...], dict[str, Any], list[int]],
) -> None:
    """What is known of a shape is what another operator is told."""
    op, given, attributes, elements = case
    constants = {f"c{index}": array for index, array in enumerate(given)}
    nodes = [
        node(op, list(constants) or ["x"], ["sizes"], **attributes),
        node("Reshape", ["sizes", "list"], ["shape"]),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Relu", ["zeros"], ["y"]),
    ]
    constants["list"] = integers(-1)
    module = import_model(model_of(nodes, {"x": (1, 4, 5, 6)}, ["y"], constants))
    assert f"-> tensor<{'x'.join(map(str, elements))}xf32>" in str(module)


SAME: dict[str, tuple[str, tuple[Array | None, ...], dict[str, Any]]] = {
    "a cast to the same type": ("Cast", (), {"to": 1}),
    "a name": ("Identity", (), {}),
    "a part that is all": ("Slice", (integers(0), integers(9), integers(1)), {}),
    "a resizing to the same size": ("Resize", (None, None, integers(*SHAPE)), {}),
    "one part": ("Concat", (), {"axis": 1}),
    "padding by nothing": ("Pad", (integers(*[0] * 8),), {}),
    "the same order": ("Transpose", (), {"perm": [0, 1, 2, 3]}),
    "the same shape": ("Reshape", (integers(1, -1, 5, 5),), {}),
    "no bounds": ("Clip", (), {}),
}
"""The operator, its inputs behind the first one, and its attributes."""


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_what_changes_nothing_is_no_op(
    case: tuple[str, tuple[Array | None, ...], dict[str, Any]],
) -> None:
    op, others, attributes = case
    names = ["x", *("" if array is None else f"c{i}" for i, array in enumerate(others))]
    constants = {f"c{i}": array for i, array in enumerate(others) if array is not None}
    nodes = [node(op, names, ["y"], **attributes)]
    module = import_model(model_of(nodes, {"x": SHAPE}, ["y"], constants))
    names = [op.name for op in module.walk() if op.name != "arith.constant"]
    assert names == ["builtin.module", "func.func", "func.return"]


def test_places_are_the_names_of_nodes() -> None:
    nodes = [node("Abs", ["x"], ["a"]), node("Abs", ["a"], ["y"])]
    nodes[0].name = "first"
    module = import_model(model_of(nodes, {"x": SHAPE}, ["y"]))
    places = [str(op.location) for op in module.walk() if op.name == "linalg.generic"]
    assert ["first" in place for place in places] == [True, False]
    assert ["Abs" in place for place in places] == [False, True]


def test_elements_that_the_ir_has_no_type_for() -> None:
    with pytest.raises(TypeError, match=r"^elements of type complex64$"):
        constant(np.zeros(2, np.complex64), MEMORY, None)
    assert str(constant(np.full((), 2, np.float32), MEMORY, None).results[0].type) == "tensor<f32>"


def test_tables_are_bounded() -> None:
    check_table(2**25)
    for entries in (2**25 + 1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="entries, more than 33554432"):
            check_table(entries)


def test_operators_of_other_domains_have_no_signature() -> None:
    assert {"Conv", "Resize"} <= signatures().keys()
    assert not {"LabelEncoder", "Gradient"} & signatures().keys()


@pytest.mark.parametrize(
    ("count", "file", "key", "text"),
    [
        (16, "a.onnx", "w", "arith.constant dense<1.0"),
        (17, "a.onnx", "w", 'conv.constant #conv.blob<"a.onnx", "w"'),
        (17, "a.onnx", None, "conv.constant dense<1.0"),
        (16, MEMORY, "w", "arith.constant dense<1.0"),
        (17, MEMORY, "w", "conv.constant dense<1.0"),
    ],
)
def test_only_small_constants_stand_in_the_text(
    count: int, file: str, key: str | None, text: str
) -> None:
    assert text in str(constant(np.ones(count, np.float32), file, key))


@pytest.mark.parametrize("attributes", [{}, {"axes": [0, 1]}])
def test_old_slices_take_every_element(attributes: dict[str, Any]) -> None:
    nodes = [node("Slice", ["x"], ["y"], starts=[1, -3], ends=[3, 9], **attributes)]
    module = import_model(model_of(nodes, {"x": (4, 5)}, ["y"], opset=9))
    (part,) = (op for op in module.walk() if op.name == "tensor.extract_slice")
    assert "[1, 2] [2, 3] [1, 1] : tensor<4x5xf32> to tensor<2x3xf32>" in str(part)
