"""Constants in files: read by the reference and by executables, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as compile_module
from convir.dialects.context import read_module
from convir.dialects.conv_constant import digest_of
from convir.dialects.diagnostics import DiagnosticError
from convir.runtime.reference import EvaluationError, evaluate

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
