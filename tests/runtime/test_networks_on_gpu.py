"""Whole networks on a GPU, each under one CUDA graph: outputs equal the network's in PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as compile_module
from convir.runtime.bench.onnx_networks import NETWORKS, MissingModelError, in_element_type
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

TOLERANCE = 2e-5
"""Of the largest output, in f32: sums of up to 4608 products, some 50 layers deep."""
F16_SLACK = 2.0
"""Times what PyTorch's own network in f16 differs from the one in f32: both round every layer."""


@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [("centerface", (1, 3, 96, 128)), ("resnet50", (2, 3, 96, 64))],
)
def test_one_graph(name: str, shape: tuple[int, ...], element: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    try:
        toolkit.require_gpu(0)
        model = in_element_type(NETWORKS[name](), element)
    except (toolkit.NoGpuError, MissingModelError) as error:
        pytest.skip(str(error))
    from convir.runtime.bench.torch_network import TorchNetwork  # noqa: PLC0415

    torch.backends.cudnn.allow_tf32 = False
    path = tmp_path / "net.onnx"
    import_module("onnx").save(model, path)
    cupy = toolkit.cupy()
    graph = compile_module(path, device="cuda", shapes=[shape]).graph()
    (image,) = graph.inputs
    x = np.random.default_rng(1).standard_normal(shape).astype(image.dtype)
    for output in graph.outputs:
        output.fill(np.nan)
    image[...] = cupy.asarray(x)
    graph.replay()
    results = [cupy.asnumpy(output) for output in graph.outputs]
    reference = TorchNetwork(NETWORKS[name](), "cuda")(torch.from_numpy(x).float().cuda())
    peer = TorchNetwork(model, "cuda")(torch.from_numpy(x).cuda())
    for result, wanted, theirs in zip(results, reference, peer, strict=True):
        expected = wanted.cpu().numpy()
        assert np.std(expected) > 0
        atol = TOLERANCE * float(np.abs(expected).max())
        if element == "f16":
            atol = F16_SLACK * float((theirs.float() - wanted).abs().max())
        np.testing.assert_allclose(result.astype(np.float32), expected, rtol=0, atol=atol)
