"""What `convir.compile` takes a string for, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import model_of, node
from xdsl.utils.exceptions import PassFailedException

from convir.api.compile import compile as compile_module
from convir.dialects.diagnostics import DiagnosticError
from convir.passes import run

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
    opened = compile_module(model, device="host")
    model.graph.node[0].op_type = "Neg"  # which is no business of what was compiled
    np.testing.assert_array_equal(opened(x), np.maximum(x, 0))
    with pytest.raises(TypeError, match="the source is a GraphProto"):
        compile_module(model.graph, device="host")


LINE = "conv -n 1 -c 4 -H 5 -W 5 -k 6 -y 3 -x 3 -F 2"
NAMED = "func.func @{0}(%x: tensor<2xf32>) -> tensor<2xf32> {{ func.return %x : tensor<2xf32> }}"


def test_every_way_in_is_one_rule(tmp_path: Path) -> None:
    """Text, a path, a line and a module, for `compile` as for `run`."""
    module = run(LINE, ()).module
    text = str(module)
    path = tmp_path / "line.mlir"
    path.write_text(text)
    dy, w = np.ones((1, 6, 3, 3), np.float32), np.ones((6, 4, 3, 3), np.float32)
    results = [
        np.asarray(compile_module(given, device="host")(dy, w))
        for given in (LINE, f"./bin/MIOpenDriver {LINE}", text, path, str(path), module)
    ]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    rewritten = {
        str(run(given, "backward-data").module) for given in (LINE, text, path, str(path), module)
    }
    assert len(rewritten) == 1


def test_a_wrong_line_says_where() -> None:
    with pytest.raises(DiagnosticError, match=r"<line>:1:6: error: unknown option '--chanels'"):
        compile_module("conv --chanels 3", device="host")


def test_a_module_with_one_function_needs_no_name() -> None:
    assert compile_module(NAMED.format("f"), device="host").function == "f"
    private = NAMED.format("g").replace("func.func", "func.func private")
    both = f"module {{ {private}\n{NAMED.format('f')} }}"
    assert compile_module(both, device="host").function == "f"
    assert compile_module(both, device="host", function="g").function == "g"


def test_of_several_functions_one_is_named() -> None:
    both = f"module {{ {NAMED.format('f')}\n{NAMED.format('g')} }}"
    with pytest.raises(PassFailedException, match=r"no function @main; it has @f, @g; say which"):
        compile_module(both, device="host")
    with pytest.raises(PassFailedException, match=r"no function @h; it has @f, @g$"):
        compile_module(both, device="host", function="h")


def test_the_cpu_is_the_host(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("cpu", "host"):
        assert compile_module(NAMED.format("f"), device=name).device == "host"
    assert caplog.records == []


def test_what_is_compiled_says_what_it_is() -> None:
    named = compile_module(NAMED.format("f"), device="host")
    assert repr(named) == "<Executable @f on host: (2 float32) -> 2 float32>"
    dynamic = compile_module(NAMED.format("f").replace("2x", "?x"), device="host")
    assert repr(dynamic) == "<DynamicExecutable @f on host: (? float32) -> ? float32>"


def test_a_program_prints_without_its_constants() -> None:
    values = ", ".join(map(str, np.arange(0.5, 4096.5)))
    text = f"""
    func.func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {{
      %c = arith.constant dense<[{values}]> : tensor<4096xf32>
      %y = arith.addf %x, %c : tensor<4096xf32>
      func.return %y : tensor<4096xf32>
    }}
    """
    assert str(compile_module(text, device="host").program) == (
        "program @f: (4096 float32) -> 4096 float32\n"
        "  arena of 0 bytes\n"
        "  constant0: 4096 float32, 16,384 bytes\n"
        "  launch @f_0 (input0: 4096 float32, constant0: 4096 float32) -> output0: 4096 float32"
    )


def test_the_backward_weight_of_a_transposed_line_takes_what_the_line_says() -> None:
    """x is the line's input, dy the gradient of its output, and dw that of its filter."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    line = "conv -n 2 -c 4 -H 5 -W 5 -k 6 -y 3 -x 3 -u 2 -v 2 -m trans -F 4"
    x, w = torch.randn(2, 4, 5, 5), torch.randn(4, 6, 3, 3, requires_grad=True)
    y = torch.nn.functional.conv_transpose2d(x, w, stride=2)
    dy = torch.randn_like(y)
    y.backward(dy)
    torch.testing.assert_close(compile_module(line, device="host")(x, dy), w.grad)
    said = str(run(line, ()).module)
    assert "@main(%x: tensor<2x4x5x5xf32>, %dy: tensor<2x6x11x11xf32>)" in said
