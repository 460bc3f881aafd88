"""Whole networks on the host against onnxruntime: ResNet-50, and the trained centerface."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import onnxruntime_results

from convir.api.compile import compile as compile_module
from convir.runtime.bench.peers.onnx_networks import MissingModelError, centerface, resnet50

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `peers`)")

CENTERFACE_SIZES = ((64, 96), (96, 128))
RESNET_SIZES = ((64, 64), (96, 64))

TOLERANCE = 2e-5
"""Of the largest output: sums of up to 4608 products in f32, some 50 layers deep."""


def check(model: Any, shape: tuple[int, ...], path: Path) -> None:
    """Outputs equal onnxruntime's, with the weights read from the model's file."""
    import_module("onnx").save(model, path)
    compiled = compile_module(path, device="host", shapes=[shape])
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    results = [compiled.empty(spec) for spec in compiled.outputs]
    compiled(x, out=results)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = onnxruntime_results(model, {model.graph.input[0].name: x})
    for result, wanted in zip(results, expected, strict=True):
        assert np.std(wanted) > 0
        largest = float(np.abs(wanted).max())
        np.testing.assert_allclose(result, wanted, rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize("size", CENTERFACE_SIZES)
def test_centerface(size: tuple[int, int], tmp_path: Path) -> None:
    try:
        model = centerface()
    except MissingModelError as error:
        pytest.skip(str(error))
    check(model, (1, 3, *size), tmp_path / "centerface.onnx")


@pytest.mark.parametrize("size", RESNET_SIZES)
def test_resnet50(size: tuple[int, int], tmp_path: Path) -> None:
    check(resnet50(), (1, 3, *size), tmp_path / "resnet50.onnx")
