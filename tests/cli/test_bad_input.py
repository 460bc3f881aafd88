"""Nasty command lines and files: one clear error, and never a wrong result."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.fast

LINE = (
    *("conv", "-n", "1", "-c", "8", "-H", "9", "-W", "9", "-k", "12"),
    *("-y", "3", "-x", "3", "-F", "1"),
)

FUNCTION = """
func.func @main(%x: {0}) -> {0} {{
  func.return %x : {0}
}}
"""


def failure(tool: str, argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a tool that refuses `argv`."""
    main: Callable[[Sequence[str]], int] = import_module(f"convir.cli.{tool}").main
    status = main(argv)
    out, err = capsys.readouterr()
    assert (status in (1, 2), out) == (True, "")
    assert "defect of convir" not in err
    line, *shown = err.splitlines()
    assert not shown or shown[-1].strip() == "^"
    return line


def run(tmp_path: Path, element: str, value: str) -> tuple[int, Path]:
    """The status of `convir-run` on a function that returns its argument, and the result's file."""
    main: Any = import_module("convir.cli.run").main
    (tmp_path / "f.mlir").write_text(FUNCTION.format(element))
    target = tmp_path / "y.npy"
    return main([str(tmp_path / "f.mlir"), f"--input={value}", f"--output={target}"]), target


@pytest.mark.parametrize(
    ("element", "value"),
    [
        *(("i8", word) for word in ("300", "-129", "1.5", "nan", "1e3", "inf")),
        *(("i1", word) for word in ("2", "0.5", "-2")),
        *(("index", word) for word in ("1e3", "nan", str(2**64), str(-(2**63) - 1))),
        *(("i64", word) for word in ("9" * 30, "0x10")),
        *(("f32", word) for word in ("0x10", "9" * 5000)),
    ],
)
def test_numbers_that_a_type_does_not_hold(
    element: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(FUNCTION.format(element))
    line = failure("run", [str(path), f"--input={element}={value}"], capsys)
    assert (
        line
        == f"convir-run: error: --input={element}={value}: '{value}' is not a value of {element}"
    )


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [("i8", "255", -1), ("i8", "-128", -128), ("i1", "true", True), ("i1", "-1", True)],
)
def test_numbers_are_bits(element: str, value: str, expected: int, tmp_path: Path) -> None:
    status, target = run(tmp_path, element, f"{element}={value}")
    assert status == 0
    assert np.load(target) == expected


