"""Whole networks on a GPU, each under one CUDA graph: outputs equal the network's in PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as compile_module
from convir.runtime.bench.peers.onnx_networks import NETWORKS, MissingModelError, in_element_type
from convir.runtime.cuda import toolkit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.gpu

TOLERANCE = 2e-5
"""Of the largest output, in f32: sums of up to 4608 products, some 50 layers deep."""
F16_SLACK = 2.0
"""Times what PyTorch's own network in f16 differs from the one in f32: both round every layer."""
F16_RMS_SLACK = 1.25
"""The same for the root mean square, which has no luck in it."""
F16_DRAWS = 16
"""Inputs in f16. The largest error of one is decided by how a single score of the classifier was
rounded: half of its last bit is 0.4 % of a probability, on either side or on none."""


SHAPES = {"centerface": (1, 3, 96, 128), "resnet50": (2, 3, 96, 64)}


def answers(name: str, element: str, draws: int, folder: Path) -> Iterator[list[list[Any]]]:
    """For each random image: the outputs of one graph, PyTorch's in f32, and PyTorch's own."""
    torch: Any = pytest.importorskip("torch")
    try:
        toolkit.require_gpu(0)
        model = in_element_type(NETWORKS[name](), element)
    except (toolkit.NoGpuError, MissingModelError) as error:
        pytest.skip(str(error))
    from convir.runtime.bench.peers.torch_network import TorchNetwork  # noqa: PLC0415

    torch.backends.cudnn.allow_tf32 = False
    path = folder / "net.onnx"
    import_module("onnx").save(model, path)
    cupy = toolkit.cupy()
    graph = compile_module(path, device="cuda", shapes=[SHAPES[name]]).graph()
    (image,) = graph.inputs
    reference = TorchNetwork(NETWORKS[name](), "cuda")
    peer = TorchNetwork(model, "cuda")
    for seed in range(draws):
        x = np.random.default_rng(seed).standard_normal(SHAPES[name]).astype(image.dtype)
        for output in graph.outputs:
            output.fill(np.nan)
        image[...] = cupy.asarray(x)
        graph.replay()
        given = torch.from_numpy(x).cuda()
        yield [
            [cupy.asnumpy(output).astype(np.float32) for output in graph.outputs],
            [output.cpu().numpy() for output in reference(given.float())],
            [output.float().cpu().numpy() for output in peer(given)],
        ]


@pytest.mark.parametrize("name", SHAPES)
def test_one_graph_in_f32(name: str, tmp_path: Path) -> None:
    for results, expected, _ in answers(name, "f32", 1, tmp_path):
        for result, wanted in zip(results, expected, strict=True):
            assert np.std(wanted) > 0
            atol = TOLERANCE * float(np.abs(wanted).max())
            np.testing.assert_allclose(result, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("name", SHAPES)
def test_one_graph_in_f16(name: str, tmp_path: Path) -> None:
    drawn = list(answers(name, "f16", F16_DRAWS, tmp_path))
    for i in range(len(drawn[0][0])):
        expected = np.array([wanted[i] for _, wanted, _ in drawn])
        assert np.std(expected) > 0
        ours = np.array([results[i] for results, _, _ in drawn]) - expected
        theirs = np.array([results[i] for _, _, results in drawn]) - expected
        assert np.abs(ours).max() <= F16_SLACK * np.abs(theirs).max()
        assert np.sqrt(np.mean(ours**2)) <= F16_RMS_SLACK * np.sqrt(np.mean(theirs**2))
