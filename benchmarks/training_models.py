"""Models that convolutions bound, in plain PyTorch, with random weights.

Each is a function of `scale`, 1 for the sizes of the papers; smaller numbers divide channels, depth
and images, so that a step also runs on a CPU in a moment. Sources: ResNet (He 2015), ResNeXt (Xie
2016), MobileNetV2 (Sandler 2018), ConvNeXt (Liu 2022), 3-D U-Net (Çiçek 2016), HiFi-GAN (Kong
2020), wav2vec 2.0 (Baevski 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Tensor = torch.Tensor


@dataclass(frozen=True)
class Workload:
    """A model and what a step of it takes."""

    model: Callable[[float], nn.Module]
    shape: tuple[int, ...]
    """Of the input at scale 1: N, C and the spatial sizes."""
    dtype: str


def at_scale(count: int, scale: float, multiple: int = 8) -> int:
    """So many channels, or positions, at a scale."""
    return max(multiple, round(count * scale / multiple) * multiple)


class Bottleneck(nn.Module):
    """1x1, 3x3 (grouped), 1x1, around them what is added."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """N x C x H x W to N x K x H/stride x W/stride."""
        return F.relu(self.body(x) + self.skip(x))


def resnet(scale: float, groups: int = 1, width: int = 64) -> nn.Module:
    """ResNet-50; ResNeXt-50 32x4d with 32 groups and width 128."""
    stem = at_scale(64, scale)
    layers: list[nn.Module] = [
        nn.Conv2d(3, stem, 7, 2, 3, bias=False),
        nn.BatchNorm2d(stem),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = stem
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(max(1, round(blocks * scale))):
            inner, outputs = (at_scale(n << stage, scale, 32) for n in (width, 256))
            stride = 2 if block == 0 and stage else 1
            layers.append(Bottleneck(inputs, inner, outputs, stride, groups))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class InvertedResidual(nn.Module):
    """1x1 wider, depthwise 3x3, 1x1 back."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        width = inputs * expand
        first: list[nn.Module] = []
        if expand != 1:
            first = [nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6()]
        self.body = nn.Sequential(
            *first,
            nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """N x C x H x W to N x K x H/stride x W/stride."""
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet(scale: float) -> nn.Module:
    """MobileNetV2."""
    inputs = at_scale(32, scale)
    layers: list[nn.Module] = [
        nn.Conv2d(3, inputs, 3, 2, 1, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(),
    ]
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    table += ((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, channels, blocks, stride in table:
        outputs = at_scale(channels, scale)
        for block in range(max(1, round(blocks * scale))):
            layers.append(InvertedResidual(inputs, outputs, 1 if block else stride, expand))
            inputs = outputs
    last = at_scale(1280, scale)
    layers += [nn.Conv2d(inputs, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000))


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of N x C x H x W."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """Depthwise 7x7, then two linear layers over the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.rest = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 4 * channels),
            nn.GELU(),
            nn.Linear(4 * channels, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x + self.rest(self.first(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext(scale: float) -> nn.Module:
    """ConvNeXt-T."""
    widths = [at_scale(96 << stage, scale) for stage in range(4)]
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for stage, blocks in enumerate((3, 3, 9, 3)):
        if stage:
            before, after = widths[stage - 1], widths[stage]
            layers += [ChannelNorm(before), nn.Conv2d(before, after, 2, 2)]
        layers += [ConvNextBlock(widths[stage]) for _ in range(max(1, round(blocks * scale)))]
    end: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 1000)]
    return nn.Sequential(*layers, *end)


class UNet(nn.Module):
    """A 3-D U-Net of three levels, from one channel to four."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Module:
            parts: list[nn.Module] = []
            for i, o in ((inputs, outputs), (outputs, outputs)):
                parts += [nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o), nn.ReLU()]
            return nn.Sequential(*parts)

        widths = (width, 2 * width, 4 * width)
        self.down = nn.ModuleList([double(i, o) for i, o in pairwise((1, *widths))])
        self.up = nn.ModuleList([nn.ConvTranspose3d(2 * o, o, 2, 2) for o in reversed(widths[:-1])])
        self.join = nn.ModuleList([double(2 * o, o) for o in reversed(widths[:-1])])
        self.last = nn.Conv3d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """N x 1 x D x H x W to N x 4 x D x H x W; sizes are multiples of 4."""
        seen: list[Tensor] = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool3d(x, 2) if level else x)
            seen.append(x)
        seen.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), seen.pop()], 1))
        return self.last(x)


class HifiBlock(nn.Module):
    """Three pairs of dilated convolutions around what is added."""

    def __init__(self, channels: int, taps: int) -> None:
        super().__init__()
        self.pairs = nn.ModuleList(
            [
                nn.Sequential(
                    nn.LeakyReLU(0.1),
                    nn.Conv1d(channels, channels, taps, padding=taps // 2 * d, dilation=d),
                    nn.LeakyReLU(0.1),
                    nn.Conv1d(channels, channels, taps, padding=taps // 2),
                )
                for d in (1, 3, 5)
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        for pair in self.pairs:
            x = x + pair(x)
        return x


class HifiGenerator(nn.Module):
    """HiFi-GAN's generator V1: 80 mel bands to a waveform 256 times as long."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for stride in (8, 8, 2, 2):
            self.ups.append(nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, stride // 2))
            width //= 2
            self.blocks.append(nn.ModuleList([HifiBlock(width, taps) for taps in (3, 7, 11)]))
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        """N x 80 x W to N x 1 x 256 W."""
        x = self.first(x)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)  # pyright: ignore
        return torch.tanh(self.last(F.leaky_relu(x, 0.1)))


def wav2vec(scale: float) -> nn.Module:
    """wav2vec 2.0's feature encoder: seven strided convolutions of 512 channels."""
    width = at_scale(512, scale)
    layers: list[nn.Module] = []
    inputs = 1
    for number, (taps, stride) in enumerate([(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]):
        layers.append(nn.Conv1d(inputs, width, taps, stride, bias=False))
        layers += [nn.GroupNorm(width, width)] if number == 0 else []
        layers.append(nn.GELU())
        inputs = width
    return nn.Sequential(*layers)


def decoder(scale: float) -> nn.Module:
    """Five transposed convolutions, each doubling an image, from 512 channels down to 3."""
    widths = [at_scale(512 >> level, scale) for level in range(5)]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1))


IMAGES = (64, 3, 224, 224)

WORKLOADS: Mapping[str, Workload] = {
    "resnet50": Workload(resnet, IMAGES, "bfloat16"),
    "resnext50": Workload(lambda s: resnet(s, groups=32, width=128), IMAGES, "bfloat16"),
    "mobilenetv2": Workload(mobilenet, IMAGES, "bfloat16"),
    "convnext-t": Workload(convnext, IMAGES, "bfloat16"),
    "unet3d": Workload(lambda s: UNet(at_scale(32, s)), (2, 1, 96, 96, 96), "bfloat16"),
    "hifigan": Workload(lambda s: HifiGenerator(at_scale(512, s, 64)), (16, 80, 32), "float16"),
    "wav2vec2": Workload(wav2vec, (8, 1, 80000), "float16"),
    "decoder": Workload(decoder, (32, 512, 8, 8), "bfloat16"),
}


def prepared(name: str, device: str, scale: float, dtype: Any) -> tuple[nn.Module, Tensor]:
    """A model and an input of it, channels last where images have two or three dimensions."""
    cast("Any", torch).manual_seed(0)
    work = WORKLOADS[name]
    batch, channels, *sizes = work.shape
    if name == "decoder":
        channels = at_scale(channels, scale)
    shape = (at_scale(batch, scale, 1), channels, *(at_scale(s, scale**0.5, 32) for s in sizes))
    if name == "decoder":
        shape = (*shape[:2], 8, 8)
    model: Any = work.model(scale).to(device, dtype)
    x = torch.randn(shape).to(device, dtype)
    if len(sizes) > 1:
        last: Any = torch.channels_last if len(sizes) == 2 else torch.channels_last_3d
        model, x = model.to(memory_format=last), x.to(memory_format=last)
    return model, x
