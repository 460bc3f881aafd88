"""The demo on a small file: costs, remarks, execution; and on a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from convir.cli.demo import EXAMPLES, main
from convir.cli.reports.demo_picture import Measure

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SVG = "{http://www.w3.org/2000/svg}"
SQUARE = """
func.func @main(%x: tensor<{n}x4xf32>) -> tensor<{n}x4xf32> {{
  %y = arith.mulf %x, %x : tensor<{n}x4xf32>
  return %y : tensor<{n}x4xf32>
}}
"""


def test_a_small_file_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "square.mlir"
    file.write_text(SQUARE.format(n=8))
    picture = tmp_path / "demo.svg"
    assert main([str(file), "-o", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "executed as it stands" in out
    assert "agrees: largest error 0, allowed 0 (bit for bit)" in out
    assert "no pass fired" in out
    assert "as before" in out
    assert f"the same as a picture: {picture}" in out.replace("\n", "")
    texts = [text.text for text in ElementTree.parse(picture).iter(f"{SVG}text")]
    assert texts[:2] == ["square.mlir", "GFLOP: as before"]
    assert texts[-1] == "checked: agrees: largest error 0, allowed 0 (bit for bit)"


def test_a_large_file_runs_at_a_smaller_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "square.mlir"
    file.write_text(SQUARE.format(n=1 << 25))
    assert main([str(file), "-o", str(tmp_path / "demo.svg")]) == 0
    assert f"instead of {1 << 25}, for time and memory" in capsys.readouterr().out


def test_a_wrong_file_is_one_line_and_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.mlir"
    file.write_text("func.func @main(")
    assert main([str(file), "-o", str(tmp_path / "demo.svg")]) == 1
    assert "wrong.mlir:1:" in capsys.readouterr().out


def test_more_and_less_are_said_in_words() -> None:
    words = ("fewer", "more")
    assert Measure("MB", 300, 75, ".0f", words).change == "4.0x fewer"
    assert Measure("MB", 1544, 2469, ".0f", words).change == "1.6x more"
    assert Measure("MB", 5, 5, ".0f", words).change == "as before"
    assert Measure("MB", 0, 5, ".0f", words).change == "as before"


def test_the_picture_shows_where_the_zeros_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "demo.svg"
    assert main([str(EXAMPLES / "backward_data_1x1.mlir"), "-o", str(picture)]) == 0
    assert "4.0x fewer" in capsys.readouterr().out
    texts = [text.text for text in ElementTree.parse(picture).iter(f"{SVG}text")]
    assert "48 of 64 positions are zeros" in texts
    assert "GFLOP: 4.0x fewer" in texts
