"""Small networks of the kinds that people export, with sizes left open."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class VisionTransformer(nn.Module):
    """Patches, a token for the class, learned positions, encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 48) / 50)
        self.positions = nn.Parameter(torch.randn(1, 17, 48) / 50)
        layer = nn.TransformerEncoderLayer(
            48, 3, 96, batch_first=True, norm_first=True, activation="gelu"
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        """N x 3 x 32 x 32 -> N x 10."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.layers(x)[:, 0])


class MaskedAttention(nn.Module):
    """Self-attention with a mask that is an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.products = nn.Linear(32, 96)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """N x T x 32, 1 x 1 x T x T -> N x T x 32."""
        batch, steps, size = x.shape
        parts = self.products(x).reshape(batch, steps, 3, 4, size // 4).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        scores = (query @ key.transpose(-2, -1)) * 0.35
        scores = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
        return (scores @ value).transpose(1, 2).reshape(batch, steps, size)


class Detector(nn.Module):
    """Two scales, distances to the sides as distributions, a grid of anchors for any size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 3, 2, 1))
        self.second = nn.Conv2d(8, 8, 3, 2, 1)
        self.heads = nn.ModuleList(nn.Conv2d(8, 4 * 8 + 3, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """N x 3 x H x W -> N x 7 x anchors."""
        low = self.first(x)
        maps = [head(each) for head, each in zip(self.heads, (low, self.second(low)), strict=True)]
        points: list[Tensor] = []
        strides: list[Tensor] = []
        for each, stride in zip(maps, (4.0, 8.0), strict=True):
            height, width = each.shape[2:]
            rows, columns = (torch.arange(n, dtype=torch.float32) + 0.5 for n in (height, width))
            grid = torch.meshgrid(rows, columns, indexing="ij")
            points.append(torch.stack((grid[1], grid[0]), -1).view(-1, 2))
            strides.append(torch.full((height * width, 1), stride))
        anchors, scale = torch.cat(points).T[None], torch.cat(strides).T
        every = torch.cat([each.view(each.shape[0], 35, -1) for each in maps], 2)
        sides, classes = every.split((32, 3), 1)
        sides = sides.view(sides.shape[0], 4, 8, -1).transpose(2, 1).softmax(1)
        sides = (sides * torch.arange(8, dtype=torch.float32).view(1, 8, 1, 1)).sum(1)
        before, behind = sides.chunk(2, 1)
        low_corner, high_corner = anchors - before, anchors + behind
        boxes = torch.cat(((low_corner + high_corner) / 2, high_corner - low_corner), 1) * scale
        return torch.cat((boxes, classes.sigmoid()), 1)


class Recogniser(nn.Module):
    """A convolution, and recurrent layers in both directions over the columns."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.image = nn.Conv2d(1, 4, 3, 2, 1)
        self.columns = kind(4 * 8, 12, bidirectional=True)
        self.letters = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """N x 1 x 16 x W -> columns x N x 20."""
        columns = self.image(x).relu().flatten(1, 2).permute(2, 0, 1)
        return self.letters(self.columns(columns)[0]).log_softmax(2)


class Indexing(nn.Module):
    """What scripts do with indices, orders and masks."""

    def forward(self, x: Tensor) -> Sequence[Tensor]:
        """4 x 6 -> many results."""
        values, places = x.topk(3, dim=1)
        total = x.cumsum(1)
        cleared = x.clone()
        cleared[:, 1:3] = 0
        return (
            *(values, places, total, cleared, x[:, [3, 1, 0]], x.roll(1, 1), x.argmax(1)),
            *(torch.where(x > 0.5, x, x.flip(1)), torch.tril(x @ x.T), torch.gather(x, 1, places)),
            *(torch.einsum("ij,kj->ik", x, total), torch.remainder(places, 2)),
        )


NETWORKS: Mapping[str, tuple[Callable[[], nn.Module], Sequence[Sequence[int]], Any]] = {
    "vision transformer": (VisionTransformer, [(1, 3, 32, 32)], {"in0": {0: "batch"}}),
    "masked attention": (
        *(MaskedAttention, [(2, 8, 32), (1, 1, 8, 8)]),
        {"in0": {0: "batch", 1: "steps"}, "in1": {2: "steps", 3: "steps"}},
    ),
    "detector": (Detector, [(1, 3, 64, 64)], {"in0": {0: "batch", 2: "height", 3: "width"}}),
    "LSTM": (lambda: Recogniser(nn.LSTM), [(1, 1, 16, 24)], {"in0": {0: "batch", 3: "width"}}),
    "GRU": (lambda: Recogniser(nn.GRU), [(1, 1, 16, 24)], {"in0": {0: "batch", 3: "width"}}),
    "indexing": (Indexing, [(4, 6)], None),
}
"""A network, the shapes that it is exported with, and the names of its open sizes."""


def export(name: str, path: Path) -> nn.Module:
    """Write one of `NETWORKS` as an .onnx model with the inputs `in0`, `in1`; returns it."""
    torch.manual_seed(0)
    build, shapes, sizes = NETWORKS[name]
    network = build().eval()
    arguments = tuple(torch.ones(shape) for shape in shapes)
    names = [f"in{number}" for number in range(len(arguments))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That exporter warns of its age, and of constants.
        torch.onnx.export(
            *(network, arguments, path),
            opset_version=17,
            dynamo=False,
            input_names=names,
            dynamic_axes=sizes,
        )
    return network
