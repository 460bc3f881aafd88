"""Inputs and outputs of models: by name, of sizes that calls bind, or as constants."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import model_of, node

from convir.api.compile import compile as convir_compile
from convir.dialects.diagnostics import DiagnosticError
from convir.runtime.dynamic import DynamicExecutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Z = np.ones((2, 3), np.float32)


def difference(**sizes: Any) -> Any:
    """A model that takes `x` and `input.1`, and gives `d` and `rest`."""
    shapes = {"x": X.shape, "input.1": Z.shape, **sizes}
    nodes = [node("Sub", ["x", "input.1"], ["d"]), node("Relu", ["d"], ["rest"])]
    return model_of(nodes, shapes, ["d", "rest"])


def names_of(executable: Any) -> list[list[str]]:
    return [[spec.name for spec in ends] for ends in (executable.inputs, executable.outputs)]


@pytest.mark.parametrize("sizes", [{}, {"x": ("n", 3)}], ids=["static", "dynamic"])
def test_inputs_by_name(sizes: dict[str, Any]) -> None:
    executable = convir_compile(difference(**sizes), device="host")
    assert isinstance(executable, DynamicExecutable) == bool(sizes)
    assert names_of(executable) == [["x", "input.1"], ["d", "rest"]]
    for d, rest in (
        executable(X, Z),
        executable(X, **{"input.1": Z}),
        executable(**{"input.1": Z}, x=X),
    ):
        np.testing.assert_array_equal(d, X - Z)
        np.testing.assert_array_equal(rest, np.maximum(X - Z, 0))


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((X, Z), {"x": X}, "the input 'x' is given twice"),
        ((X,), {}, "the program takes 2 arrays, not 1"),
        ((), {"x": X}, "the input 'input.1' is not given"),
        ((X,), {"z": Z}, "the program has no input called 'z'; it has 'x', 'input.1'"),
        ((X,), {"": Z}, "the program has no input called ''; it has 'x', 'input.1'"),
    ],
)
def test_names_that_do_not_fit(
    arguments: tuple[Any, ...], named: Mapping[str, Any], message: str
) -> None:
    executable = convir_compile(difference(), device="host")
    with pytest.raises((TypeError, ValueError), match=message):
        executable(*arguments, **named)


def test_text_has_no_names() -> None:
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    executable = convir_compile(text, device="host")
    assert names_of(executable) == [[""], [""]]
    with pytest.raises(TypeError, match="no input called 'x'; it has none"):
        executable(x=np.ones(2, np.float32))


def test_names_of_a_function_in_text() -> None:
    text = """
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32>
            attributes {convir.inputs = ["sound"], convir.outputs = ["same"]} {
          return %x : tensor<?xf32>
        }"""
    executable = convir_compile(text, device="host")
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(executable(sound=x), x)
    assert names_of(executable) == [["sound"], ["same"]]
    assert isinstance(executable, DynamicExecutable)
    assert names_of(executable.specialised((2,))) == [["sound"], ["same"]]


CONCATENATED = {"x": ("n", "n"), "z": (2, "n")}


def concatenation(*, rank: bool = True) -> Any:
    made = model_of([node("Concat", ["x", "z"], ["y"], axis=0)], CONCATENATED, ["y"])
    if not rank:
        made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def test_one_name_of_several_sizes() -> None:
    """It says nothing, neither at the call nor in `shapes`."""
    x, z = np.ones((3, 4), np.float32), np.zeros((2, 4), np.float32)
    executable = convir_compile(concatenation(), device="host")
    assert [str(spec) for spec in executable.inputs] == ["?x? float32", "2x? float32"]
    assert [str(spec) for spec in executable.outputs] == ["?x? float32"]
    np.testing.assert_array_equal(executable(z=z, x=x), np.concatenate([x, z]))
    assert executable(x[:1], z).shape == (3, 4)
    static = convir_compile(concatenation(), device="host", shapes=[x.shape, z.shape])
    np.testing.assert_array_equal(static(x, z), np.concatenate([x, z]))
    with pytest.raises(DiagnosticError, match="differ beside axis 0"):
        executable(x[:, :3].copy(), z)
    with pytest.raises(ValueError, match=r"argument 1 has shape \(3, 4\), the program's is 2x\?"):
        executable(x, x)


@pytest.mark.parametrize(("name", "rows"), [("?", "?"), ("n", "4"), ("-1", "?")])
def test_a_shape_binds_what_is_named(name: str, rows: str) -> None:
    nodes = [node("Concat", ["x", "z"], ["y"], axis=0)]
    made = model_of(nodes, {"x": ("rows", name), "z": (2, name)}, ["y"])
    executable = convir_compile(made, device="host", shapes=[None, (2, 4)])
    assert [str(spec) for spec in executable.inputs] == [f"?x{rows} float32", "2x4 float32"]
    assert executable(np.ones((3, 4), np.float32), np.ones((2, 4), np.float32)).shape == (5, 4)


def test_results_of_no_rank_need_shapes() -> None:
    with pytest.raises(DiagnosticError, match="output 'y' declares no shape: give the shapes of"):
        convir_compile(concatenation(rank=False), device="host")
    shapes = [(1, 4), (2, 4)]
    executable = convir_compile(concatenation(rank=False), device="host", shapes=shapes)
    assert executable.outputs[0].shape == (3, 4)


def test_open_sizes_of_a_file_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process neither imports the compiler nor onnx."""
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONVIR_PROGRAM_CACHE", raising=False)
    onnx.save(difference(x=("n", 3)), tmp_path / "net.onnx")
    script = f"""
import sys, numpy, convir
x = numpy.ones((2, 3), numpy.float32)
f = convir.compile({str(tmp_path / "net.onnx")!r}, device="host")
print(f.inputs[0].name, f(x=x, **{{"input.1": x}})[0].sum())
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"xdsl", "onnx"}}))
"""
    run = [sys.executable, "-c", script]
    outputs = [
        subprocess.run(run, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert outputs == ["x 0.0\n['onnx', 'xdsl']\n", "x 0.0\n[]\n"]


def test_a_file_that_is_written_is_not_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CONVIR_PROGRAM_CACHE", raising=False)
    path = tmp_path / "net.onnx"
    onnx.save(difference(x=("n", 3)), path)
    executable = convir_compile(path, device="host")
    np.testing.assert_array_equal(executable(X, Z)[0], X - Z)
    made = difference(x=("n", 3))
    made.graph.node[0].op_type = "Add"
    onnx.save(made, path)
    np.testing.assert_array_equal(executable(X, Z)[0], X - Z)
    with pytest.raises(DiagnosticError, match=r"net.onnx:0:0: error: was written since it was op"):
        executable(X[:1], Z)


def chosen(tmp_path: Path) -> Path:
    """A model of which an input says whether it adds or subtracts."""
    helper: Any = onnx.helper
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(op, ["x", "z"], ["r"])],
            name,
            [],
            [helper.make_tensor_value_info("r", 1, None)],
        )
        for name, op in (("then", "Add"), ("else", "Sub"))
    }
    nodes = [
        node("Equal", ["rate", "wanted"], ["is_so"]),
        node("If", ["is_so"], ["y"], **branches),
    ]
    made = model_of(
        nodes, {"x": X.shape, "z": Z.shape, "rate": ()}, ["y"], {"wanted": np.array(16000)}
    )
    made.graph.input[2].type.tensor_type.elem_type = 7
    onnx.save(made, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_values_choose_a_branch(tmp_path: Path) -> None:
    path = chosen(tmp_path)
    for value, expected in ((16000, X + Z), (np.array(8000), X - Z), (16000, X + Z)):
        executable = convir_compile(path, device="host", values={"rate": value})
        assert names_of(executable)[0] == ["x", "z"]
        assert len(executable.program.calls) == 1
        np.testing.assert_array_equal(executable(X, Z), expected)
    both = convir_compile(path, device="host")
    np.testing.assert_array_equal(both(X, Z, np.array(8000)), X - Z)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"sr": 1}, DiagnosticError, "there is no input 'sr'; there are 'x', 'z', 'rate'"),
        ({"rate": np.array(1.5)}, DiagnosticError, r"'rate' is int64\[\], its value float64\[\]"),
        ({"x": X[:1]}, DiagnosticError, r"input 'x' is float32\[2, 3\], its value float32\[1, 3\]"),
        ({"rate": "16000"}, TypeError, r"values\['rate'\] is a str, not an array"),
        ({3: X}, TypeError, "a name in values is 3, not text"),
        (3, TypeError, "values is 3, not a mapping from names of inputs to arrays"),
        ({"x": object()}, TypeError, r"values\['x'\] is an? object, not an array"),
    ],
)
def test_values_that_do_not_fit(
    tmp_path: Path, values: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises((error, TypeError), match=message):
        convir_compile(chosen(tmp_path), device="host", values=values)
