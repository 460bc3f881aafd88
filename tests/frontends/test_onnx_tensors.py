"""What a model declares of its tensors and values but does not hold is one error each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import model_of, node

from convir.api.compile import compile as compile_source
from convir.cli.import_ import main as import_main
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.fast

onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")

WEIGHTS = np.arange(4 * 4 * 3 * 3, dtype=np.float32).reshape(4, 4, 3, 3)


def convolution() -> Any:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])]
    return model_of(nodes, {"x": (1, 4, 5, 5)}, ["y"], {"w": WEIGHTS})


def weights(**fields: Any) -> Callable[[Any], None]:
    """Another value of fields of the model's one tensor."""

    def change(model: Any) -> None:
        tensor = model.graph.initializer[0]
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(tensor, name)[:]
                getattr(tensor, name).extend(value)
            else:
                setattr(tensor, name, value)

    return change


def attribute(**fields: Any) -> Callable[[Any], None]:
    """One more attribute of the convolution."""

    def change(model: Any) -> None:
        model.graph.node[0].attribute.add(**fields)

    return change


def inputs_twice(model: Any) -> None:
    model.graph.input.add().CopyFrom(model.graph.input[0])


def tensors_twice(model: Any) -> None:
    model.graph.initializer.add().CopyFrom(model.graph.initializer[0])


def outputs_twice(model: Any) -> None:
    model.graph.node[1].output[0] = "c"


def cycle(model: Any) -> None:
    model.graph.node[0].input[0] = "y"


def undefined(model: Any) -> None:
    model.graph.node[1].input[0] = "z"


def too_many(model: Any) -> None:
    model.graph.node[1].input.append("x")


def declared(size: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = size

    return change


def element(number: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.input[0].type.tensor_type.elem_type = number

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (weights(dims=[4, 4, 3, 4]), "tensor 'w': FLOAT[4, 4, 3, 4] takes 768 bytes, its data has"),
        (weights(dims=[-4, 4, 3, 3]), "tensor 'w': no tensor has the sizes [-4, 4, 3, 3]"),
        (weights(dims=[2**62, 2**62]), "tensor 'w': no address space holds a tensor of the sizes"),
        (weights(dims=[10**12]), "tensor 'w': FLOAT[1000000000000] takes 4000000000000 bytes"),
        (weights(dims=[1] * 70), "tensor 'w': no tensor has 70 dimensions"),
        (weights(data_type=99), "tensor 'w': has elements of the unknown type 99"),
        (weights(data_type=0), "tensor 'w': has elements of the unknown type 0"),
        (
            weights(data_type=11),
            "tensor 'w': DOUBLE[4, 4, 3, 3] takes 1152 bytes, its data has 576",
        ),
        (weights(int64_data=[1]), "tensor 'w': is of type FLOAT, but has int64_data"),
        (weights(raw_data=b""), "takes 576 bytes, its data has 0"),
        (weights(data_location=1), "tensor 'w': lies in another file"),
        (inputs_twice, "input 'x' is declared twice"),
        (tensors_twice, "initializer 'w' is declared twice"),
        (outputs_twice, "two nodes, or a node and the graph's inputs, give 'c'"),
        (cycle, "node 'c' (Conv): reads 'y', which nothing before it computes"),
        (undefined, "node 'y' (Relu): reads 'z', which nothing before it computes"),
        (too_many, "node 'y' (Relu): has 2 inputs"),
        (declared(-4), "'x' declares a size of -4"),
        (declared(-1), "input 'x' leaves the size of dimension 2 open"),
        (declared(2**62), "input 'x': no address space holds a tensor of the sizes"),
        (element(99), "input 'x' has elements of TensorProto type 99"),
        (attribute(name="group", type=2, i=0), "'group' is 0, not at least 1"),
        (attribute(name="pads", type=7, ints=[-1] * 4), "negative padding -1, -1"),
        (attribute(name="pads", type=7, ints=[2**40] * 4), "not all at most 2147483647"),
        (attribute(name="dilations", type=7, ints=[10**7] * 2), "does not fit a padded input"),
        (attribute(name="kernel_shape", type=7, ints=[3] * 10**6), "has 1000000 values, not 2"),
        (attribute(name="strides", type=1, f=2), "is of type FLOAT, not INTS"),
        (attribute(name="group", type=2, floats=[1]), "is of type INT, but has 'floats'"),
        (attribute(name="group"), "attribute 'group' is of the unknown type 0"),
        (attribute(name="auto_pad", type=3, s=b"\xff"), "holds a string that is not UTF-8"),
    ],
)
def test_one_error_says_what_is_wrong(change: Callable[[Any], None], message: str) -> None:
    model = convolution()
    change(model)
    with pytest.raises(OnnxError) as caught:
        import_model(model)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("parameter", [1, 2, 3, 4])
