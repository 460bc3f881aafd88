"""What is not installed is named by the extra that installs it."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from how_to import ROOT

from convir.cli.run import main
from convir.frontends.onnx.errors import OnnxError, onnx_library

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NAMED = re.compile(r"\[([a-z]+)\]'")


def test_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(OnnxError, match=r"'onnx' .*pip install 'convir\[onnx\]', which has onnx$"):
        onnx_library("onnx", "net.onnx")
    assert EXTRAS["onnx"][0].startswith("onnx>")


def test_sound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    model = tmp_path / "one.nam"
    model.write_text("{}")
    sound = tmp_path / "x.wav"
    sound.touch()
    assert main([str(model), f"--input=@{sound}", f"--output=@{tmp_path / 'y.wav'}"]) == 2
    error = capsys.readouterr().err
    assert "need the extra 'sound'" in error
    assert error.endswith("pip install 'convir[sound]', which has soundfile\n")
    assert EXTRAS["sound"][0].startswith("soundfile>")


def test_documents_name_extras_that_there_are() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    named = {name for path in documents for name in NAMED.findall(path.read_text())}
    assert {"cuda", "onnx", "sound"} <= named <= EXTRAS.keys()
    assert {"cuda", "docs", "onnx", "sound", "torch"} <= EXTRAS.keys()
