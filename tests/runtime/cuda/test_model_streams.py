"""Neural amp models as streams on a GPU: a block is one replay of a graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gpu import cupy_or_skip
from nam_cases import MODELS, expected_of, heard, random_model, sound, wavenet_reference

from convir.api.stream import stream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

TOLERANCE = 2e-6
"""As on the host."""


@pytest.fixture(autouse=True)
def cupy() -> Any:
    return cupy_or_skip()


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_streams_of_any_blocks(path: Path) -> None:
    """A block of 7 frames leaves windows where no graph was captured."""
    x, expected = sound(), expected_of(path)
    model = stream(path, device="cuda")
    for sizes in ((64,), (2048,), (7, 64, 1, 500)):
        model.reset()
        y = heard(model, x[:3000], sizes, 3000)
        error = np.abs(y - expected[: len(y)]).max()
        assert error <= TOLERANCE * max(1.0, np.abs(expected).max()), sizes


@pytest.mark.parametrize("seed", range(4))
def test_random_models(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    content = random_model(np.random.default_rng(seed))
    path.write_text(json.dumps(content))
    x = np.random.default_rng(seed + 100).uniform(-1, 1, 320).astype(np.float32)
    expected = wavenet_reference(content, x)
    y = stream(path, device="cuda", frames=24).process(x).get()
    assert np.abs(y - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())


def test_arrays_of_both_devices(cupy: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.nam"
    path.write_text(json.dumps(random_model(np.random.default_rng(5))))
    model = stream(path, device="cuda", frames=8)
    x = np.random.default_rng(6).uniform(-1, 1, 50).astype(np.float32)
    y = model.process(x).get()
    model.reset()
    np.testing.assert_array_equal(model.process(cupy.asarray(x)).get(), y)
    model.reset()
    out = cupy.asarray(x)
    assert model.process(out, out=out) is out
    np.testing.assert_array_equal(out.get(), y)