@pytest.mark.parametrize("shape", ["99999999999999999999x4", "9" * 5000, "x".join("1" * 70)])
def test_shapes_that_no_array_has(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(FUNCTION.format("tensor<4x4xf32>"))
    for fill in ("RANDOM", "ONES", "1"):
        line = failure("run", [str(path), f"--input={shape}xf32={fill}"], capsys)
        assert "there is no array of that shape" in line


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("dtype", [">f4", "<f4"])
def test_arrays_of_any_byte_order(dtype: str, order: Any, tmp_path: Path) -> None:
    x = np.arange(6).reshape(2, 3)
    np.save(tmp_path / "x.npy", x.astype(dtype, order=order))
    status, target = run(tmp_path, "tensor<2x3xf32>", f"@{tmp_path / 'x.npy'}")
    assert status == 0
    np.testing.assert_array_equal(np.load(target), x.astype(np.float32))


@pytest.mark.parametrize("dtype", [">u2", "<u2", ">i2"])
def test_bits_of_bf16_of_any_byte_order(dtype: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([0x3F80, 0x4000], dtype))
    status, target = run(tmp_path, "tensor<2xbf16>", f"@{tmp_path / 'x.npy'}")
    assert status == 0
    np.testing.assert_array_equal(np.load(target), [0x3F80, 0x4000])


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04garbage", b"\x93NUMPY\x01\x00\x05\x00{}", b"\x93NUMPY\x09\x09"]
)
def test_files_that_hold_no_array(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, array = tmp_path / "f.mlir", tmp_path / "x.npy"
    path.write_text(FUNCTION.format("tensor<2xf32>"))
    array.write_bytes(content)
    line = failure("run", [str(path), f"--input={array}"], capsys)
    assert "is not a .npy file that can be read" in line


@pytest.mark.parametrize(
    ("tool", "argv", "message"),
    [
        ("opt", ["--check-seed=-3"], "invalid natural number value: '-3'"),
        ("opt", ["/dev/null", "-p", "batch-gemms{workspace-bytes=-1}"], "workspace-bytes is -1"),
        ("bench", ["--budget", "nan", *LINE], "--budget more than 0"),
        ("bench", ["--seed", "-1", *LINE], "invalid natural number value: '-1'"),
        ("bench", ["--device", "cuda:x", *LINE], "there is no device 'cuda:x'"),
        ("bench", ["--device", "host:1", *LINE], "there is no device 'host:1'"),
        ("bench", ["--json", "-", *LINE], "- is the standard output"),
    ],
)
def test_options_that_make_no_sense(
    tool: str, argv: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failure(tool, argv, capsys)


def test_an_array_is_not_printed_among_the_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(FUNCTION.format("f32"))
    line = failure("run", [str(path), "--input=f32=1", "--output=-"], capsys)
    assert line.startswith("convir-run: error: - is the standard output")


@pytest.mark.parametrize(("tool", "argv"), [("opt", ["/dev/null"]), ("import_", LINE)])
def test_a_dash_is_the_standard_output(
    tool: str, argv: Sequence[str], tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main: Callable[[Sequence[str]], int] = import_module(f"convir.cli.{tool}").main
    assert main(["-o", "-", *argv]) == 0
    assert capsys.readouterr().out.startswith("builtin.module")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", ["host", "cuda"])
def test_a_size_that_nobody_bound(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(
        """
        func.func @main(%x: tensor<?x5x4xf32>, %w: tensor<6x3x4xf32>, %y: tensor<?x3x6xf32>)
            -> tensor<?x3x6xf32> {
          %r = linalg.generic {
              indexing_maps = [affine_map<(n, w, f, r, c) -> (n, w + r, c)>,
                               affine_map<(n, w, f, r, c) -> (f, r, c)>,
                               affine_map<(n, w, f, r, c) -> (n, w, f)>],
              iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
              ins(%x, %w : tensor<?x5x4xf32>, tensor<6x3x4xf32>) outs(%y : tensor<?x3x6xf32>) {
            ^bb0(%a: f32, %b: f32, %sum: f32):
              %m = arith.mulf %a, %b : f32
              %t = arith.addf %sum, %m : f32
              linalg.yield %t : f32
          } -> tensor<?x3x6xf32>
          return %r : tensor<?x3x6xf32>
        }
        """
    )
    line = failure("opt", [str(path), "--compile-to=planned", f"--device={device}"], capsys)
    assert line.endswith("error: sizes must be bound before lowering: tensor<?x5x4xf32>")


@pytest.mark.parametrize("dim", [2, -1, 2**32])
@pytest.mark.parametrize("argv", [["-p", "canonicalize,cse"], ["--pipeline=default"]])
def test_a_dimension_that_a_tensor_lacks(
    dim: int, argv: Sequence[str], tmp_path: Path, capsys: Any
) -> None:
    """It is undefined, and stays what it is."""
    path = tmp_path / "f.mlir"
    path.write_text(
        f"""
        func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {{
          %c = arith.constant {dim} : index
          %n = tensor.dim %x, %c : tensor<?x4xf32>
          %y = tensor.extract_slice %x[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
          return %y : tensor<?x4xf32>
        }}
        """
    )
    main: Any = import_module("convir.cli.opt").main
    assert main([str(path), *argv]) == 0
    assert "tensor.dim" in capsys.readouterr().out
