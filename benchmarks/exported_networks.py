"""PyTorch modules that `networks.py` exports as ONNX models, with random weights.

Beside those of `graph_models.py` and `exported_detectors.py`: R(2+1)D (arXiv:1711.11248), style
transfer (arXiv:1603.08155), CRNN (arXiv:1507.05717), DCGAN (arXiv:1511.06434), a stack of WaveNet's
gated layers (arXiv:1609.03499), MTCNN's O-Net (arXiv:1604.02878).
"""

from __future__ import annotations

import io
import warnings
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
from exported_detectors import RetinaHeads, YoloV8, YoloX
from graph_models import NETWORKS, calibrate
from torch import Tensor, nn
from training_models import wav2vec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OPSET = 17


def _factored(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """A 3x3x3 convolution as one over an image and one over time."""
    inner = inputs * outputs * 27 // (inputs * 9 + 3 * outputs)
    return nn.Sequential(
        nn.Conv3d(inputs, inner, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
        nn.BatchNorm3d(inner),
        nn.ReLU(),
        nn.Conv3d(inner, outputs, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
        nn.BatchNorm3d(outputs),
    )


class VideoBlock(nn.Module):
    """Two factored convolutions around what is added."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = (
            *(_factored(inputs, outputs, stride), _factored(outputs, outputs, 1)),
        )
        self.short: nn.Module = nn.Identity()
        if stride > 1:
            self.short = nn.Sequential(
                nn.Conv3d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm3d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """N x C x frames x H x W."""
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.short(x))


def video_classifier() -> nn.Module:
    """R(2+1)D-18."""
    layers: list[nn.Module] = [
        nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False),
        *(nn.BatchNorm3d(45), nn.ReLU()),
        nn.Conv3d(45, 64, (3, 1, 1), padding=(1, 0, 0), bias=False),
        *(nn.BatchNorm3d(64), nn.ReLU()),
    ]
    for before, after in pairwise((64, 64, 128, 256, 512)):
        layers += [VideoBlock(before, after, 1 if before == after else 2)]
        layers += [VideoBlock(after, after, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, 400))


def _instance(inputs: int, outputs: int, taps: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.ReflectionPad2d(taps // 2),
        nn.Conv2d(inputs, outputs, taps, stride),
        nn.InstanceNorm2d(outputs, affine=True),
    ]


class StyleBlock(nn.Module):
    """Two 3x3 convolutions with instance normalisation around what is added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        first, second = (_instance(channels, channels, 3) for _ in range(2))
        self.layers = nn.Sequential(*first, nn.ReLU(), *second)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x + self.layers(x)


def style_transfer() -> nn.Module:
    """An image to an image of the same size."""
    layers: list[nn.Module] = [*_instance(3, 32, 9), nn.ReLU()]
    for before, after in ((32, 64), (64, 128)):
        layers += [*_instance(before, after, 3, 2), nn.ReLU()]
    layers += [StyleBlock(128) for _ in range(5)]
    for before, after in ((128, 64), (64, 32)):
        layers += [nn.Upsample(scale_factor=2), *_instance(before, after, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9))


class TextRecogniser(nn.Module):
    """CRNN: seven convolutions, then two bidirectional LSTMs over the columns."""

    def __init__(self, letters: int = 37) -> None:
        super().__init__()
        widths = (1, 64, 128, 256, 256, 512, 512, 512)
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(pairwise(widths)):
            taps, pad = (2, 0) if number == 6 else (3, 1)
            layers.append(nn.Conv2d(before, after, taps, 1, pad))
            layers += [nn.BatchNorm2d(after)] if number in (2, 4, 6) else []
            layers.append(nn.ReLU())
            layers += [nn.MaxPool2d(2, 2)] if number in (0, 1) else []
            layers += [nn.MaxPool2d((2, 2), (2, 1), (0, 1))] if number in (3, 5) else []
        self.image = nn.Sequential(*layers)
        self.first = nn.LSTM(512, 256, bidirectional=True)
        self.middle = nn.Linear(512, 256)
        self.second = nn.LSTM(256, 256, bidirectional=True)
        self.letters = nn.Linear(512, letters)

    def forward(self, x: Tensor) -> Tensor:
        """N x 1 x 32 x W to columns x N x letters."""
        columns = self.image(x).squeeze(2).permute(2, 0, 1)
        columns = self.middle(self.first(columns)[0])
        return self.letters(self.second(columns)[0])


def dcgan() -> nn.Module:
    """DCGAN's generator: 100 numbers to an image of 64 x 64."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 512, 4, bias=False)]
    for before, after in pairwise((512, 256, 128, 64)):
        layers += [nn.BatchNorm2d(before), nn.ReLU()]
        layers.append(nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False))
    layers += [nn.BatchNorm2d(64), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False)]
    return nn.Sequential(*layers, nn.Tanh())


class WaveNet(nn.Module):
    """Two rounds of ten gated layers of 64 channels, dilated twice as much each time."""

    def __init__(self, channels: int = 64, layers: int = 20) -> None:
        super().__init__()
        dilations = [2 ** (layer % 10) for layer in range(layers)]
        self.first = nn.Conv1d(1, channels, 1)
        self.gated = nn.ModuleList(
            nn.Conv1d(channels, 2 * channels, 3, padding=d, dilation=d) for d in dilations
        )
        self.mixed = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 1) for _ in dilations)
        self.last = nn.Sequential(
            nn.ReLU(), nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.Conv1d(channels, 1, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """N x 1 x samples, the same shape."""
        x = self.first(x)
        total = torch.zeros_like(x)
        for gated, mixed in zip(self.gated, self.mixed, strict=True):
            signal, gate = gated(x).chunk(2, 1)
            kept, skipped = mixed(torch.tanh(signal) * torch.sigmoid(gate)).chunk(2, 1)
            x, total = x + kept, total + skipped
        return self.last(total)


class FaceLandmarks(nn.Module):
    """MTCNN's O-Net: whether an image of 48 x 48 is a face, its box and five points."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        sizes = ((3, 32, 3, 3), (32, 64, 3, 3), (64, 64, 3, 2), (64, 128, 2, 0))
        for before, after, taps, pool in sizes:
            layers += [nn.Conv2d(before, after, taps), nn.PReLU(after)]
            layers += [nn.MaxPool2d(pool, 2, ceil_mode=True)] if pool > 0 else []
        layers += [nn.Flatten(), nn.Linear(128 * 9, 256), nn.PReLU(256)]
        self.layers = nn.Sequential(*layers)
        self.heads = nn.ModuleList(nn.Linear(256, size) for size in (2, 4, 10))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """N x 3 x 48 x 48 to N x 2, N x 4, N x 10."""
        x = self.layers(x)
        face, *rest = (head(x) for head in self.heads)
        return (face.softmax(1), *rest)


def _graph_model(name: str) -> tuple[Callable[[], nn.Module], Sequence[Sequence[int]]]:
    make, shape = NETWORKS[name]
    return make, [(1, *shape)]


PYRAMID = [(1, 256, size, size) for size in (32, 16, 8, 4, 2)]

EXPORTED: Mapping[str, tuple[Callable[[], nn.Module], Sequence[Sequence[int]]]] = {
    **{
        name: _graph_model(name)
        for name in ("resnext50", "vit-s", "unet", "unet3d", "hifigan", "vae-decoder")
    },
    "yolov8n": (YoloV8, [(1, 3, 640, 640)]),
    "yolox-tiny": (YoloX, [(1, 3, 416, 416)]),
    "retina-heads": (RetinaHeads, PYRAMID),
    "r2plus1d": (video_classifier, [(1, 3, 8, 112, 112)]),
    "style": (style_transfer, [(1, 3, 224, 224)]),
    "crnn": (TextRecogniser, [(1, 1, 32, 160)]),
    "dcgan": (dcgan, [(1, 100, 1, 1)]),
    "wavenet": (WaveNet, [(1, 1, 4096)]),
    "wav2vec2-encoder": (lambda: wav2vec(1.0), [(1, 1, 16000)]),
    "o-net": (FaceLandmarks, [(16, 3, 48, 48)]),
}
"""Each with the shapes of its inputs."""


def exported(name: str) -> Any:
    """One of `EXPORTED` as a ModelProto."""
    cast("Any", torch).manual_seed(0)
    make, shapes = EXPORTED[name]
    module = make()
    if len(shapes) == 1:
        calibrate(module, torch.randn(max(2, shapes[0][0]), *shapes[0][1:]))
    arguments = tuple(torch.randn(*shape) for shape in shapes)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That exporter warns of its age, and of constants.
        exporter: Any = torch.onnx
        exporter.export(module.eval(), arguments, file, opset_version=OPSET, dynamo=False)
    return import_module("onnx").load_from_string(file.getvalue())
