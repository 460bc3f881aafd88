"""What `convir.compile` takes a string for, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import model_of, node

from convir.api.compile import compile as compile_module
from convir.dialects.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

TEXT = (
    "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ {0} func.return %x : tensor<2xf32> }}"
)


def test_one_line_that_is_longer_than_any_path() -> None:
    ops = " ".join(f"%{i} = arith.addf %x, %x : tensor<2xf32>" for i in range(200))
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(compile_module(TEXT.format(ops), device="host")(x), x)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    for given in (tmp_path / "none.mlir", str(tmp_path / "none.mlir"), tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=r"none"):
            compile_module(given, device="host")


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads(threads: int) -> None:
    with pytest.raises(ValueError, match=f"threads is {threads}, not at least 1"):
        compile_module(TEXT.format(""), device="host", threads=threads)


def test_a_masked_array_is_refused() -> None:
    program = compile_module(TEXT.format(""), device="host")
    masked = np.ma.masked_array(np.ones(2, np.float32), mask=[True, False])
    with pytest.raises(TypeError, match="argument 0 is a masked array"):
        program(masked)


@pytest.mark.parametrize("given", [None, b"module {}", 3, [], object()])
def test_what_is_no_source(given: Any) -> None:
    with pytest.raises(TypeError, match=f"the source is a {type(given).__name__}, not text"):
        compile_module(given, device="host")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"specialisations": -1}, "specialisations is -1, not at least 1"),
        ({"specialisations": 1.5}, "specialisations is 1.5, not an integer"),
        ({"threads": float("nan")}, "threads is nan, not an integer"),
        ({"threads": True}, "threads is True, not an integer"),
        ({"threads": "2"}, "threads is a str, not an integer"),
        ({"workspace_bytes": -1}, "workspace_bytes is -1, not at least 0"),
        ({"workspace_bytes": 1e9}, "workspace_bytes is 1000000000.0, not an integer"),
        ({"device": None}, "device is None, not the name of a device"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
        ({"pipeline": None}, "pipeline is None, neither text nor a sequence of passes"),
        ({"pipeline": ["cse"]}, "pipeline is a list, neither text nor a sequence of passes"),
        ({"function": 3}, "function is 3, not the name of a function"),
        ({"size": float("nan")}, "size is nan, not from 0 to 1"),
        ({"size": "small"}, "size is a str, not a number"),
        ({"shapes": [(1, -1)]}, r"a size of shapes\[0\] is -1, not at least 0"),
        ({"shapes": [(1, "n")]}, r"a size of shapes\[0\] is a str, not an integer"),
        ({"shapes": 3}, "shapes is 3, not a sequence of shapes"),
        ({"allow_tf32": 1}, "allow_tf32 is 1, not True or False"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    given: Any = {"device": "host", **options}
    with pytest.raises((TypeError, ValueError), match=message):
        compile_module(TEXT.format(""), **given)


def test_a_model_in_memory() -> None:
    pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")
    model = model_of([node("Relu", ["x"], ["y"])], {"x": ("n", 2)}, ["y"])
    program = compile_module(model, device="host", shapes=[(1, 2)])
    x = np.array([[-1, 2]], np.float32)
    np.testing.assert_array_equal(program(x), np.maximum(x, 0))
    with pytest.raises(DiagnosticError, match="leaves the size of dimension 0"):
        compile_module(model, device="host")
    with pytest.raises(TypeError, match="the source is a GraphProto"):
        compile_module(model.graph, device="host")
