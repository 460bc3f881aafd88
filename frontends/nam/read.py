"""From a `.nam` file to what it says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.frontends.nam.activations import PRELU, read_activation
from convir.frontends.nam.errors import NamError
from convir.frontends.nam.fields import Fields
from convir.frontends.nam.model import (
    FILMS,
    Activation,
    Film,
    Gating,
    Head,
    Layer,
    LayerArray,
    NamFile,
    OneByOne,
    WaveNet,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.frontends.elements import Array

WAVENET = "WaveNet"
CONTAINER = "SlimmableContainer"


def read_nam(file: str | Path, size: float = 1.0) -> NamFile:
    """The model in a `.nam` file.

    Args:
        file: its path.
        size: which of a `SlimmableContainer`'s models: the first whose `max_value` is at least
            this, from 0 (the smallest) to 1 (the largest). Other files have one model.

    Raises:
        NamError: the file cannot be read, or says something that is not supported.
    """
    name = str(file)
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise NamError(name, error.strerror or str(error)) from error
    except ValueError as error:
        raise NamError(name, f"is no JSON: {error}") from error
    model = _chosen(Fields.of(name, "", content), size)
    return NamFile(name, model.number("sample_rate", 0.0), _wavenet(model))


def _chosen(model: Fields, size: float) -> Fields:
    """The model itself, or one of the models that it contains."""
    if model.text("architecture") != CONTAINER:
        return model
    candidates = model.inner("config").inners("submodels")
    if not candidates:
        raise model.error("config.submodels", "is empty")
    for candidate in candidates:
        if candidate.number("max_value") >= size:
            return _chosen(candidate.inner("model"), size)
    return _chosen(candidates[-1].inner("model"), size)


def _wavenet(model: Fields) -> WaveNet:
    architecture = model.text("architecture")
    if architecture != WAVENET:
        raise model.error("architecture", f"'{architecture}' is not supported, only {WAVENET}")
    config = model.inner("config")
    condition = config.inner("condition_dsp") if config.has("condition_dsp") else None
    return WaveNet(
        input_channels=config.integer("in_channels", 1),
        arrays=tuple(map(_array, config.inners("layers"))),
        head=_head(config.inner("head")) if config.has("head") else None,
        condition=None if condition is None else _wavenet(condition),
        path=model.path,
        weights=_weights(model),
    )


def _weights(model: Fields) -> Array:
    values = model.array("weights")
    if any(type(value) not in (int, float) or not math.isfinite(value) for value in values):
        raise model.error("weights", "holds something that is no finite number")
    return np.array(values, np.float32)


def _array(fields: Fields) -> LayerArray:
    if fields.has("slimmable"):
        raise fields.error("slimmable", "is not supported")
    channels = fields.integer("channels")
    head = fields.inner("head") if fields.has("head") else None
    layers = _layers(fields)
    return LayerArray(
        input_channels=fields.integer("input_size"),
        condition_channels=fields.integer("condition_size"),
        channels=channels,
        bottleneck=fields.integer("bottleneck", channels),
        layers=layers,
        groups=fields.integer("groups_input", 1),
        mixin_groups=fields.integer("groups_input_mixin", 1),
        layer1x1=_one_by_one(fields, "layer1x1", channels, active=True),
        head1x1=_one_by_one(fields, "head1x1", channels, active=False),
        films=_films(fields, layers),
        head_channels=fields.integer("head_size") if head is None else head.integer("out_channels"),
        head_kernel_size=1 if head is None else head.integer("kernel_size"),
        head_dilation=1 if head is None else head.integer("head_dilation", 1),
        head_bias=fields.flag("head_bias") if head is None else head.flag("bias"),
    )


def _layers(fields: Fields) -> tuple[Layer, ...]:
    dilations = fields.integers("dilations")
    count = len(dilations)
    if fields.has("kernel_sizes") == fields.has("kernel_size"):
        raise fields.error("kernel_size", "or else kernel_sizes is expected")
    sizes = (
        _as_many(fields, "kernel_sizes", fields.integers("kernel_sizes"), count)
        if fields.has("kernel_sizes")
        else [fields.integer("kernel_size")] * count
    )
    activations = [
        read_activation(fields, "activation", value) for value in _each(fields, "activation", count)
    ]
    gatings = _gatings(fields, count)
    seconds = _each(fields, "secondary_activation", count, "Sigmoid")
    return tuple(
        Layer(
            kernel_size=sizes[i],
            dilation=dilations[i],
            activation=activations[i],
            gating=gatings[i],
            second_activation=_second(fields, gatings[i], seconds[i]),
        )
        for i in range(count)
    )


def _second(fields: Fields, gating: Gating, value: Any) -> Activation | None:
    if gating is Gating.NONE:
        return None
    return read_activation(fields, "secondary_activation", value)


def _gatings(fields: Fields, count: int) -> list[Gating]:
    if not fields.has("gating_mode"):
        return [Gating.GATED if fields.flag("gated", False) else Gating.NONE] * count
    modes = {mode.value: mode for mode in Gating}
    names = _each(fields, "gating_mode", count)
    for name in names:
        if name not in modes:
            raise fields.error("gating_mode", f"is {name!r}; known are {', '.join(modes)}")
    return [modes[name] for name in names]


def _each(fields: Fields, key: str, count: int, default: Any = None) -> Sequence[Any]:
    """What a field says for each layer: a list, or one value for all."""
    value = fields.raw(key, default) if default is not None else fields.raw(key)
    if not isinstance(value, list):
        return [value] * count
    return _as_many(fields, key, fields.array(key), count)


def _as_many(fields: Fields, key: str, values: Sequence[Any], count: int) -> Sequence[Any]:
    if len(values) != count:
        raise fields.error(key, f"has {len(values)} entries for {count} dilations")
    return values


def _one_by_one(fields: Fields, key: str, channels: int, *, active: bool) -> OneByOne | None:
    """A 1x1 convolution that a layer may have, by default one of `channels` channels."""
    if not fields.has(key):
        return OneByOne(channels, 1) if active else None
    inner = fields.inner(key)
    if not inner.flag("active", active):
        return None
    return OneByOne(inner.integer("out_channels", channels), inner.integer("groups", 1))


def _films(fields: Fields, layers: Sequence[Layer]) -> dict[str, Film]:
    films: dict[str, Film] = {}
    for key in FILMS:
        if not fields.has(key) or fields.raw(key) is False:
            continue
        inner = fields.inner(key)
        if inner.flag("active", True):
            films[key] = Film(inner.flag("shift", True), inner.integer("groups", 1))
    for key, owner in (("layer1x1_post_film", "layer1x1"), ("head1x1_post_film", "head1x1")):
        if key in films and _one_by_one(fields, owner, 1, active=owner == "layer1x1") is None:
            raise fields.error(key, f"is active without a {owner}")
    return films


def _head(fields: Fields) -> Head:
    activation = read_activation(fields, "activation", fields.raw("activation"))
    if activation.kind == PRELU:
        raise fields.error("activation", "with a slope for each channel is not supported")
    return Head(
        channels=fields.integer("channels"),
        output_channels=fields.integer("out_channels"),
        kernel_sizes=fields.integers("kernel_sizes"),
        activation=activation,
    )
