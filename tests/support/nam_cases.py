"""Neural amp models for tests: NeuralAmpModelerCore's where they are, and random ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]

_FOLDER = Path(__file__).parents[3] / "shared" / "nam"

MODELS = sorted(_FOLDER.glob("*.nam"))
"""Models with what NeuralAmpModelerCore 0.5.4 makes of `input.npy` beside them; maybe none."""


def sound() -> Array:
    """f32[frames]."""
    return np.load(_FOLDER / "input.npy")


def expected_of(path: Path) -> Array:
    """What a model of `MODELS` makes of the sound: f32[frames]."""
    return np.load(path.with_suffix("").with_suffix(".expected.npy"))


def heard(model: Any, x: Array, sizes: Sequence[int], count: int) -> Array:
    """What a model makes of blocks of `x`, of sizes in turn, until it has had `count` frames."""
    begin, pieces = 0, list[Array]()
    while begin < count:
        size = sizes[len(pieces) % len(sizes)]
        y: Any = model.process(x[begin : begin + size])
        pieces.append(y.get() if hasattr(y, "get") else y)
        begin += size
    return np.concatenate(pieces)


def random_model(rng: np.random.Generator) -> dict[str, Any]:
    """A file's content: one or two layer arrays of random widths, groups, taps and dilations."""
    layers: list[dict[str, Any]] = []
    widths = [int(width) for width in rng.choice([1, 2, 4, 6, 8, 12, 16], rng.integers(1, 3))]
    for index, channels in enumerate(widths):
        groups = [g for g in range(1, channels + 1) if channels % g == 0]
        last = index + 1 == len(widths)
        layers.append(
            {
                "input_size": 1 if index == 0 else widths[index - 1],
                "condition_size": 1,
                "channels": channels,
                "head_size": 1 if last else widths[index + 1],
                "head_bias": bool(rng.integers(2)),
                "kernel_size": int(rng.integers(1, 17)),
                "dilations": [int(d) for d in rng.choice([1, 2, 5, 16], rng.integers(1, 4))],
                "activation": str(rng.choice(["Tanh", "ReLU", "LeakyReLU"])),
                "gated": bool(rng.integers(2)),
                "groups_input": int(rng.choice(groups)),
                "layer1x1": {"active": True, "groups": int(rng.choice(groups))},
            }
        )
    config = {"layers": layers, "head": None, "head_scale": 0.5}
    count = sum(map(_weights_of_array, layers)) + 1
    weights = [float(np.float32(w)) for w in rng.normal(0, 0.3, count)]
    return {"architecture": "WaveNet", "config": config, "weights": weights, "sample_rate": 48000}


def _weights_of_array(array: dict[str, Any]) -> int:
    channels, groups = array["channels"], array["groups_input"]
    wide = channels * (2 if array["gated"] else 1)
    layer = wide * channels // groups * array["kernel_size"] + wide
    layer += wide + channels * channels // array["layer1x1"]["groups"] + channels
    head = array["head_size"] * (channels + array["head_bias"])
    return array["input_size"] * channels + len(array["dilations"]) * layer + head


def wavenet_reference(model: dict[str, Any], x: Array) -> Array:
    """What a model of `random_model` makes of a sound after silence, in f64, a tap at a time."""
    weights = np.array(model["weights"], np.float64)
    taken = 0

    def take(*shape: int) -> Array:
        nonlocal taken
        taken += int(np.prod(shape))
        return weights[taken - int(np.prod(shape)) : taken].reshape(shape)

    silence = sum(
        dilation * (array["kernel_size"] - 1)
        for array in model["config"]["layers"]
        for dilation in array["dilations"]
    )
    signal = np.concatenate([np.zeros(silence), x.astype(np.float64)])[None]
    condition, head = signal, None
    for array in model["config"]["layers"]:
        channels, taps = array["channels"], array["kernel_size"]
        wide = channels * (2 if array["gated"] else 1)
        signal = take(channels, array["input_size"]) @ signal
        for dilation in array["dilations"]:
            filters = take(wide, channels // array["groups_input"], taps)
            z = _convolved(signal, filters, dilation, array["groups_input"]) + take(wide)[:, None]
            z = z + take(wide, 1) @ condition
            z = _activated(z, array["activation"], gated=array["gated"])
            groups = array["layer1x1"]["groups"]
            filters = take(channels, channels // groups, 1)
            head = z if head is None else head + z
            signal = signal + _convolved(z, filters, 1, groups) + take(channels)[:, None]
        head = take(array["head_size"], channels) @ head
        if array["head_bias"]:
            head = head + take(array["head_size"])[:, None]
    assert head is not None
    return (head * take(1))[0, silence:]


def _convolved(x: Array, filters: Array, dilation: int, groups: int) -> Array:
    outputs, depth, taps = filters.shape
    y = np.zeros((outputs, x.shape[1]))
    for k in range(taps):
        shift = dilation * (taps - 1 - k)
        seen = np.pad(x, ((0, 0), (shift, 0)))[:, : x.shape[1]]
        for o in range(outputs):
            group = o // (outputs // groups)
            y[o] += filters[o, :, k] @ seen[group * depth : (group + 1) * depth]
    return y


def _activated(z: Array, name: str, *, gated: bool) -> Array:
    first, second = np.split(z, 2) if gated else (z, None)
    below = {"Tanh": None, "ReLU": 0.0, "LeakyReLU": 0.01}[name]
    active = np.tanh(first) if below is None else np.where(first > 0, first, below * first)
    return active if second is None else active / (1 + np.exp(-second))
