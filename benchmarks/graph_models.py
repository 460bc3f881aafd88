"""Networks of inference, as small definitions: what `torch_graphs.py` measures beside those of
`training_models.py`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from training_models import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

F: Any = nn.functional


class SqueezeExcite(nn.Module):
    """Channels times what a mean over the image says of them."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, hidden, 1)
        self.expand = nn.Conv2d(hidden, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of N x C x H x W."""
        mean = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(mean))))


class MBConv(nn.Module):
    """1x1 wider, depthwise, squeeze and excite, 1x1 back."""

    def __init__(self, inputs: int, outputs: int, taps: int, stride: int, factor: int) -> None:
        super().__init__()
        hidden = inputs * factor
        layers: list[nn.Module] = []
        if factor > 1:
            layers += [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()]
        depthwise = nn.Conv2d(hidden, hidden, taps, stride, taps // 2, groups=hidden, bias=False)
        layers += [depthwise, nn.BatchNorm2d(hidden), nn.SiLU()]
        layers += [SqueezeExcite(hidden, max(1, inputs // 4))]
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Of N x C x H x W."""
        y = self.layers(x)
        return x + y if self.adds else y


def efficientnet() -> nn.Module:
    """EfficientNet-B0."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
    inputs = 32
    stages = (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    )
    for factor, outputs, count, stride, taps in stages:
        for i in range(count):
            layers.append(MBConv(inputs, outputs, taps, stride if i == 0 else 1, factor))
            inputs = outputs
    layers += [nn.Conv2d(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.SiLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of N x tokens x width."""
        batch, tokens, width = x.shape
        mixed = self.mixed(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(query, key, value)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """Attention and two linear layers, each around what is added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Of N x tokens x width."""
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class VisionTransformer(nn.Module):
    """ViT-S/16: 12 blocks of 384."""

    def __init__(self, width: int = 384, depth: int = 12, heads: int = 6) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.randn(1, 196, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Of N x 3 x 224 x 224."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


def _pair(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class ImageUNet(nn.Module):
    """A U-Net of images whose way up is transposed convolutions."""

    def __init__(self, width: int = 32, levels: int = 4) -> None:
        super().__init__()
        sizes = [width * 2**i for i in range(levels)]
        self.down = nn.ModuleList(_pair(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(sizes))
        self.join = nn.ModuleList(_pair(2 * a, a) for a in sizes[:-1])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of N x 3 x H x W, a multiple of 8 each."""
        kept: list[Tensor] = []
        for i, stage in enumerate(self.down):
            x = stage(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(
            reversed(self.up), reversed(self.join), reversed(kept[:-1]), strict=True
        ):
            x = join(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Residual(nn.Module):
    """Two 3x3 convolutions behind group normalisation and silu."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1)),
            *(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1)),
        )
        self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Of N x C x H x W."""
        return self.short(x) + self.layers(x)


def vae_decoder() -> nn.Module:
    """From a latent of 4 channels to an image 8 times as large."""
    layers: list[nn.Module] = [nn.Conv2d(4, 256, 3, padding=1), Residual(256, 256)]
    inputs = 256
    for outputs in (256, 128, 64):
        layers += [Residual(inputs, outputs), nn.Upsample(scale_factor=2)]
        layers += [nn.Conv2d(outputs, outputs, 3, padding=1)]
        inputs = outputs
    layers += [nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, 3, 3, padding=1)]
    return nn.Sequential(*layers)


def _of_training(name: str) -> Callable[[], nn.Module]:
    return lambda: WORKLOADS[name].model(1.0)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet50": (_of_training("resnet50"), (3, 224, 224)),
    "resnext50": (_of_training("resnext50"), (3, 224, 224)),
    "mobilenetv2": (_of_training("mobilenetv2"), (3, 224, 224)),
    "efficientnet-b0": (efficientnet, (3, 224, 224)),
    "convnext-t": (_of_training("convnext-t"), (3, 224, 224)),
    "vit-s": (VisionTransformer, (3, 224, 224)),
    "unet": (ImageUNet, (3, 256, 256)),
    "unet3d": (_of_training("unet3d"), (1, 64, 64, 64)),
    "hifigan": (_of_training("hifigan"), (80, 32)),
    "vae-decoder": (vae_decoder, (4, 32, 32)),
}
"""Each with the shape of one input."""


def calibrate(model: nn.Module, x: Tensor) -> None:
    """Let batch normalisations know what `x` gives: or values die away from layer to layer, and
    results are biases alone. Channels that vary little are not blown up."""
    kinds = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d
    norms = [each for each in model.modules() if isinstance(each, kinds)]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model.train()(x)
    for norm in norms:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.momentum = 0.1
        square = float((norm.running_var + norm.running_mean.square()).mean())
        norm.running_var.clamp_(min=max(square, 1e-3) / 10)
    model.eval()


def prepared(name: str, batch: int, device: str, dtype: Any) -> tuple[nn.Module, Tensor]:
    """A network for inference and an input of it, channels last where there are images."""
    cast("Any", torch).manual_seed(0)
    make, shape = NETWORKS[name]
    model: Any = make().to(device)
    calibrate(model, torch.randn(2, *shape).to(device))
    model = model.eval().to(dtype)
    x = torch.randn(batch, *shape).to(device, dtype)
    if len(shape) > 2:
        last: Any = torch.channels_last if len(shape) == 3 else torch.channels_last_3d
        model, x = model.to(memory_format=last), x.to(memory_format=last)
    return model, x
