"""Models on the command line: imported to text whose weights stay where they are, and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx_cases import model_of, node

from convir.cli.import_ import main as import_main
from convir.cli.opt import main as opt_main
from convir.cli.run import main as run_main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution with a batch normalisation behind it, for any batch and height."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)}
    constants |= {name: rng.uniform(0.5, 1, 4).astype(np.float32) for name in "sbmv"}
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("BatchNormalization", ["c", *"sbmv"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    path = tmp_path / "net.onnx"
    onnx.save(model_of(nodes, {"x": ("batch", 3, "height", 6)}, ["y"], constants), path)
    return path


def test_text_in_another_folder_names_the_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ir"
    folder.mkdir()
    text, folded = folder / "net.mlir", folder / "folded.mlir"
    sizes = ["--size", "batch=2", "--size", "height=5"]
    assert import_main(["-o", str(text), *sizes, str(model)]) == 0
    assert '#conv.blob<"' in text.read_text()
    assert not (folder / "net.mlir.npz").exists()
    assert opt_main(["--pipeline", "default", "-o", str(folded), str(text)]) == 0
    assert "folded.mlir.npz holds 2 constants of 448 bytes" in capsys.readouterr().err
    assert '#conv.blob<"folded.mlir.npz"' in folded.read_text()
    results = [tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "c.npy"]
    inputs = "--input=2x3x5x6xf32=NORMAL"
    for file, output in zip((text, folded, model), results, strict=True):
        assert run_main([str(file), inputs, f"--output={output}"]) == 0
    first, second, third = (np.load(result) for result in results)
    np.testing.assert_array_equal(first, third)
    np.testing.assert_allclose(first, second, rtol=1e-5)  # The sums have another order.


def test_shapes_are_those_of_the_inputs(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main([str(model), "--device=host", "--input=1x3x4x6xf32=RANDOM", "--check"]) == 0
    assert "1x4x2x4xf32" in capsys.readouterr().out
    assert import_main(["--input=2x3x9x6", str(model)]) == 0
    assert "func.func @main(%x: tensor<2x3x9x6xf32>)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 1, "leaves the size of dimension 0 ('batch') open"),
        (["--size=batch=1"], 1, "leaves the size of dimension 2 ('height') open"),
        (["--input=1x4x5x6"], 1, "input 'x' has the size 3 in dimension 1, not 4"),
        (["--input=1x3x5"], 1, "input 'x' has rank 4"),
        (["--input=1x3x5x6", "--input=1"], 1, "2 shapes for 1 inputs"),
        (["--input=1x3xf32"], 2, "is not a shape"),
        (["--size=batch"], 2, "is not NAME=N"),
    ],
)
def test_wrong_sizes(
    model: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    assert import_main([*arguments, str(model)]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", ["no model", ""])
def test_what_is_no_model_is_one_error(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.onnx"
    path.write_text(content)
    assert import_main([str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{path}:0:0: error: is not an ONNX model: ")
    assert error.count("\n") == 1


def test_what_is_not_supported_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lstm.onnx"
    onnx.save(model_of([node("Det", ["x"], ["y"], name="d0")], {"x": (2, 2)}, ["y"]), path)
    assert import_main([str(path)]) == 1
    assert "node 'd0' (Det): the operator Det is not supported" in capsys.readouterr().err
    made = node("Conv", ["x", "x"], ["y"], name="c0", activation="Relu")
    onnx.save(model_of([made], {"x": (1, 1, 3, 3)}, ["y"]), path)
    assert import_main([str(path)]) == 1
    assert "node 'c0' (Conv): attribute 'activation' is not supported" in capsys.readouterr().err
