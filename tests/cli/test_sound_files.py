"""Sound through a neural amp model on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from nam_cases import random_model, wavenet_reference

from convir.cli.import_ import main as import_main
from convir.cli.run import main as run_main

if TYPE_CHECKING:
    from pathlib import Path

RATE = 48000
"""Frames a second that the random models are made for."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.nam"
    path.write_text(json.dumps(random_model(np.random.default_rng(3))))
    return path


def test_a_wav_file(model: Path, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed")
    x = np.random.default_rng(0).uniform(-1, 1, 256).astype(np.float32)
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(source, x, RATE, subtype="FLOAT")
    assert run_main([str(model), f"--input={source}", f"--output={target}"]) == 0
    y, rate = soundfile.read(target, dtype="float32")
    assert rate == RATE
    expected = wavenet_reference(json.loads(model.read_text()), x)
    np.testing.assert_allclose(y, expected, atol=1e-5 * max(1, np.abs(expected).max()))


def test_sound_of_another_rate_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed")
    source, target = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(source, np.zeros(8, np.float32), 44100, subtype="FLOAT")
    options = [f"--input={source}", f"--output={target}"]
    assert run_main([str(model), *options]) == 2
    message = "has 44100 frames a second, the model is made for 48000"
    assert message in capsys.readouterr().err
    assert not target.exists()
    content = json.loads(model.read_text())
    del content["sample_rate"]
    model.write_text(json.dumps(content))
    assert run_main([str(model), *options]) == 0
    assert soundfile.info(target).samplerate == 44100


def test_text_gives_what_the_stream_gives(model: Path, tmp_path: Path) -> None:
    """The module of one block, with histories of silence, on the reference."""
    x = np.random.default_rng(1).uniform(-1, 1, 64).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    outputs = [tmp_path / "y.npy", tmp_path / "again.npy"]
    for output in outputs:
        options = [f"--input=@{tmp_path / 'x.npy'}", f"--output=@{output}"]
        assert run_main([str(model), *options]) == 0
    y, again = (np.load(output) for output in outputs)
    np.testing.assert_array_equal(y, again)
    assert y.shape == (64,)


def test_import(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_main(["--input", "1x1x32", str(model)]) == 0
    text = capsys.readouterr().out
    assert "func.func @main(%x: tensor<1x1x32xf32>" in text
    assert "convir.states" in text
    assert import_main([str(model)]) == 2
    assert "a .nam model needs the shape of its block" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "has one --input and one --output"),
        (["--check", "--input=x.npy", "--output=y.npy"], "are not for streams"),
        (["--workspace-bytes=0", "--input=x.npy", "--output=y.npy"], "are not for streams"),
        (["--device=gpu", "--input=x.npy", "--output=y.npy"], "--device gpu: unknown device"),
        (["--input=none.npy", "--output=y.npy"], "none.npy: cannot be read"),
        (["--input=x.npy", "--output=y.wav"], "does not say how many frames a second"),
        (["--input=wide.npy", "--output=y.npy"], "has 2 channels, the model 1"),
        (["--input=double.npy", "--output=y.npy"], "is float64"),
    ],
)
def test_wrong_options(
    options: list[str],
    message: str,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(model.parent)
    np.save("x.npy", np.zeros(8, np.float32))
    np.save("wide.npy", np.zeros((2, 8), np.float32))
    np.save("double.npy", np.zeros(8))
    assert run_main([str(model), *options]) == 2
    assert message in capsys.readouterr().err
