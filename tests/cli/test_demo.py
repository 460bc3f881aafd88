"""The demo on a small file: costs, remarks, execution; and on a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.cli.demo import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SQUARE = """
func.func @main(%x: tensor<{n}x4xf32>) -> tensor<{n}x4xf32> {{
  %y = arith.mulf %x, %x : tensor<{n}x4xf32>
  return %y : tensor<{n}x4xf32>
}}
"""


def test_a_small_file_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "square.mlir"
    file.write_text(SQUARE.format(n=8))
    assert main([str(file)]) == 0
    out = capsys.readouterr().out
    assert "executed as it stands" in out
    assert "agrees: largest error 0, allowed 0 (bit for bit)" in out
    assert "no pass fired" in out


def test_a_large_file_runs_at_a_smaller_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "square.mlir"
    file.write_text(SQUARE.format(n=1 << 25))
    assert main([str(file)]) == 0
    assert f"instead of {1 << 25}, for time and memory" in capsys.readouterr().out


def test_a_wrong_file_is_one_line_and_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.mlir"
    file.write_text("func.func @main(")
    assert main([str(file)]) == 1
    assert "wrong.mlir:1:" in capsys.readouterr().out
