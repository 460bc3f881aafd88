"""Detectors as people export them: YOLOv8n (Ultralytics 2023), YOLOX-tiny (arXiv:2107.08430), and
RetinaNet's heads (arXiv:1708.02002), with random weights."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

CLASSES = 80
BINS = 16
"""Of the distribution that stands for a distance to a side of a box."""


def conv(inputs: int, outputs: int, taps: int = 3, stride: int = 1) -> nn.Sequential:
    """A convolution, its normalisation, and silu."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, taps, stride, taps // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.SiLU(),
    )


class Bottleneck(nn.Module):
    """Two convolutions, around them what is added, if it is."""

    def __init__(self, channels: int, adds: bool, first_taps: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(channels, channels, first_taps), conv(channels, channels))
        self.adds = adds

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x + self.layers(x) if self.adds else self.layers(x)


class C2f(nn.Module):
    """YOLOv8's stage: every bottleneck's result is kept, and all are mixed."""

    def __init__(self, inputs: int, outputs: int, count: int, adds: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first = conv(inputs, outputs, 1)
        self.parts = nn.ModuleList(Bottleneck(half, adds, 3) for _ in range(count))
        self.last = conv((2 + count) * half, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W to N x outputs x H x W."""
        kept = list(self.first(x).chunk(2, 1))
        for part in self.parts:
            kept.append(part(kept[-1]))
        return self.last(torch.cat(kept, 1))


class CSP(nn.Module):
    """YOLOX's stage: one half through bottlenecks, the other beside them."""

    def __init__(self, inputs: int, outputs: int, count: int, adds: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.beside = conv(inputs, half, 1), conv(inputs, half, 1)
        self.parts = nn.Sequential(*(Bottleneck(half, adds, 1) for _ in range(count)))
        self.last = conv(outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """N x inputs x H x W to N x outputs x H x W."""
        return self.last(torch.cat((self.parts(self.first(x)), self.beside(x)), 1))


class Pyramid(nn.Module):
    """Pools of three sizes: one 5x5 pool after the other (SPPF), or 5x5, 9x9, 13x13 (SPP)."""

    def __init__(self, channels: int, in_a_row: bool) -> None:
        super().__init__()
        self.first, self.last = conv(channels, channels // 2, 1), conv(2 * channels, channels, 1)
        sizes = (5, 5, 5) if in_a_row else (5, 9, 13)
        self.pools = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in sizes)
        self.in_a_row = in_a_row

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        kept = [self.first(x)]
        for pool in self.pools:
            kept.append(pool(kept[-1 if self.in_a_row else 0]))
        return self.last(torch.cat(kept, 1))


class Neck(nn.Module):
    """Three scales, mixed on the way up and on the way down again (PAN)."""

    def __init__(
        self, stage: type[C2f | CSP], widths: Sequence[int], count: int, narrows: bool
    ) -> None:
        super().__init__()
        low, middle, high = widths
        self.narrow = nn.ModuleList(
            conv(a, b, 1) if narrows else nn.Identity() for a, b in ((high, middle), (middle, low))
        )
        above, below = (middle, low) if narrows else (high, middle)
        self.up = nn.ModuleList(
            (stage(above + middle, middle, count, False), stage(below + low, low, count, False))
        )
        self.down = nn.ModuleList((conv(low, low, 3, 2), conv(middle, middle, 3, 2)))
        self.join = nn.ModuleList(
            (
                stage(low + below, middle, count, False),
                stage(middle + above, high, count, False),
            )
        )

    def forward(self, low: Tensor, middle: Tensor, high: Tensor) -> list[Tensor]:
        """Of the strides 8, 16 and 32."""
        top = self.narrow[0](high)
        x = self.up[0](torch.cat((nn.functional.interpolate(top, scale_factor=2.0), middle), 1))
        side = self.narrow[1](x)
        x = self.up[1](torch.cat((nn.functional.interpolate(side, scale_factor=2.0), low), 1))
        results = [x]
        for down, join, kept in zip(self.down, self.join, (side, top), strict=True):
            x = join(torch.cat((down(x), kept), 1))
            results.append(x)
        return results


def grid(maps: Sequence[Tensor], strides: Sequence[int], offset: float) -> tuple[Tensor, Tensor]:
    """Where the anchors of maps are, 2 x anchors in cells, and their strides, 1 x anchors."""
    places: list[Tensor] = []
    scales: list[Tensor] = []
    for each, stride in zip(maps, strides, strict=True):
        height, width = each.shape[2:]
        rows, columns = (torch.arange(n, dtype=torch.float32) + offset for n in (height, width))
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        places.append(torch.stack((x, y), -1).view(-1, 2))
        scales.append(torch.full((height * width, 1), float(stride)))
    return torch.cat(places).T, torch.cat(scales).T


class YoloV8(nn.Module):
    """YOLOv8n, decoded: boxes in pixels and the scores of classes."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64, 128, 256)
        stages: list[nn.Module] = []
        for (before, after), count in zip(pairwise(widths), (1, 2, 2, 1), strict=True):
            stages.append(nn.Sequential(conv(before, after, 3, 2), C2f(after, after, count, True)))
        self.stem, self.stages = conv(3, 16, 3, 2), nn.ModuleList(stages)
        self.pyramid, self.neck = Pyramid(256, True), Neck(C2f, widths[2:], 1, False)
        sides, classes = max(16, widths[2] // 4, 4 * BINS), max(widths[2], min(CLASSES, 100))
        self.sides = nn.ModuleList(self._head(c, sides, 4 * BINS) for c in widths[2:])
        self.classes = nn.ModuleList(self._head(c, classes, CLASSES) for c in widths[2:])

    @staticmethod
    def _head(inputs: int, inner: int, outputs: int) -> nn.Module:
        return nn.Sequential(conv(inputs, inner), conv(inner, inner), nn.Conv2d(inner, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """N x 3 x H x W to N x 84 x anchors."""
        x = self.stem(x)
        kept: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        maps = self.neck(kept[1], kept[2], self.pyramid(x))
        both = [
            torch.cat((side(each), score(each)), 1)
            for each, side, score in zip(maps, self.sides, self.classes, strict=True)
        ]
        anchors, strides = grid(maps, (8, 16, 32), 0.5)
        every: Any = torch.cat([each.flatten(2) for each in both], 2)
        sides, classes = every.split((4 * BINS, CLASSES), 1)
        sides = sides.view(x.shape[0], 4, BINS, -1).transpose(2, 1).softmax(1)
        sides = (sides * torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1)).sum(1)
        before, behind = sides.chunk(2, 1)
        low, high = anchors - before, anchors + behind
        boxes = torch.cat(((low + high) / 2, high - low), 1) * strides
        return torch.cat((boxes, classes.sigmoid()), 1)


class YoloX(nn.Module):
    """YOLOX-tiny, decoded: boxes in pixels, an object's score, the scores of classes."""

    def __init__(self) -> None:
        super().__init__()
        widths = (24, 48, 96, 192, 384)
        stages: list[nn.Module] = []
        for (before, after), count in zip(pairwise(widths), (1, 3, 3, 1), strict=True):
            parts: list[nn.Module] = [conv(before, after, 3, 2)]
            last = after == widths[-1]
            parts += [Pyramid(after, False)] if last else []
            stages.append(nn.Sequential(*parts, CSP(after, after, count, not last)))
        self.stem, self.stages = conv(12, 24), nn.ModuleList(stages)
        self.neck = Neck(CSP, widths[2:], 1, True)
        inner = widths[2]
        self.narrow = nn.ModuleList(conv(c, inner, 1) for c in widths[2:])
        towers = [
            nn.ModuleList(nn.Sequential(conv(inner, inner), conv(inner, inner)) for _ in range(3))
            for _ in range(2)
        ]
        self.to_classes, self.to_boxes = towers
        self.classes = nn.ModuleList(nn.Conv2d(inner, CLASSES, 1) for _ in range(3))
        self.boxes = nn.ModuleList(nn.Conv2d(inner, 4, 1) for _ in range(3))
        self.objects = nn.ModuleList(nn.Conv2d(inner, 1, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """N x 3 x H x W to N x anchors x 85."""
        corners = x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]
        x = self.stem(torch.cat(corners, 1))
        kept: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        maps = self.neck(kept[1], kept[2], kept[3])
        both: list[Tensor] = []
        for level, each in enumerate(maps):
            y = self.narrow[level](each)
            seen = self.to_boxes[level](y)
            score = self.classes[level](self.to_classes[level](y)).sigmoid()
            parts = (self.boxes[level](seen), self.objects[level](seen).sigmoid(), score)
            both.append(torch.cat(parts, 1))
        places, strides = grid(maps, (8, 16, 32), 0.0)
        every = torch.cat([each.flatten(2) for each in both], 2).transpose(1, 2)
        centre = (every[..., :2] + places.T) * strides.T
        return torch.cat((centre, every[..., 2:4].exp() * strides.T, every[..., 4:]), -1)


class RetinaHeads(nn.Module):
    """Two towers of four convolutions over five scales: scores and boxes of nine anchors."""

    def __init__(self, anchors: int = 9) -> None:
        super().__init__()
        self.classes, self.boxes = self._tower(anchors * CLASSES), self._tower(anchors * 4)

    @staticmethod
    def _tower(outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(256, 256, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(256, outputs, 3, padding=1))

    def forward(self, *maps: Tensor) -> tuple[Tensor, Tensor]:
        """Scales of 256 channels to N x anchors x 80 and N x anchors x 4."""
        scores, boxes = (
            torch.cat([tower(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, size) for x in maps], 1)
            for tower, size in ((self.classes, CLASSES), (self.boxes, 4))
        )
        return scores.sigmoid(), boxes
