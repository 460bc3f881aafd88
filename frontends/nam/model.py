"""What a WaveNet of a `.nam` file says, in plain data.

The format and its meaning: NeuralAmpModelerCore, docs/wavenet_walkthrough.rst and NAM/wavenet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.frontends.elements import Array


class Gating(Enum):
    """What becomes of the second half of a layer's channels."""

    NONE = "none"
    """There is no second half."""
    GATED = "gated"
    """The first half is multiplied with it."""
    BLENDED = "blended"
    """It says how much of the first half is activated, and how much passes as it is."""


@dataclass(frozen=True)
class Activation:
    """A function of each element, with its numbers."""

    kind: str
    """`Tanh`, `LeakyReLU`, …: a key of `activations.FUNCTIONS`."""
    numbers: Mapping[str, float]
    slopes: tuple[float, ...] = ()
    """The slope of each channel, of a PReLU."""


@dataclass(frozen=True)
class Film:
    """A scale, and a shift, of each channel that a 1x1 convolution makes of the condition."""

    shift: bool
    groups: int


@dataclass(frozen=True)
class OneByOne:
    """A 1x1 convolution with bias."""

    channels: int
    """What it gives."""
    groups: int


@dataclass(frozen=True)
class Layer:
    """A dilated convolution of an array, and what is done with its output."""

    kernel_size: int
    dilation: int
    activation: Activation
    gating: Gating
    second_activation: Activation | None
    """Of the second half of the channels; None without gating."""


@dataclass(frozen=True)
class LayerArray:
    """Layers of equal widths, one behind the other, and the head that sums them up."""

    input_channels: int
    condition_channels: int
    channels: int
    bottleneck: int
    """Channels of a layer between its convolution and its 1x1."""
    layers: tuple[Layer, ...]
    groups: int
    """Of the dilated convolutions."""
    mixin_groups: int
    """Of the convolutions of the condition."""
    layer1x1: OneByOne | None
    head1x1: OneByOne | None
    films: Mapping[str, Film]
    """The active ones by the names of `FILMS`."""
    head_channels: int
    head_kernel_size: int
    head_dilation: int
    head_bias: bool

    @property
    def head_input_channels(self) -> int:
        """What every layer adds to the head."""
        return self.bottleneck if self.head1x1 is None else self.head1x1.channels


FILMS = (
    "conv_pre_film",
    "conv_post_film",
    "input_mixin_pre_film",
    "input_mixin_post_film",
    "activation_pre_film",
    "activation_post_film",
    "layer1x1_post_film",
    "head1x1_post_film",
)
"""Where a layer may have a FiLM, in the order of their weights."""


@dataclass(frozen=True)
class Head:
    """Activations and convolutions behind the last array."""

    channels: int
    output_channels: int
    kernel_sizes: tuple[int, ...]
    activation: Activation


@dataclass(frozen=True)
class WaveNet:
    """A model, or the part of one that makes its condition."""

    input_channels: int
    arrays: tuple[LayerArray, ...]
    head: Head | None
    condition: WaveNet | None
    """What makes the condition of the input, which is the condition itself otherwise."""
    path: str
    """Of the model's object in the file: '', 'config.condition_dsp', …"""
    weights: Array
    """All of them as the file lists them: f32[n]."""


@dataclass(frozen=True)
class NamFile:
    """What was chosen of a file."""

    file: str
    sample_rate: float
    """Frames a second; 0 where the file does not say it."""
    net: WaveNet