def test_parameters_are_as_many_as_channels(parameter: int) -> None:
    names = ["x", "s", "s", "s", "s"]
    names[parameter] = "t"
    constants = {"s": np.ones(4, np.float32), "t": np.ones(1, np.float32)}
    made = [node("BatchNormalization", names, ["y"])]
    with pytest.raises(OnnxError, match=rf"input #{parameter} has the shape \[1\], not \[4\]"):
        import_model(model_of(made, {"x": (1, 4, 5, 5)}, ["y"], constants))


def test_a_range_is_not_made_before_it_is_known_to_be_short() -> None:
    constants = {name: np.array(n, np.int64) for name, n in (("a", 0), ("b", 10**14), ("c", 1))}
    made = [node("Range", ["a", "b", "c"], ["r"]), node("Reshape", ["x", "r"], ["y"])]
    with pytest.raises(OnnxError, match=r"node 'r' \(Range\)"):
        import_model(model_of(made, {"x": (1, 4)}, ["y"], constants))


def test_constants_are_filled_in_without_being_made() -> None:
    constants = {"n": np.array([10**6, 10**6], np.int64)}
    made = [node("ConstantOfShape", ["n"], ["c"]), node("ReduceMax", ["c"], ["y"], keepdims=1)]
    model = model_of(made, {"x": (1, 4)}, ["y"], constants)
    assert "tensor<1000000x1000000xf32>" in str(import_model(model))
    constants = {"n": np.array([10**8, 10**8], np.int64)}
    with pytest.raises(OnnxError, match="no address space holds"):
        import_model(model_of(made, {"x": (1, 4)}, ["y"], constants))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model whose weights lie in a file beside it."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "outside.bin").write_bytes(WEIGHTS.tobytes())
    (inner / "w.bin").write_bytes(bytes(8) + WEIGHTS.tobytes())
    (inner / "short.bin").write_bytes(WEIGHTS.tobytes()[:-1])
    return inner


def saved(folder: Path, **entries: str) -> Path:
    """A model in `folder` whose tensor says so of the file that holds it."""
    model = convolution()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_beside_a_model_are_read(folder: Path) -> None:
    path = saved(folder, location="w.bin", offset="8", length="576")
    x = np.ones((1, 4, 5, 5), np.float32)
    there = compile_source(path, device="host")(x)
    np.testing.assert_array_equal(there, compile_source(convolution(), device="host")(x))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "short.bin"}, "takes 576 bytes, and has 575 in 'short.bin'"),
        ({"location": "short.bin", "length": "576"}, "takes bytes 0 to 576 of 'short.bin' of 575"),
        ({"location": "w.bin", "length": "575"}, "takes 576 bytes, and has 575 in 'w.bin'"),
        ({"location": "w.bin", "offset": "9", "length": "576"}, "takes bytes 9 to 585"),
        ({"location": "w.bin", "offset": str(2**62), "length": "576"}, "takes bytes 4611686018"),
        ({"location": "w.bin", "offset": "-1"}, "has the offset '-1' in another file"),
        ({"location": "w.bin", "length": "9" * 99}, "has the length '999"),
        ({"location": "../outside.bin"}, "'../outside.bin' is not in the folder of the model"),
        ({"location": "/dev/zero"}, "'/dev/zero' is not in the folder of the model"),
        ({"location": ""}, "'' is not in the folder of the model"),
        ({"location": "none.bin"}, "'none.bin' is not a file in the folder of the model"),
        ({"location": "fifo"}, "'fifo' is not a file in the folder of the model"),
        ({}, "is not in the folder of the model"),
    ],
)
def test_files_that_do_not_hold_the_weights(
    entries: dict[str, str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(folder / "fifo")
    path = saved(folder, **entries)
    with pytest.raises(OnnxError, match=r"tensor 'w': "):
        compile_source(path, device="host")
    assert import_main([str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}:0:0: error: tensor 'w': ")
    assert message in line
