"""Constants in files: read by the reference and by executables, and checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as compile_module
from convir.dialects.context import read_module
from convir.dialects.conv.constant import digest_of
from convir.dialects.diagnostics import DiagnosticError
from convir.reference import EvaluationError, evaluate

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def module(file: Path, key: str = "w", digest: str = "", shape: str = "2x3") -> ModuleOp:
    digest = digest or digest_of(W.tobytes())
    return read_module(f"""
      func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
        %w = conv.constant #conv.blob<"{file}", "{key}", "{digest}"> : tensor<{shape}xf32>
        %e = tensor.empty() : tensor<{shape}xf32>
        %y = linalg.add ins(%x, %w : tensor<{shape}xf32>, tensor<{shape}xf32>)
                        outs(%e : tensor<{shape}xf32>) -> tensor<{shape}xf32>
        return %y : tensor<{shape}xf32>
      }}""")


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    path = tmp_path / "weights.npz"
    np.savez(path, w=W)
    return path


def test_reference_and_host_read_the_elements(npz: Path) -> None:
    x = np.ones((2, 3), np.float32)
    (expected,) = evaluate(module(npz), "main", [x])
    np.testing.assert_array_equal(expected, W + 1)
    compiled = compile_module(module(npz), device="host")
    np.testing.assert_array_equal(compiled(x), W + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "v"}, 'tensor "v" of .* does not exist'),
        ({"digest": digest_of(b"")}, "has changed"),
        ({"shape": "3x2"}, r"is float32\[2, 3\], not float32\[3, 2\]"),
        ({"file": Path("nowhere.npz")}, "cannot be read"),
        ({"file": Path(__file__)}, "is neither .onnx nor .npz"),
    ],
)
def test_what_is_not_as_the_module_says_is_an_error(
    npz: Path, change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"file": npz, **change}
    wrong = module(**arguments)
    x = np.ones((3, 2) if "shape" in change else (2, 3), np.float32)
    with pytest.raises(EvaluationError, match=message):
        evaluate(wrong, "main", [x])
    with pytest.raises(DiagnosticError, match=message):
        compile_module(wrong, device="host")


def refused(path: Path, key: str) -> str:
    """Why a program whose constants are in a file is not compiled: one error, with a place."""
    with pytest.raises(DiagnosticError) as caught:
        compile_module(module(path, key), device="host")
    with pytest.raises(EvaluationError, match=r"'conv.constant' op tensor"):
        evaluate(module(path, key), "main", [W])
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "recursion"),
        ('{"weights": 7}', "does not exist"),
        ('{"weights": [1, 2, 3]}', "does not exist"),
        ('{"weights": [1, 2, 3, 4, 5, "6"]}', "something else than numbers"),
        ('{"weights": [1, 2, 3, 4, 5, null]}', "something else than numbers"),
        ('{"weights": [1, 2, 3, 4, 5, [6]]}', "something else than numbers"),
        ('{"weights": [1, 2, 3, 4, 5, true]}', "something else than numbers"),
        ('{"weights": [1, 2, 3, 4, 5, 1e39]}', "a number that f32 does not"),
        ('{"weights": [1, 2, 3, 4, 5, NaN]}', "a number that f32 does not"),
        (f'{{"weights": [1, 2, 3, 4, 5, 1{"0" * 400}]}}', "cannot be read"),
    ],
)
def test_malformed_nam_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "model.nam"
    path.write_text(content)
    assert message in refused(path, "weights[0:6]")


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": 1, "dims": [2, 3], "raw_data": b"abc"},
        {"data_type": 1, "dims": [2, 3], "float_data": [1.0]},
        {"data_type": 1, "dims": [2**40, 2**40], "raw_data": b""},
        {"data_type": 99, "dims": [2, 3], "float_data": [1.0]},
        {"data_type": 0, "dims": [2, 3], "float_data": [1.0]},
        {"data_type": 8, "dims": [2, 3], "float_data": [1.0]},
    ],
)
def test_malformed_onnx_tensors(tmp_path: Path, fields: dict[str, Any]) -> None:
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    tensor = onnx.TensorProto(name="w", **fields)
    path.write_bytes(
        onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor])).SerializeToString()
    )
    assert "cannot be read" in refused(path, "w")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    os.mkfifo(path)
    assert "not a regular file" in refused(path, "weights[0:6]")


def test_bools_are_0_or_1(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    array = np.array([0, 1, 2], np.uint8).view(np.bool_)
    np.savez(path, w=array)
    wrong = read_module(f"""
      func.func @main() -> tensor<3xi1> {{
        %w = conv.constant #conv.blob<"{path}", "w", "{digest_of(array.tobytes())}"> : tensor<3xi1>
        return %w : tensor<3xi1>
      }}""")
    with pytest.raises(EvaluationError, match="a bool that is neither 0 nor 1"):
        evaluate(wrong, "main", [])
